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
    expect([buffer.line(2), buffer.count, buffer.next]).toEqual(["three", 3, data.length + 3]);
  });
  it("drops the oldest lines of a huge log and keeps their number", () => {
    const buffer = new LogBuffer();
    buffer.push(bytes("x\n".repeat(250_000)));
    expect(buffer.lines.length + buffer.dropped).toBe(250_000);
    expect(buffer.lines.length).toBe(200_000);
  });
  it("keeps the start of a line of ten million characters and counts the rest", () => {
    const buffer = new LogBuffer();
    for (let index = 0; index < 160; index += 1) buffer.push(bytes("x".repeat(65_536)));
    buffer.push(bytes("\nend\n"));
    expect(buffer.line(0).length).toBeLessThan(17_000);
    expect(buffer.line(0)).toContain(`${160 * 65_536 - 16_384} more characters`);
    expect([buffer.line(1), buffer.count]).toEqual(["end", 2]);
  });
  it("resumes at a byte and escapes the id", () => {
    expect(logUrl("a/b", 3, { offset: 10 }, true)).toBe("/api/fleet/jobs/a%2Fb/logs?follow=true&offset=10&epoch=3");
  });
});
