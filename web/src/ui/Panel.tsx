import type { UseQueryResult } from "@tanstack/react-query";
import { type ReactNode, useId } from "react";
import { clock } from "../lib/format";
import { useIsCurrent } from "../live";
import { PanelError } from "./PanelError";

type Frame = { title: string; sub?: ReactNode; right?: ReactNode; footer?: ReactNode; className?: string };

export function Panel({ title, sub, right, footer, className = "", children }: Frame & { children: ReactNode }) {
  const id = useId();
  return (
    <section className={`panel ${className}`} aria-labelledby={id}>
      <header className="panel-h">
        <h2 id={id}>{title}</h2>
        {sub !== undefined && sub !== null && <span className="dim small">{sub}</span>}
        {right !== undefined && <div className="right">{right}</div>}
      </header>
      {children}
      {footer !== undefined && footer !== null && <div className="panel-f">{footer}</div>}
    </section>
  );
}

export function Skeleton({ rows = 3 }: { rows?: number }) {
  return (
    <div className="sk-rows" aria-hidden="true">
      {Array.from({ length: rows }, (_, index) => (
        <span key={index} className={`sk ${index % 2 === 0 ? "is-70" : "is-40"}`} />
      ))}
    </div>
  );
}

type QueryPanelProps<T> = Omit<Frame, "sub" | "footer"> & {
  query: UseQueryResult<T>;
  sub?: (data: T) => ReactNode;
  footer?: (data: T) => ReactNode;
  isEmpty?: (data: T) => boolean;
  empty?: ReactNode;
  rows?: number;
  children: (data: T) => ReactNode;
};

/** A panel of one answer: a skeleton at first, the last data with the error above it, "empty" only while current. */
export function QueryPanel<T>({ query, sub, footer, isEmpty, empty, rows, children, ...frame }: QueryPanelProps<T>) {
  const isCurrent = useIsCurrent();
  const { data, error } = query;
  const isVoid = data !== undefined && isEmpty?.(data) === true;
  const note =
    data === undefined
      ? null
      : error !== null || (!isCurrent && isVoid)
        ? `as of ${clock(query.dataUpdatedAt)}`
        : sub?.(data);
  return (
    <Panel {...frame} sub={note} footer={data === undefined || isVoid ? undefined : footer?.(data)}>
      {error !== null && <PanelError error={error} retry={() => void query.refetch()} />}
      {data === undefined ? (
        error === null && <Skeleton rows={rows} />
      ) : isVoid ? (
        <Empty isCurrent={isCurrent}>{empty}</Empty>
      ) : (
        children(data)
      )}
    </Panel>
  );
}

function Empty({ isCurrent, children }: { isCurrent: boolean; children: ReactNode }) {
  if (isCurrent) return <div className="empty">{children}</div>;
  return <p className="panel-b dim">Nothing was here when the coordinator last answered.</p>;
}
