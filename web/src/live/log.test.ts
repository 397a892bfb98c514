import { describe, expect, it } from "vitest";
import { LogBuffer, logUrl } from "./log";

const bytes = (text: string) => new TextEncoder().encode(text);

describe("the log buffer", () => {
  it("joins lines and characters across chunks", () => {
    const buffer = new LogBuffer();
    const data = bytes("one\ntwö\nthr");
    buffer.push(data.slice(0, 7));
    buffer.push(data.slice(7));
    expect([buffer.line(0), buffer.line(1), buffer.line(2), buffer.count]).toEqual(["one", "twö", "thr", 3]);
    buffer.push(bytes("ee\n"));
    expect([buffer.line(2), buffer.count, buffer.bytes]).toEqual(["three", 3, data.length + 3]);
  });
  it("drops the oldest lines of a huge log and keeps their number", () => {
    const buffer = new LogBuffer();
    buffer.push(bytes("x\n".repeat(250_000)));
    expect(buffer.lines.length + buffer.dropped).toBe(250_000);
    expect(buffer.lines.length).toBe(200_000);
  });
  it("resumes at a byte and escapes the id", () => {
    expect(logUrl("a/b", 3, 10, true)).toBe("/api/fleet/jobs/a%2Fb/logs?offset=10&follow=true&epoch=3");
  });
});
