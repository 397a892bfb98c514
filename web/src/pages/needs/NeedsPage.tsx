import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { metricsQuery } from "../../api/queries";
import type { NeedItem } from "../../api/types";
import { plural } from "../../lib/format";
import { useIsCurrent } from "../../live";
import { PageHead } from "../../shell/Bar";
import { useKeys } from "../../shell/keys";
import { useNeeds } from "../../shell/needs";
import { useProduct } from "../../shell/ProductSwitcher";
import { Skeleton } from "../../ui/Panel";
import { PanelError } from "../../ui/PanelError";
import { groupOf, NEED_GROUPS, type NeedGroup } from "./look";
import { Asked } from "./NeedActions";
import { NeedRow } from "./NeedRow";

const SECTIONS = [
  {
    title: "Blocks people, money or machines",
    has: (item: NeedItem) => !["failures", "ship"].includes(groupOf(item.kind)),
  },
  { title: "Failed", has: (item: NeedItem) => groupOf(item.kind) === "failures" },
  { title: "Finished work", has: (item: NeedItem) => groupOf(item.kind) === "ship" },
] as const;

export function NeedsPage() {
  const { kind } = useSearch({ from: "/shell/needs-me" });
  const { items, total, totalText, error, refetch } = useNeeds(useProduct());
  const navigate = useNavigate();
  const [cursor, setCursor] = useState(-1);
  const [open, setOpen] = useState<string | null>(null);
  const [isActing, setActing] = useState(false);
  const shown = items?.filter((item) => kind === undefined || groupOf(item.kind) === kind);
  const rows = SECTIONS.flatMap((section) => (shown ?? []).filter(section.has));
  const current = rows[cursor];
  const move = (to: number) => {
    setCursor(to);
    requestAnimationFrame(() => document.querySelector(".ask.is-cursor")?.scrollIntoView({ block: "nearest" }));
  };
  const toggle = (key: string) => setOpen(open === key ? null : key);
  useKeys([
    { keys: "j", label: "Next row", group: "List", run: () => move(Math.min(rows.length - 1, cursor + 1)) },
    { keys: "k", label: "Previous row", group: "List", run: () => move(Math.max(0, cursor - 1)) },
    { keys: "Enter", label: "Open in place", group: "List", run: () => current !== undefined && toggle(current.key) },
    {
      keys: "r",
      label: "First action of the row",
      group: "List",
      run: () => {
        if (current === undefined) return;
        if (current.actions[0] === "answer") setOpen(current.key);
        else setActing(true);
      },
    },
    {
      keys: "o",
      label: "Open the job",
      group: "List",
      run: () => current?.jobId != null && void navigate({ to: "/jobs/$id", params: { id: current.jobId } }),
    },
    { keys: "Escape", label: "Close", group: "List", run: () => setOpen(null) },
  ]);
  useEffect(() => {
    if (cursor >= rows.length) setCursor(rows.length - 1);
  }, [cursor, rows.length]);

  const [action] = current?.actions ?? [];
  return (
    <div className="page">
      <PageHead title="Needs me" />
      <Kinds items={items ?? []} current={kind} />
      <section className="panel" aria-label="Needs me">
        {error !== null && <PanelError error={error} retry={() => void refetch()} />}
        {items === undefined ? (
          error === null && <Skeleton rows={5} />
        ) : rows.length === 0 ? (
          <Nothing isFiltered={kind !== undefined} />
        ) : (
          SECTIONS.map((section) => {
            const own = rows.filter(section.has);
            if (own.length === 0) return null;
            return (
              <div key={section.title} className="ask-group">
                <h2 className="group-h">
                  {section.title} <span className="nums">{own.length}</span>
                </h2>
                <ul>
                  {own.map((item) => (
                    <NeedRow
                      key={item.key}
                      item={item}
                      isCursor={current?.key === item.key}
                      isOpen={open === item.key}
                      toggle={() => toggle(item.key)}
                    />
                  ))}
                </ul>
              </div>
            );
          })
        )}
        {items !== undefined && total > items.length && (
          <div className="panel-f">
            The first {items.length} of {totalText}
          </div>
        )}
      </section>
      {isActing && current !== undefined && action !== undefined && (
        <Asked item={current} action={action} onClose={() => setActing(false)} />
      )}
    </div>
  );
}

function Kinds({ items, current }: { items: readonly NeedItem[]; current: NeedGroup | undefined }) {
  const navigate = useNavigate();
  const choose = (kind: NeedGroup | undefined) =>
    void navigate({ to: "/needs-me", search: (old) => ({ ...old, kind }), replace: true });
  const names = (Object.keys(NEED_GROUPS) as NeedGroup[]).filter(
    (name) => name === current || items.some((item) => groupOf(item.kind) === name),
  );
  return (
    <div className="filters">
      <span className="seg scroll" role="group" aria-label="Kind">
        <button type="button" aria-pressed={current === undefined} onClick={() => choose(undefined)}>
          All {items.length}
        </button>
        {names.map((name) => (
          <button key={name} type="button" aria-pressed={current === name} onClick={() => choose(name)}>
            {NEED_GROUPS[name].title} {items.filter((item) => groupOf(item.kind) === name).length}
          </button>
        ))}
      </span>
      <span className="small dim only-wide">Items leave by themselves when they are solved elsewhere</span>
    </div>
  );
}

function Nothing({ isFiltered }: { isFiltered: boolean }) {
  const isCurrent = useIsCurrent();
  const { data } = useQuery(metricsQuery);
  const building = data?.jobs.building ?? 0;
  return (
    <div className="empty">
      <div>
        <h2>
          {!isCurrent
            ? "Nothing needed you when the coordinator last answered"
            : isFiltered
              ? "Nothing of this kind needs you"
              : "Nothing needs you"}
        </h2>
        <p className="dim">
          {building > 0 && `${plural(building, "job")} ${building === 1 ? "is" : "are"} building. `}
          Questions, failed jobs, alerts that need a person and work that is ready to ship appear here.
        </p>
      </div>
    </div>
  );
}
