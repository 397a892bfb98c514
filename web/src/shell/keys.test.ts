import { describe, expect, it } from "vitest";
import { type Binding, keyName, match } from "./keys";

const bind = (keys: string): Binding => ({ keys, label: keys, group: "x", run: () => {} });
const bindings = [bind("g f"), bind("c"), bind("Mod-k")];

describe("keys", () => {
  it("waits for the second key of a sequence", () => {
    expect(match(["g"], bindings)).toEqual({ run: undefined, isPrefix: true });
    expect(match(["g", "f"], bindings).run?.keys).toBe("g f");
    expect(match(["g", "x"], bindings)).toEqual({ run: undefined, isPrefix: false });
  });
  it("names Ctrl and ⌘ alike and ignores Alt", () => {
    expect(keyName(new KeyboardEvent("keydown", { key: "k", ctrlKey: true }))).toBe("Mod-k");
    expect(keyName(new KeyboardEvent("keydown", { key: "K", metaKey: true }))).toBe("Mod-k");
    expect(keyName(new KeyboardEvent("keydown", { key: "c", altKey: true }))).toBeNull();
    expect(keyName(new KeyboardEvent("keydown", { key: "?", shiftKey: true }))).toBe("?");
  });
});
