import { useQuery } from "@tanstack/react-query";
import { useId, useState } from "react";
import { setModes } from "../../api/actions";
import { flagsQuery, productsQuery } from "../../api/queries";
import type { DispatchModes, Mode } from "../../api/types";
import { queries } from "../../live";
import { useKeys } from "../../shell/keys";
import { WriteButton } from "../../ui/Button";
import { Confirm } from "../../ui/Confirm";
import { Glyph } from "../../ui/Glyph";
import { QueryPanel } from "../../ui/Panel";
import { say, sayError } from "../../ui/toasts";

const MODES = {
  push: "The coordinator offers each job to the best factory at once",
  gate: "Factories claim jobs when the queue has changed",
  poll: "Factories claim jobs on a timer",
  shadow: "Factories claim jobs on a timer, and push is compared with that",
  "self-select": "Jobs are announced to factories, which claim them by id",
} as const satisfies Record<Mode, string>;
type Offered = keyof typeof MODES;
const OFFERED = Object.keys(MODES) as Offered[];

export function Modes() {
  const query = useQuery(flagsQuery);
  const [next, setNext] = useState<Offered | null>(null);
  const current = query.data?.mode;
  useKeys([
    {
      keys: "m",
      label: "Switch the mode",
      group: "Dispatch",
      run: () => setNext(OFFERED.find((mode) => mode !== current) ?? null),
    },
  ]);
  return (
    <QueryPanel
      title="Mode"
      query={query}
      sub={() => "how factories get work"}
      footer={(flags) => (
        <span>
          A switch loses nothing: open offers stay valid, running jobs continue. To switch in a terminal:{" "}
          <code>giga mode {OFFERED.find((mode) => mode !== flags.mode)}</code>
        </span>
      )}
    >
      {(flags) => (
        <>
          {OFFERED.map((mode) => (
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
                <WriteButton small onClick={() => setNext(mode)} aria-label={`Switch to ${mode}`}>
                  Switch…
                </WriteButton>
              )}
            </div>
          ))}
          <OwnModes flags={flags} />
          <Preemption flags={flags} />
          {next !== null && <Switch flags={flags} next={next} onClose={() => setNext(null)} />}
        </>
      )}
    </QueryPanel>
  );
}

async function save(modes: DispatchModes) {
  await setModes(modes);
  await queries.invalidateQueries({ queryKey: ["flags"] });
}

function OwnModes({ flags }: { flags: DispatchModes }) {
  const own = Object.entries(flags.products ?? {});
  async function reset(product: string) {
    const products = { ...flags.products };
    delete products[product];
    try {
      await save({ ...flags, products });
      say(`${product} follows the fleet: ${flags.mode}`);
    } catch (error) {
      sayError("Not changed", error);
    }
  }
  return own.map(([product, mode]) => (
    <div key={product} className="mode">
      <span className="dim">
        <Glyph name="dot" />
      </span>
      <span className="n">{mode}</span>
      <span className="d">
        product {product} <span className="dim">has a mode of its own</span>
      </span>
      <WriteButton small onClick={() => void reset(product)}>
        Follow the fleet
      </WriteButton>
    </div>
  ));
}

function Preemption({ flags }: { flags: DispatchModes }) {
  const isOn = flags.preemption === true;
  const [asks, setAsks] = useState(false);
  return (
    <div className={`mode ${isOn ? "is-on" : ""}`}>
      <span className={isOn ? "st-building" : "dim"}>
        <Glyph name={isOn ? "dot" : "queued"} />
      </span>
      <span className="n">preemption</span>
      <span className="d dim">
        {isOn
          ? "On: a critical job without a seat takes that of a preemptible one"
          : "Off: critical jobs wait for a free seat"}
      </span>
      <WriteButton small onClick={() => setAsks(true)}>
        {isOn ? "Switch preemption off…" : "Switch preemption on…"}
      </WriteButton>
      {asks && (
        <Confirm
          title={isOn ? "Switch preemption off?" : "Let critical jobs preempt others?"}
          verb={isOn ? "Switch off" : "Switch on"}
          onClose={() => setAsks(false)}
          act={async () => {
            await save({ ...flags, preemption: !isOn });
            say(isOn ? "Preemption is off" : "Preemption is on");
          }}
        >
          <p className="dim">
            {isOn
              ? "No further job is asked for its seat. Requests that were sent already stay in force."
              : "A critical job without a seat takes that of a running job with preemptible: true, the lowest priority first. Its work is saved, no attempt is counted, and it continues later."}
          </p>
        </Confirm>
      )}
    </div>
  );
}

function Switch({ flags, next, onClose }: { flags: DispatchModes; next: Offered; onClose: () => void }) {
  const id = useId();
  const { data } = useQuery(productsQuery);
  const [product, setProduct] = useState("");
  const [mode, setMode] = useState<Offered>(next);
  const subject = product === "" ? "The fleet" : `Product ${product}`;
  const back = product === "" ? flags.mode : (flags.products?.[product] ?? flags.mode);
  return (
    <Confirm
      title="Switch the dispatch mode?"
      verb={`Switch to ${mode}`}
      typed={mode}
      onClose={onClose}
      act={async () => {
        await save(
          product === "" ? { ...flags, mode } : { ...flags, products: { ...flags.products, [product]: mode } },
        );
        say(`${subject} is in mode ${mode}`, `The way back: ${back}`);
      }}
    >
      <div className="choices" role="radiogroup" aria-label="Mode">
        {OFFERED.map((one) => (
          <label key={one}>
            <input type="radio" name="mode" checked={one === mode} onChange={() => setMode(one)} />
            <span>
              {one} <span className="dim">{MODES[one]}</span>
            </span>
          </label>
        ))}
      </div>
      <div className="field">
        <label htmlFor={id}>For</label>
        <select id={id} className="select" value={product} onChange={(event) => setProduct(event.target.value)}>
          <option value="">the whole fleet</option>
          {data?.items.map((one) => (
            <option key={one.id} value={one.id}>
              product {one.id}
            </option>
          ))}
        </select>
      </div>
      <p className="dim">Open offers stay valid and running jobs continue. The way back is {back}.</p>
    </Confirm>
  );
}
