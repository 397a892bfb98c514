import { describe, expect, it } from "vitest";
import { insertKey } from "./frontMatter";

const TEXT = "---\ntitle: x\nrepo: \n---\n\nBody with repo: word\n";

describe("inserting into the front matter", () => {
  it("sets a key that is there and adds one that is not", () => {
    expect(insertKey(TEXT, { key: "repo", value: "web" })).toBe(
      "---\ntitle: x\nrepo: web\n---\n\nBody with repo: word\n",
    );
    expect(insertKey(TEXT, { key: "engine", value: "claude" })).toContain("repo: \nengine: claude\n---");
  });
  it("collects capabilities once", () => {
    let text = insertKey(TEXT, { key: "capabilities", value: "os:linux" });
    text = insertKey(text, { key: "capabilities", value: "node:20" });
    text = insertKey(text, { key: "capabilities", value: "node:20" });
    expect(text).toContain('capabilities: ["os:linux", "node:20"]\n');
  });
  it("writes a front matter where there is none", () => {
    expect(insertKey("hello", { key: "repo", value: "web" })).toBe("---\nrepo: web\n---\n\nhello");
  });
});
