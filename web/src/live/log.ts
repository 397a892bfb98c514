// The output of one run: its tail first, then as a stream while its page is visible, resumed at the byte where it stopped.

import { useEffect, useRef, useSyncExternalStore } from "react";
import { toApiError, unreachable } from "../api/problem";
import { sessionHeaders } from "../api/session";
import { usePhase } from "./index";

/** More lines than this are dropped at the top; the download always has all of them. */
const LINES_MAX = 200_000;
/** More of one line is counted but not kept: a browser cannot show it. */
const LINE_CHARS_MAX = 16_384;
const NOTIFY_MS = 60;
/** How much is read at first. The coordinator cuts it at the start of a line. */
export const TAIL_BYTES = 256 * 1024;

export class LogBuffer {
  lines: string[] = [];
  /** Lines that were read and dropped at the top. */
  dropped = 0;
  /** Where the first byte of `lines` is in the log; above 0 when only the tail was read. */
  start = 0;
  /** The next byte to read. `null` before the first answer. */
  next: number | null = null;
  isComplete = false;
  error: unknown = null;
  epoch: string | null = null;
  hasAnswer = false;
  version = 0;
  #partial = "";
  #partialExtra = 0;
  #decoder = new TextDecoder();
  readonly #listeners = new Set<() => void>();
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(readonly isWhole = false) {}

  begin(offset: number) {
    if (this.next === null) {
      this.start = offset;
      this.next = offset;
    }
  }

  push(chunk: Uint8Array) {
    this.next = (this.next ?? 0) + chunk.length;
    const parts = this.#decoder.decode(chunk, { stream: true }).split("\n");
    parts.forEach((part, index) => {
      this.#extend(part);
      if (index < parts.length - 1) this.#endLine();
    });
    if (this.lines.length > LINES_MAX * 1.1) {
      const extra = this.lines.length - LINES_MAX;
      this.lines.splice(0, extra);
      this.dropped += extra;
    }
    this.changed();
  }

  #extend(part: string) {
    const room = LINE_CHARS_MAX - this.#partial.length;
    if (part.length <= room) this.#partial += part;
    else {
      this.#partial += part.slice(0, Math.max(0, room));
      this.#partialExtra += part.length - Math.max(0, room);
    }
  }

  #endLine() {
    this.lines.push(this.#current());
    this.#partial = "";
    this.#partialExtra = 0;
  }

  #current(): string {
    return this.#partialExtra === 0 ? this.#partial : `${this.#partial} … ${this.#partialExtra} more characters`;
  }

  /** The last line may have no newline yet. */
  get count(): number {
    return this.lines.length + (this.#partial === "" ? 0 : 1);
  }

  line(index: number): string {
    return this.lines[index] ?? this.#current();
  }

  changed() {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      this.version += 1;
      for (const listener of this.#listeners) listener();
    }, NOTIFY_MS);
  }

  subscribe = (listener: () => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };
}

type From = { offset: number } | { tail: number };

export function logUrl(id: string, epoch: number | undefined, from: From, follow: boolean): string {
  const query = new URLSearchParams({ follow: String(follow) });
  if ("tail" in from) query.set("tail", String(from.tail));
  else query.set("offset", String(from.offset));
  if (epoch !== undefined) query.set("epoch", String(epoch));
  return `/api/fleet/jobs/${encodeURIComponent(id)}/logs?${query}`;
}

async function read(buffer: LogBuffer, id: string, epoch: number | undefined, signal: AbortSignal) {
  try {
    const from = buffer.next !== null ? { offset: buffer.next } : buffer.isWhole ? { offset: 0 } : { tail: TAIL_BYTES };
    const response = await fetch(logUrl(id, epoch, from, true), {
      headers: sessionHeaders(),
      signal,
      cache: "no-store",
    });
    if (!response.ok) throw toApiError(response, await response.json().catch(() => null));
    buffer.begin(Number(response.headers.get("x-log-offset") ?? 0) || 0);
    buffer.epoch = response.headers.get("x-log-epoch");
    buffer.hasAnswer = true;
    buffer.error = null;
    buffer.changed();
    const reader = response.body?.getReader();
    for (;;) {
      const piece = await reader?.read();
      if (piece === undefined || piece.done) break;
      buffer.push(piece.value);
    }
    buffer.isComplete = true;
  } catch (error) {
    if (signal.aborted) return;
    buffer.error = error instanceof TypeError ? unreachable() : error;
  }
  buffer.changed();
}

/** The log of a run, by its epoch; of the latest run that printed anything when absent. */
export function useLog(id: string, epoch: number | undefined, isWhole = false): LogBuffer {
  const key = `${id}:${epoch ?? ""}:${isWhole}`;
  const ref = useRef<{ key: string; buffer: LogBuffer } | null>(null);
  if (ref.current?.key !== key) ref.current = { key, buffer: new LogBuffer(isWhole) };
  const { buffer } = ref.current;
  const phase = usePhase();
  const isUp = phase === "live" || phase === "polling" || phase === "connecting";

  useEffect(() => {
    if (!isUp) return;
    let abort: AbortController | null = null;
    const sync = () => {
      if (document.visibilityState === "visible" && abort === null && !buffer.isComplete) {
        abort = new AbortController();
        void read(buffer, id, epoch, abort.signal);
      } else if (document.visibilityState === "hidden") {
        abort?.abort();
        abort = null;
      }
    };
    sync();
    document.addEventListener("visibilitychange", sync);
    return () => {
      document.removeEventListener("visibilitychange", sync);
      abort?.abort();
    };
  }, [buffer, id, epoch, isUp]);

  useSyncExternalStore(buffer.subscribe, () => buffer.version);
  return buffer;
}
