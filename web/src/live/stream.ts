import { createParser } from "eventsource-parser";

export type Frame = { id: string | null; event: string; data: string };

export type StreamEnd = { kind: "lost" } | { kind: "refused"; status: number } | { kind: "unauthenticated" };

export type StreamOptions = {
  url: string;
  headers: Record<string, string>;
  lastEventId: string | null;
  signal: AbortSignal;
  onOpen: () => void;
  onFrame: (frame: Frame) => void;
  /** Any bytes, keep-alive comments included. */
  onAlive: () => void;
};

/** The keep-alive interval until `hello` names another one. */
const KEEP_ALIVE_MS = 15_000;
/** Silence for this many intervals means a broken connection: half-open ones report no error. */
const SILENT_INTERVALS = 2.5;

/** Reads one event stream until it ends. Never throws. `fetch`, because `EventSource` hides the status code. */
export async function readStream(options: StreamOptions): Promise<StreamEnd> {
  const abort = new AbortController();
  const stop = () => abort.abort();
  options.signal.addEventListener("abort", stop, { once: true });
  let silence = KEEP_ALIVE_MS * SILENT_INTERVALS;
  let watchdog: ReturnType<typeof setTimeout> | undefined;
  const alive = () => {
    clearTimeout(watchdog);
    watchdog = setTimeout(stop, silence);
  };
  const parser = createParser({
    onEvent(event) {
      if (event.event === "hello") silence = keepAlive(event.data) * SILENT_INTERVALS;
      options.onFrame({ id: event.id ?? null, event: event.event ?? "message", data: event.data });
    },
  });
  try {
    alive();
    const headers: Record<string, string> = { accept: "text/event-stream", ...options.headers };
    if (options.lastEventId !== null) headers["last-event-id"] = options.lastEventId;
    const response = await fetch(options.url, { headers, signal: abort.signal, cache: "no-store" });
    if (response.status === 401) return { kind: "unauthenticated" };
    if (!response.ok || response.body === null) return { kind: "refused", status: response.status };
    options.onOpen();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return { kind: "lost" };
      alive();
      options.onAlive();
      parser.feed(value);
    }
  } catch {
    return { kind: "lost" };
  } finally {
    clearTimeout(watchdog);
    options.signal.removeEventListener("abort", stop);
  }
}

function keepAlive(data: string): number {
  try {
    const hello: unknown = JSON.parse(data);
    if (
      typeof hello === "object" &&
      hello !== null &&
      "keepAliveSeconds" in hello &&
      typeof hello.keepAliveSeconds === "number"
    ) {
      return Math.max(1_000, hello.keepAliveSeconds * 1_000);
    }
  } catch {
    // A later version may send something else in `hello`.
  }
  return KEEP_ALIVE_MS;
}
