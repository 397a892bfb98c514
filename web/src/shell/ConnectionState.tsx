import { clock } from "../lib/format";
import { useLive, useNow } from "../live";
import { isQuiet, type Phase } from "../live/machine";
import { Glyph } from "../ui/Glyph";

const LOOK: Record<Phase, { word: string; className: string; isOpen: boolean; hint: string }> = {
  live: { word: "live", className: "", isOpen: false, hint: "Events arrive as they happen" },
  connecting: { word: "connecting", className: "is-off", isOpen: true, hint: "Waiting for the first answer" },
  reconnecting: { word: "reconnecting", className: "is-slow", isOpen: true, hint: "The event stream is interrupted" },
  polling: {
    word: "polling",
    className: "is-slow",
    isOpen: true,
    hint: "The event stream is refused; data is read every 5 s",
  },
  down: { word: "down", className: "is-down", isOpen: true, hint: "The coordinator does not answer" },
  "signed-out": { word: "signed out", className: "is-off", isOpen: true, hint: "Sign in to see the fleet" },
};

/** Text, shape and colour; always in view. */
export function ConnectionState() {
  const state = useLive();
  const now = useNow(state.phase === "live" ? 60_000 : 500);
  const look = LOOK[state.phase];
  const quiet = isQuiet(state, now);
  return (
    <span className={`conn ${look.className}`} role="status" title={look.hint} data-phase={state.phase}>
      <Glyph name={look.isOpen ? "ring" : "dot"} />
      {quiet ? "live" : look.word}
      {state.phase === "down" && state.asOf !== null && <span className="only-wide">· as of {clock(state.asOf)}</span>}
    </span>
  );
}
