import { useQuery } from "@tanstack/react-query";
import { factoriesQuery, profilesQuery } from "../../api/queries";
import type { FactoryView } from "../../api/types";
import { usableBy } from "../../lib/profiles";
import { QueryPanel } from "../../ui/Panel";
import { hasKey } from "./frontMatter";

export type Insert = { key: "repo" | "profile" | "engine" | "capabilities"; value: string };
type Group = { title: string; key: Insert["key"]; values: Map<string, number> };

/** Counts how many live factories offer a value: nothing is offered that no factory has. */
export function groupsOf(factories: readonly FactoryView[]): Group[] {
  const groups: Group[] = [
    { title: "Repositories", key: "repo", values: new Map() },
    { title: "Engines", key: "engine", values: new Map() },
    { title: "Capabilities", key: "capabilities", values: new Map() },
  ];
  const add = (group: Group | undefined, value: string) => group?.values.set(value, (group.values.get(value) ?? 0) + 1);
  for (const factory of factories) {
    if (factory.presence !== "live") continue;
    for (const repo of factory.repos) add(groups[0], repo);
    for (const engine of factory.engines ?? []) add(groups[1], engine.name);
    for (const capability of factory.capabilities) {
      if (!/^(repo|engine):/.test(capability)) add(groups[2], capability);
    }
  }
  return groups;
}

/** The profiles that a job of this product can name, with what each is for. */
function useProfiles(product: string | undefined): Map<string, string> {
  const { data } = useQuery(profilesQuery);
  const usable = usableBy(data?.items ?? [], product);
  return new Map(usable.map(({ name, description }) => [name, description ?? name]));
}

type Props = { text: string; product: string | undefined; insert: (item: Insert) => void };

export function Inserts({ text, product, insert }: Props) {
  const query = useQuery(factoriesQuery);
  const profiles = useProfiles(product);
  return (
    <QueryPanel
      title="Insert"
      query={query}
      sub={() => "only what a live factory has, and profiles"}
      isEmpty={({ items }) => profiles.size === 0 && groupsOf(items).every((group) => group.values.size === 0)}
      empty={<p className="dim">No factory is live.</p>}
    >
      {({ items }) => (
        <div className="panel-b ins-b">
          {groupsOf(items).map((group) =>
            group.values.size === 0 ? null : (
              <div key={group.key} className="stack gap-1">
                <h3 className="small dim">{group.title}</h3>
                <div className="inserts">
                  {[...group.values]
                    .sort(([a], [b]) => a.localeCompare(b))
                    .map(([value, n]) => (
                      <button
                        key={value}
                        type="button"
                        className={`ins ${hasKey(text, { key: group.key, value }) ? "is-on" : ""}`}
                        aria-pressed={hasKey(text, { key: group.key, value })}
                        onClick={() => insert({ key: group.key, value })}
                        title={`${n} live ${n === 1 ? "factory" : "factories"}`}
                      >
                        {value} <small>{n}</small>
                      </button>
                    ))}
                </div>
              </div>
            ),
          )}
          {profiles.size > 0 && (
            <div className="stack gap-1">
              <h3 className="small dim">Profiles</h3>
              <div className="inserts">
                {[...profiles].map(([value, description]) => (
                  <button
                    key={value}
                    type="button"
                    className={`ins ${hasKey(text, { key: "profile", value }) ? "is-on" : ""}`}
                    aria-pressed={hasKey(text, { key: "profile", value })}
                    onClick={() => insert({ key: "profile", value })}
                    title={description}
                  >
                    {value}
                  </button>
                ))}
              </div>
            </div>
          )}
        </div>
      )}
    </QueryPanel>
  );
}
