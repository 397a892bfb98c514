// The output of one run: read as a stream while its page is visible, resumed at the byte where it stopped.

import { useEffect, useRef, useSyncExternalStore } from "react";
import { toApiError, unreachable } from "../api/problem";
import { sessionHeaders } from "../api/session";
import { usePhase } from "./index";

/** More lines than this are dropped at the top; the download always has all of them. */
const LINES_MAX = 200_000;
const NOTIFY_MS = 60;

export class LogBuffer {
  lines: string[] = [];
  dropped = 0;
  bytes = 0;
  isComplete = false;
  error: unknown = null;
  epoch: string | null = null;
  hasAnswer = false;
  version = 0;
  #partial = "";
  #decoder = new TextDecoder();
  readonly #listeners = new Set<() => void>();
  #timer: ReturnType<typeof setTimeout> | undefined;

  push(chunk: Uint8Array) {
    this.bytes += chunk.length;
    const parts = (this.#partial + this.#decoder.decode(chunk, { stream: true })).split("\n");
    this.#partial = parts.pop() ?? "";
    for (const part of parts) this.lines.push(part);
    if (this.lines.length > LINES_MAX * 1.1) {
      const extra = this.lines.length - LINES_MAX;
      this.lines.splice(0, extra);
      this.dropped += extra;
    }
    this.changed();
  }

  /** The last line may have no newline yet. */
  get count(): number {
    return this.lines.length + (this.#partial === "" ? 0 : 1);
  }

  line(index: number): string {
    return this.lines[index] ?? this.#partial;
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

export function logUrl(id: string, epoch: number | undefined, offset: number, follow: boolean): string {
  const query = new URLSearchParams({ offset: String(offset), follow: String(follow) });
  if (epoch !== undefined) query.set("epoch", String(epoch));
  return `/api/fleet/jobs/${encodeURIComponent(id)}/logs?${query}`;
}

async function read(buffer: LogBuffer, id: string, epoch: number | undefined, signal: AbortSignal) {
  try {
    const response = await fetch(logUrl(id, epoch, buffer.bytes, true), {
      headers: sessionHeaders(),
      signal,
      cache: "no-store",
    });
    if (!response.ok) throw toApiError(response, await response.json().catch(() => null));
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
export function useLog(id: string, epoch: number | undefined): LogBuffer {
  const key = `${id}:${epoch ?? ""}`;
  const ref = useRef<{ key: string; buffer: LogBuffer } | null>(null);
  if (ref.current?.key !== key) ref.current = { key, buffer: new LogBuffer() };
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
