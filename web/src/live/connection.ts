import { sessionHeaders, sessionRejected } from "../api/session";
import { backoff, type Input, type LiveState } from "./machine";
import { type Frame, readStream } from "./stream";

export type ConnectionPort = {
  state: () => LiveState;
  input: (input: Input) => void;
  frames: (frame: Frame) => void;
  lastEventId: () => string | null;
};

const URL_PATH = "/api/fleet/events/stream";

/** Keeps one stream open until `signal` aborts. `wake` ends the current wait. */
export class Connection {
  #wake: (() => void) | null = null;

  constructor(readonly port: ConnectionPort) {}

  wake() {
    this.#wake?.();
  }

  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      if (this.port.state().phase === "signed-out") {
        await this.#wait(null, signal);
        continue;
      }
      const end = await readStream({
        url: URL_PATH,
        headers: sessionHeaders(),
        lastEventId: this.port.lastEventId(),
        signal,
        onOpen: () => this.port.input({ kind: "opened" }),
        onAlive: () => this.port.input({ kind: "frame" }),
        onFrame: (frame) => this.port.frames(frame),
      });
      if (signal.aborted) return;
      if (end.kind === "unauthenticated") {
        sessionRejected();
        this.port.input({ kind: "unauthenticated" });
        continue;
      }
      const { attempts, brokenSince } = this.port.state();
      const now = Date.now();
      const delay = backoff(attempts, brokenSince === null ? 0 : now - brokenSince, Math.random());
      this.port.input({ kind: "lost", nextAttemptAt: now + delay });
      await this.#wait(delay, signal);
    }
  }

  #wait(ms: number | null, signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const timer = ms === null ? undefined : setTimeout(done, ms);
      const self = this;
      function done() {
        clearTimeout(timer);
        signal.removeEventListener("abort", done);
        self.#wake = null;
        resolve();
      }
      signal.addEventListener("abort", done, { once: true });
      this.#wake = done;
    });
  }
}
