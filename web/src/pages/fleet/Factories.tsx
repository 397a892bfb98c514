import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { factoriesQuery } from "../../api/queries";
import { byTrouble } from "../../lib/factories";
import { setting } from "../../lib/storage";
import { useKeys } from "../../shell/keys";
import { WriteButton } from "../../ui/Button";
import { Command } from "../../ui/Copy";
import { QueryPanel } from "../../ui/Panel";
import { AddFactory } from "./AddFactory";
import { Drain } from "./Drain";
import { FactoryCard } from "./FactoryCard";
import { FactoryTable } from "./FactoryTable";

const DENSITIES = ["auto", "cards", "table"] as const;
const density = setting("factories", DENSITIES, "auto");
const CARDS_MAX = 12;

export function Factories() {
  const query = useQuery(factoriesQuery);
  const chosen = density.use();
  const isTable = chosen === "table" || (chosen === "auto" && (query.data?.items.length ?? 0) > CARDS_MAX);
  const sorted = [...(query.data?.items ?? [])].sort(byTrouble);
  const [isAdding, setAdding] = useState(false);
  const [cursor, setCursor] = useState(-1);
  const [drained, setDrained] = useState<string | null>(null);
  const navigate = useNavigate();
  const current = sorted[cursor];
  useKeys([
    {
      keys: "j",
      label: "Next factory",
      group: "Factories",
      run: () => setCursor(Math.min(sorted.length - 1, cursor + 1)),
    },
    { keys: "k", label: "Previous factory", group: "Factories", run: () => setCursor(Math.max(0, cursor - 1)) },
    {
      keys: "Enter",
      label: "Open the factory",
      group: "Factories",
      run: () => current !== undefined && void navigate({ to: "/factories/$id", params: { id: current.id } }),
    },
    {
      keys: "d",
      label: "Drain the factory",
      group: "Factories",
      run: () => current !== undefined && !current.draining && setDrained(current.id),
    },
  ]);
  const panel = (
    <QueryPanel
      title="Factories"
      query={query}
      sub={({ items }) => (items.length === 0 ? null : `${items.length}, trouble first`)}
      right={
        <span className="btns">
          <WriteButton small onClick={() => setAdding(true)}>
            Add…
          </WriteButton>
          <span className="seg hide-n" role="group" aria-label="Density">
            <button type="button" aria-pressed={!isTable} onClick={() => density.set("cards")}>
              Cards
            </button>
            <button type="button" aria-pressed={isTable} onClick={() => density.set("table")}>
              Table
            </button>
          </span>
        </span>
      }
      isEmpty={({ items }) => items.length === 0}
      empty={<NoFactory add={() => setAdding(true)} />}
    >
      {() =>
        isTable ? (
          <FactoryTable factories={sorted} />
        ) : (
          sorted.map((factory) => (
            <FactoryCard key={factory.id} factory={factory} isCursor={factory.id === current?.id} />
          ))
        )
      }
    </QueryPanel>
  );
  return (
    <>
      {panel}
      {isAdding && <AddFactory onClose={() => setAdding(false)} />}
      {drained !== null && <Drain id={drained} onClose={() => setDrained(null)} />}
    </>
  );
}

function NoFactory({ add }: { add: () => void }) {
  return (
    <>
      <div>
        <h2>No factory yet</h2>
        <p className="dim">
          A factory is a machine that runs agents. Create a join token for it, then start it with one command.
        </p>
      </div>
      <WriteButton look="primary" onClick={add}>
        Add a factory…
      </WriteButton>
      <div className="cmds">
        <span className="dim">Or in a terminal on the coordinator's machine, which prints the command to run</span>
        <Command text="giga token create --join --factory NAME" />
      </div>
    </>
  );
}
