import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { setModes } from "../../api/actions";
import { flagsQuery } from "../../api/queries";
import type { DispatchModes, Mode } from "../../api/types";
import { queries } from "../../live";
import { WriteButton } from "../../ui/Button";
import { Confirm } from "../../ui/Confirm";
import { Glyph } from "../../ui/Glyph";
import { QueryPanel } from "../../ui/Panel";
import { say } from "../../ui/toasts";

const MODES: Record<Mode, string> = {
  push: "The coordinator offers each job to the best factory at once",
  poll: "Factories claim jobs on a timer",
  gate: "Factories claim jobs when the queue has changed",
  shadow: "Factories claim; the coordinator records what it would have offered",
  "self-select": "Factories choose among the queued jobs themselves",
};

export function Modes() {
  const query = useQuery(flagsQuery);
  const [next, setNext] = useState<Mode | null>(null);
  return (
    <QueryPanel title="Mode" query={query} sub={() => "how factories get work"}>
      {(flags) => (
        <>
          {(Object.keys(MODES) as Mode[]).map((mode) => (
            <div
              key={mode}
              className={`mode ${mode === flags.mode ? "is-on" : ""}`}
              aria-current={mode === flags.mode ? "true" : undefined}
            >
              <span className={mode === flags.mode ? "st-building" : "dim"}>
                <Glyph name={mode === flags.mode ? "dot" : "queued"} />
              </span>
              <span className="n">{mode}</span>
              <span className="d dim">{MODES[mode]}</span>
              {mode === flags.mode ? (
                <span className="small dim">in force</span>
              ) : (
                <WriteButton small onClick={() => setNext(mode)}>
                  Switch…
                </WriteButton>
              )}
            </div>
          ))}
          <Products flags={flags} />
          {next !== null && <Switch flags={flags} next={next} onClose={() => setNext(null)} />}
        </>
      )}
    </QueryPanel>
  );
}

function Products({ flags }: { flags: DispatchModes }) {
  const own = Object.entries(flags.products ?? {});
  if (own.length === 0) return null;
  return (
    <p className="panel-f small">
      Products with a mode of their own: {own.map(([id, mode]) => `${id} ${mode}`).join(", ")}
    </p>
  );
}

function Switch({ flags, next, onClose }: { flags: DispatchModes; next: Mode; onClose: () => void }) {
  return (
    <Confirm
      title={`Switch the fleet to ${next}?`}
      verb={`Switch to ${next}`}
      typed={next}
      onClose={onClose}
      act={async () => {
        await setModes({ ...flags, mode: next });
        await queries.invalidateQueries({ queryKey: ["flags"] });
        say(`The fleet is in mode ${next}`, `Back with: giga mode ${flags.mode}`);
      }}
    >
      <p>{MODES[next]}. Open offers stay valid and running jobs continue.</p>
      <p className="dim">
        To go back, switch to {flags.mode} here or run <code>giga mode {flags.mode}</code>.
      </p>
    </Confirm>
  );
}
