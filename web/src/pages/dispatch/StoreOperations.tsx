import type { UseQueryResult } from "@tanstack/react-query";
import type { Metrics } from "../../api/types";
import { count } from "../../lib/format";
import { QueryPanel } from "../../ui/Panel";

/** Counters since the coordinator started; they stand still while the fleet is idle. */
export function StoreOperations({ query }: { query: UseQueryResult<Metrics> }) {
  return (
    <QueryPanel title="Store operations" query={query} sub={() => "since the coordinator started"}>
      {({ storeOperations }) => (
        <dl className="ops">
          {Object.entries(storeOperations)
            .sort(([a], [b]) => a.localeCompare(b))
            .map(([name, value]) => (
              <div key={name}>
                <dt>{name.replaceAll("_", " ")}</dt>
                <dd>{count(value)}</dd>
              </div>
            ))}
        </dl>
      )}
    </QueryPanel>
  );
}
