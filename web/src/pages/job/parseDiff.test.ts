import { describe, expect, it } from "vitest";
import { parseDiff } from "./parseDiff";

const DIFF = `diff --git a/a.md b/a.md
index 1..2 100644
--- a/a.md
+++ b/a.md
@@ -1,3 +1,3 @@ head
 same
-old
+new
 end
diff --git a/x.bin b/x.bin
new file mode 100644
Binary files /dev/null and b/x.bin differ
`;

describe("unified diffs", () => {
  it("numbers the lines of both sides", () => {
    const [file] = parseDiff(DIFF);
    expect(file).toMatchObject({ name: "a.md", added: 1, removed: 1 });
    expect(file?.rows.map((row) => [row.kind, row.old, row.new])).toEqual([
      ["hunk", undefined, undefined],
      ["same", 1, 1],
      ["del", 2, undefined],
      ["add", undefined, 2],
      ["same", 3, 3],
    ]);
  });
  it("keeps notes about binary and new files", () => {
    expect(parseDiff(DIFF)[1]?.rows.map((row) => row.text)).toEqual([
      "new file mode 100644",
      "Binary files /dev/null and b/x.bin differ",
    ]);
  });
  it("survives a diff that was cut in the middle", () => {
    expect(parseDiff(DIFF.slice(0, 80)).length).toBe(1);
    expect(parseDiff("garbage")).toEqual([]);
  });
});
