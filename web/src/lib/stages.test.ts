import { describe, expect, it } from "vitest";
import { withReasonWords } from "./stages";

describe("the code of a reason in a sentence", () => {
  it("becomes words", () => {
    expect(withReasonWords("dead-lettered (retries_exhausted): exit code 9")).toBe(
      "dead-lettered (retries exhausted): exit code 9",
    );
  });
  it("stays when it is none", () => {
    expect(withReasonWords("asks: call foo(some_value)?")).toBe("asks: call foo(some_value)?");
    expect(withReasonWords("asks: what is (constructor)?")).toBe("asks: what is (constructor)?");
  });
});
