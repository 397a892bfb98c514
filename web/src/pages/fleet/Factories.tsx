import { useQuery } from "@tanstack/react-query";
import { factoriesQuery } from "../../api/queries";
import { byTrouble } from "../../lib/factories";
import { setting } from "../../lib/storage";
import { Command } from "../../ui/Copy";
import { QueryPanel } from "../../ui/Panel";
import { FactoryCard } from "./FactoryCard";
import { FactoryTable } from "./FactoryTable";

const DENSITIES = ["auto", "cards", "table"] as const;
const density = setting("factories", DENSITIES, "auto");
const CARDS_MAX = 12;

export function Factories() {
  const query = useQuery(factoriesQuery);
  const chosen = density.use();
  const isTable = chosen === "table" || (chosen === "auto" && (query.data?.items.length ?? 0) > CARDS_MAX);
  return (
    <QueryPanel
      title="Factories"
      query={query}
      sub={({ items }) => (items.length === 0 ? null : `${items.length}, trouble first`)}
      right={
        <span className="seg hide-n" role="group" aria-label="Density">
          <button type="button" aria-pressed={!isTable} onClick={() => density.set("cards")}>
            Cards
          </button>
          <button type="button" aria-pressed={isTable} onClick={() => density.set("table")}>
            Table
          </button>
        </span>
      }
      isEmpty={({ items }) => items.length === 0}
      empty={<NoFactory />}
    >
      {({ items }) => {
        const sorted = [...items].sort(byTrouble);
        return isTable ? (
          <FactoryTable factories={sorted} />
        ) : (
          sorted.map((factory) => <FactoryCard key={factory.id} factory={factory} />)
        );
      }}
    </QueryPanel>
  );
}

function NoFactory() {
  return (
    <>
      <div>
        <h2>No factory yet</h2>
        <p className="dim">A factory is a machine that runs agents. Enrol one with two commands.</p>
      </div>
      <ol className="cmds">
        <li>
          <span>1. On the coordinator's machine, create a one-time join token</span>
          <Command text="giga token create --role join --name first-factory" />
        </li>
        <li>
          <span>2. On the machine that should work, start a factory with it</span>
          <Command text={`giga factory --api ${location.origin} --token JOIN_TOKEN`} />
        </li>
      </ol>
    </>
  );
}
