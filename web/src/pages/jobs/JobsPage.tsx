import { Link, useSearch } from "@tanstack/react-router";
import { useCallback, useEffect, useMemo, useState } from "react";
import { count, plural } from "../../lib/format";
import { useIsCurrent } from "../../live";
import { rememberList } from "../../live/lastList";
import { PageHead } from "../../shell/Bar";
import { useKeys } from "../../shell/keys";
import { useProduct } from "../../shell/ProductSwitcher";
import { buttonClass } from "../../ui/Button";
import { Command } from "../../ui/Copy";
import { Skeleton } from "../../ui/Panel";
import { PanelError } from "../../ui/PanelError";
import { Board } from "./Board";
import { BulkBar } from "./BulkBar";
import { Filters } from "./Filters";
import { JobTable } from "./JobTable";
import { StageFilter } from "./StageFilter";
import { type JobsSearch, parseStages } from "./search";
import { type JobFilter, useJobList } from "./useJobList";

export function JobsPage() {
  const search = useSearch({ from: "/shell/jobs" });
  const product = useProduct();
  const { stage, repo, priority, factory, tag, q } = search;
  const filter: JobFilter = { product, stage, repo, priority, factory, tag, text: q };
  return (
    <div className="page">
      <PageHead title="Jobs" />
      <Filters search={search} />
      <StageFilter search={search} />
      {search.view === "board" ? (
        <Board filter={filter} />
      ) : (
        <Table key={JSON.stringify(filter)} filter={filter} search={search} />
      )}
    </div>
  );
}

function Table({ filter, search }: { filter: JobFilter; search: JobsSearch }) {
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const list = useJobList(filter, { kind: "table", hold: selected.size > 0 });
  const isCurrent = useIsCurrent();
  useEffect(() => rememberList(list.ids), [list.ids]);
  const stages = useMemo(() => parseStages(search.stage), [search.stage]);
  const fits = useCallback((stage: string) => stages.length === 0 || stages.some((one) => one === stage), [stages]);
  const toggle = useCallback(
    (id: string) =>
      setSelected((old) => {
        const next = new Set(old);
        if (!next.delete(id)) next.add(id);
        return next;
      }),
    [],
  );
  const showNew = () => {
    scrollTo({ top: 0 });
    list.reload();
  };
  useKeys(list.newer > 0 ? [{ keys: ".", label: "Show new jobs", group: "List", run: showNew }] : []);

  return (
    <div className="panel">
      {list.error !== null && <PanelError error={list.error} retry={list.reload} />}
      {list.newer > 0 && (
        <div className="newrows">
          <button type="button" onClick={showNew}>
            {plural(list.newer, "new job")}, show <kbd className="kbd">.</kbd>
          </button>
        </div>
      )}
      {!list.hasAnswer || (list.ids.length === 0 && list.next !== null) ? (
        list.error === null && <Skeleton rows={8} />
      ) : list.ids.length === 0 ? (
        <NoJobs isFiltered={Object.values(filter).some((value) => value !== undefined)} isCurrent={isCurrent} />
      ) : (
        <>
          <JobTable
            ids={list.ids}
            selected={selected}
            toggle={toggle}
            extend={(id) => setSelected((old) => new Set(old).add(id))}
            toggleAll={() => setSelected(selected.size > 0 ? new Set() : new Set(list.ids))}
            fits={fits}
            hasMore={list.next !== null}
            more={list.more}
          />
          <div className="panel-f">
            {list.next === null || list.total === null
              ? `${plural(list.ids.length, "job")}, newest first`
              : `${count(list.ids.length)} of ${list.total.isExact ? "" : "about "}${count(list.total.count)} read, newest first; scroll for more`}
          </div>
          <BulkBar
            selected={selected}
            clear={() => setSelected(new Set())}
            total={list.total}
            matching={filter}
            select={(ids) => setSelected(new Set(ids))}
          />
        </>
      )}
    </div>
  );
}

function NoJobs({ isFiltered, isCurrent }: { isFiltered: boolean; isCurrent: boolean }) {
  if (!isCurrent) return <p className="panel-b dim">Nothing was here when the coordinator last answered.</p>;
  if (isFiltered) {
    return (
      <div className="empty">
        <div>
          <h2>No job matches</h2>
          <p className="dim">Remove a filter to see more, or check how the words are spelt.</p>
        </div>
        <Link to="/jobs" search={{ product: undefined }} className={buttonClass()}>
          Clear filters
        </Link>
      </div>
    );
  }
  return (
    <div className="empty">
      <div>
        <h2>No job yet</h2>
        <p className="dim">A job is a Markdown file. Submit one here or in a terminal.</p>
      </div>
      <div className="cmds">
        <Command text="giga submit job.md" />
      </div>
      <Link to="/new" className={buttonClass("primary")}>
        New job
      </Link>
    </div>
  );
}
