// One stream per browser: the tab that holds the lock `giga-stream` reads it and relays frames and state to the others.

import { Connection } from "./connection";
import { type Input, initialState, type LiveState, step } from "./machine";
import type { Frame } from "./stream";

type Message =
  | { kind: "state"; state: LiveState }
  | { kind: "frame"; frame: Frame }
  | { kind: "input"; input: Input }
  | { kind: "retry" }
  | { kind: "hello" };

export type LiveOptions = {
  onState: (state: LiveState) => void;
  onFrame: (frame: Frame) => void;
};

const LOCK = "giga-stream";
const CHANNEL = "giga-live";
const TICK_MS = 500;

export class Live {
  #state = initialState(Date.now());
  #lastEventId: string | null = null;
  #isLeader = false;
  #abort = new AbortController();
  #ticker: ReturnType<typeof setInterval> | undefined;
  readonly #channel = typeof BroadcastChannel === "undefined" ? null : new BroadcastChannel(CHANNEL);
  readonly #connection: Connection;

  constructor(readonly options: LiveOptions) {
    this.#connection = new Connection({
      state: () => this.#state,
      input: (input) => this.#step(input),
      frames: (frame) => this.#receive(frame, true),
      lastEventId: () => this.#lastEventId,
    });
    this.#channel?.addEventListener("message", (event: MessageEvent<Message>) => this.#hear(event.data));
    this.#channel?.postMessage({ kind: "hello" } satisfies Message);
    addEventListener("online", () => this.retry());
    document.addEventListener("visibilitychange", () => {
      if (document.visibilityState === "visible" && this.#state.phase !== "live") this.retry();
    });
    void this.#lead();
    this.#watch();
  }

  get state(): LiveState {
    return this.#state;
  }

  /** Tries now instead of at the next attempt. */
  retry() {
    if (this.#isLeader) this.#connection.wake();
    else this.#channel?.postMessage({ kind: "retry" } satisfies Message);
  }

  /** What a read or the session learned about the coordinator. */
  input(input: Input) {
    if (this.#isLeader) {
      this.#step(input);
      if (input.kind === "signed-in") this.#connection.wake();
    } else this.#channel?.postMessage({ kind: "input", input } satisfies Message);
  }

  close() {
    this.#abort.abort();
    clearInterval(this.#ticker);
    this.#channel?.close();
  }

  async #lead() {
    const run = async () => {
      this.#isLeader = true;
      await this.#connection.run(this.#abort.signal);
    };
    if (typeof navigator !== "undefined" && "locks" in navigator && this.#channel !== null) {
      await navigator.locks.request(LOCK, { signal: this.#abort.signal }, run).catch(() => undefined);
    } else await run();
  }

  #hear(message: Message) {
    switch (message.kind) {
      case "state":
        if (!this.#isLeader) this.#set(message.state);
        break;
      case "frame":
        if (!this.#isLeader) this.#receive(message.frame, false);
        break;
      case "input":
        if (this.#isLeader) this.input(message.input);
        break;
      case "retry":
        if (this.#isLeader) this.#connection.wake();
        break;
      case "hello":
        if (this.#isLeader) this.#channel?.postMessage({ kind: "state", state: this.#state } satisfies Message);
        break;
      default:
        message satisfies never;
    }
  }

  #receive(frame: Frame, relay: boolean) {
    if (frame.id !== null) this.#lastEventId = frame.id;
    if (relay) this.#channel?.postMessage({ kind: "frame", frame } satisfies Message);
    this.options.onFrame(frame);
  }

  #step(input: Input) {
    const next = step(this.#state, input, Date.now());
    if (next === this.#state) return;
    // A keep-alive only moves the age of the data: no other tab and no component needs it while live.
    const isNews = next.phase !== this.#state.phase || next.phase !== "live";
    this.#set(next, isNews);
    if (isNews) this.#channel?.postMessage({ kind: "state", state: next } satisfies Message);
  }

  #set(state: LiveState, notify = true) {
    this.#state = state;
    this.#watch();
    if (notify) this.options.onState(state);
  }

  /** The clock runs only while the stream is broken. */
  #watch() {
    const isBroken = this.#state.phase !== "live" && this.#state.phase !== "signed-out";
    if (isBroken) this.#ticker ??= setInterval(() => this.#step({ kind: "tick" }), TICK_MS);
    else {
      clearInterval(this.#ticker);
      this.#ticker = undefined;
    }
  }
}
