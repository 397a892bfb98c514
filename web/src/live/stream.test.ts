import { afterEach, describe, expect, it, vi } from "vitest";
import { type Frame, readStream } from "./stream";

function body(...chunks: string[]): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  return new ReadableStream({
    start(controller) {
      for (const chunk of chunks) controller.enqueue(encoder.encode(chunk));
      controller.close();
    },
  });
}

function read(response: () => Promise<Response> | Response, lastEventId: string | null = null) {
  const fetched = vi.fn(async (_url: string, init: RequestInit) => {
    const stopped = new Promise<never>((_, reject) => {
      init.signal?.addEventListener("abort", () => reject(new DOMException("", "AbortError")));
    });
    return Promise.race([Promise.resolve(response()), stopped]);
  });
  vi.stubGlobal("fetch", fetched);
  const frames: Frame[] = [];
  const opened = vi.fn();
  const end = readStream({
    url: "/s",
    headers: { "x-giga-session": "s" },
    lastEventId,
    signal: new AbortController().signal,
    onOpen: opened,
    onAlive: () => {},
    onFrame: (frame) => frames.push(frame),
  });
  return { end, frames, opened, fetched };
}

describe("reading a stream", () => {
  afterEach(() => {
    vi.unstubAllGlobals();
    vi.useRealTimers();
  });

  it("reads frames across chunk borders and reports the end", async () => {
    const { end, frames, opened } = read(
      () => new Response(body("id: 7\nevent: hello\nda", 'ta: {}\n\n: alive\n\nid: 8\nevent: job\ndata: {"a":1}\n\n')),
    );
    expect(await end).toEqual({ kind: "lost" });
    expect(opened).toHaveBeenCalledOnce();
    expect(frames).toEqual([
      { id: "7", event: "hello", data: "{}" },
      { id: "8", event: "job", data: '{"a":1}' },
    ]);
  });

  it("sends the session and resumes behind the last event", async () => {
    const { end, fetched } = read(() => new Response(body()), "0.42");
    await end;
    expect(fetched.mock.calls[0]?.[1].headers).toMatchObject({ "x-giga-session": "s", "last-event-id": "0.42" });
  });

  it("tells a rejected session from an outage", async () => {
    expect(await read(() => new Response(null, { status: 401 })).end).toEqual({ kind: "unauthenticated" });
    expect(await read(() => new Response(null, { status: 503 })).end).toEqual({ kind: "refused", status: 503 });
    expect(await read(() => Promise.reject(new TypeError("network"))).end).toEqual({ kind: "lost" });
  });

  it("gives up on a silent connection after 2.5 keep-alive intervals", async () => {
    vi.useFakeTimers();
    const { end } = read(() => new Promise<Response>(() => {}));
    await vi.advanceTimersByTimeAsync(37_000);
    let isOver = false;
    void end.then(() => {
      isOver = true;
    });
    await vi.advanceTimersByTimeAsync(0);
    expect(isOver).toBe(false);
    await vi.advanceTimersByTimeAsync(1_000);
    expect(await end).toEqual({ kind: "lost" });
  });
});
