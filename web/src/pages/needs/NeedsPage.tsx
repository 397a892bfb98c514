import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { plural } from "../../lib/format";
import { useIsCurrent } from "../../live";
import { PageHead } from "../../shell/Bar";
import { useKeys } from "../../shell/keys";
import { type Need, useNeeds } from "../../shell/needs";
import { useProduct } from "../../shell/ProductSwitcher";
import { Panel, Skeleton } from "../../ui/Panel";
import { PanelError } from "../../ui/PanelError";
import { NeedRow } from "./NeedRow";

const GROUPS = [
  { title: "Blocks work", has: (need: Need) => need.kind !== "ship" },
  { title: "Ready to ship", has: (need: Need) => need.kind === "ship" },
] as const;

export function NeedsPage() {
  const { needs, error, refetch, hasMore } = useNeeds(useProduct());
  const isCurrent = useIsCurrent();
  const navigate = useNavigate();
  const [cursor, setCursor] = useState(-1);
  const [open, setOpen] = useState<string | null>(null);
  const rows = needs ?? [];
  const current = rows[cursor];
  useKeys([
    { keys: "j", label: "Next row", group: "List", run: () => setCursor(Math.min(rows.length - 1, cursor + 1)) },
    { keys: "k", label: "Previous row", group: "List", run: () => setCursor(Math.max(0, cursor - 1)) },
    {
      keys: "Enter",
      label: "Open in place",
      group: "List",
      run: () => current !== undefined && setOpen(open === current.key ? null : current.key),
    },
    {
      keys: "o",
      label: "Open the job",
      group: "List",
      run: () => current?.job !== undefined && void navigate({ to: "/jobs/$id", params: { id: current.job.id } }),
    },
  ]);

  return (
    <div className="page">
      <PageHead title="Needs me" />
      <Panel
        title="Needs me"
        sub={
          needs !== undefined && needs.length > 0
            ? `${plural(needs.length, "item")}${hasMore ? " or more" : ""}, what blocks people or money first`
            : null
        }
      >
        {error !== null && <PanelError error={error} retry={() => void refetch()} />}
        {needs === undefined ? (
          error === null && <Skeleton rows={5} />
        ) : needs.length === 0 ? (
          <div className="empty">
            <div>
              <h2>{isCurrent ? "Nothing needs you" : "Nothing needed you when the coordinator last answered"}</h2>
              <p className="dim">
                Questions, reviews, failed jobs, alerts that need a person and work that is ready to ship appear here.
              </p>
            </div>
          </div>
        ) : (
          GROUPS.map((group) => {
            const own = needs.filter(group.has);
            if (own.length === 0) return null;
            return (
              <div key={group.title}>
                <h3 className="group-h">{group.title}</h3>
                {own.map((need) => (
                  <NeedRow
                    key={need.key}
                    need={need}
                    isCursor={current?.key === need.key}
                    isOpen={open === need.key}
                    toggle={() => setOpen(open === need.key ? null : need.key)}
                  />
                ))}
              </div>
            );
          })
        )}
      </Panel>
    </div>
  );
}
