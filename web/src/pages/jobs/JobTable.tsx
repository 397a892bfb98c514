import { useNavigate } from "@tanstack/react-router";
import { useWindowVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useLayoutEffect, useRef, useState } from "react";
import { useKeys } from "../../shell/keys";
import { JobRow } from "./JobRow";

type Props = {
  ids: string[];
  selected: ReadonlySet<string>;
  toggle: (id: string) => void;
  extend: (id: string) => void;
  toggleAll: () => void;
  fits: (stage: string) => boolean;
  hasMore: boolean;
  more: () => void;
};

const ROW = 32;
const ROW_PHONE = 84;
const COLUMNS = 9;

/** Only rows near the viewport exist; the others are two spacers. */
export function JobTable({ ids, selected, toggle, extend, toggleAll, fits, hasMore, more }: Props) {
  const navigate = useNavigate();
  const ref = useRef<HTMLTableElement>(null);
  const [top, setTop] = useState(0);
  const [cursor, setCursor] = useState(-1);
  useLayoutEffect(() => setTop(ref.current === null ? 0 : ref.current.getBoundingClientRect().top + scrollY), []);
  // Rows of a table are of one height; only those of a phone have to be measured.
  const isPhone = innerWidth <= 860;
  const virtual = useWindowVirtualizer({
    count: ids.length,
    estimateSize: () => (isPhone ? ROW_PHONE : ROW),
    overscan: isPhone ? 8 : 10,
    scrollMargin: top,
    getItemKey: (index) => ids[index] ?? index,
  });
  const items = virtual.getVirtualItems();
  const first = items[0];
  const last = items.at(-1);
  const before = first === undefined ? 0 : first.start - top;
  const after = last === undefined ? 0 : virtual.getTotalSize() - (last.end - top);

  useEffect(() => {
    if (hasMore && last !== undefined && last.index >= ids.length - 20) more();
  }, [hasMore, last, ids.length, more]);

  const current = ids[cursor];
  const move = (by: number) => {
    const next = Math.min(ids.length - 1, Math.max(0, cursor + by));
    setCursor(next);
    virtual.scrollToIndex(next, { align: "auto" });
    return ids[next];
  };
  const select = (by: number) => {
    if (current !== undefined) extend(current);
    const next = move(by);
    if (next !== undefined) extend(next);
  };
  useKeys([
    { keys: "j", label: "Next row", group: "List", run: () => void move(1) },
    { keys: "k", label: "Previous row", group: "List", run: () => void move(-1) },
    {
      keys: "Enter",
      label: "Open",
      group: "List",
      run: () => current !== undefined && void navigate({ to: "/jobs/$id", params: { id: current } }),
    },
    { keys: "x", label: "Select", group: "List", run: () => current !== undefined && toggle(current) },
    { keys: "J", label: "Select and next row", group: "List", run: () => select(1) },
    { keys: "K", label: "Select and previous row", group: "List", run: () => select(-1) },
    { keys: "Escape", label: "Clear selection", group: "List", run: () => selected.size > 0 && toggleAll() },
  ]);

  return (
    <table ref={ref} className="table is-fixed is-rows jobs-table" aria-rowcount={hasMore ? -1 : ids.length}>
      <colgroup>
        <col className="cw-36" />
        <col className="cw-120" />
        <col />
        <col className="cw-184" />
        <col className="cw-64" />
        <col className="cw-80" />
        <col className="cw-48" />
        <col className="cw-64" />
        <col className="cw-280" />
      </colgroup>
      <thead>
        <tr>
          <th>
            <input
              type="checkbox"
              aria-label="Select all loaded jobs"
              checked={selected.size > 0 && selected.size === ids.length}
              onChange={toggleAll}
            />
          </th>
          <th>Stage</th>
          <th>Title</th>
          <th>Product / repo</th>
          <th>Priority</th>
          <th className="num">Time</th>
          <th className="num">Runs</th>
          <th className="num">Cost</th>
          <th>Where and why</th>
        </tr>
      </thead>
      <tbody>
        <Spacer height={before} />
        {items.map((item) => {
          const id = ids[item.index];
          if (id === undefined) return null;
          return (
            <JobRow
              key={item.key}
              id={id}
              index={item.index}
              isCursor={item.index === cursor}
              isSelected={selected.has(id)}
              toggle={toggle}
              fits={fits}
              measure={isPhone ? virtual.measureElement : undefined}
            />
          );
        })}
        <Spacer height={after} />
      </tbody>
    </table>
  );
}

function Spacer({ height }: { height: number }) {
  if (height <= 0) return null;
  return (
    <tr aria-hidden="true" className="spacer">
      <td colSpan={COLUMNS} style={{ height }} />
    </tr>
  );
}
