import { useNavigate } from "@tanstack/react-router";
import { useRef, useState } from "react";
import { PRIORITIES, STAGES } from "../../api/types";
import { useKeys } from "../../shell/keys";
import { useProduct } from "../../shell/ProductSwitcher";
import { Icon } from "../../ui/Icon";
import { type JobsSearch, parseTyped } from "./search";
import { Views } from "./Views";

/** Typed filters become chips; the URL holds them. Keys: `/` focuses, `v` switches the view. */
export function Filters({ search }: { search: JobsSearch }) {
  const navigate = useNavigate({ from: "/jobs" });
  const product = useProduct();
  const input = useRef<HTMLInputElement>(null);
  const [text, setText] = useState("");
  const [unknown, setUnknown] = useState<string[]>([]);
  const view = search.view ?? "table";
  const change = (part: Partial<JobsSearch> & { product?: string }) =>
    void navigate({ to: "/jobs", search: (old) => ({ ...old, ...part }) });
  const other = view === "table" ? "board" : "table";
  useKeys([
    { keys: "/", label: "Filter", group: "List", run: () => input.current?.focus() },
    { keys: "v", label: "Table or board", group: "List", run: () => change({ view: other }) },
  ]);

  const chips: { key: string; value: string | undefined; clear: Partial<JobsSearch> & { product?: string } }[] = [
    { key: "product", value: product, clear: { product: undefined } },
    {
      key: "stage",
      value: search.stage?.replaceAll(",", ", ").replace("dead_letter", "dead letter"),
      clear: { stage: undefined },
    },
    { key: "repo", value: search.repo, clear: { repo: undefined } },
    { key: "factory", value: search.factory, clear: { factory: undefined } },
    { key: "priority", value: search.priority, clear: { priority: undefined } },
    { key: "tag", value: search.tag?.replaceAll(",", ", "), clear: { tag: undefined } },
    { key: "text", value: search.q, clear: { q: undefined } },
  ];

  return (
    <div className="stack gap-1">
      <div className="filters">
        <form
          className="query"
          role="search"
          onSubmit={(event) => {
            event.preventDefault();
            const typed = parseTyped(text);
            setUnknown(typed.unknown);
            setText(typed.unknown.join(" "));
            if (Object.keys(typed.search).length > 0) change(typed.search);
          }}
        >
          <Icon name="search" />
          {chips.map(({ key, value, clear }) =>
            value === undefined ? null : (
              <span key={key} className="chip">
                <span className="k">{key}</span>
                <span className="v t1">{value}</span>
                <button type="button" aria-label={`Remove filter ${key}`} onClick={() => change(clear)}>
                  <Icon name="close" />
                </button>
              </span>
            ),
          )}
          <input
            ref={input}
            aria-label="Filter jobs"
            placeholder={
              chips.some((chip) => chip.value !== undefined)
                ? ""
                : "Words of the title, an id, or stage: repo: factory: tag: priority:"
            }
            value={text}
            onChange={(event) => setText(event.target.value)}
            onKeyDown={(event) => {
              if (event.key === "Escape") input.current?.blur();
              // Backspace in front of the text takes the last chip away.
              const last = chips.findLast((chip) => chip.value !== undefined);
              if (event.key === "Backspace" && text === "" && last !== undefined) change(last.clear);
            }}
          />
          <kbd className="kbd">/</kbd>
        </form>
        <Views search={search} />
        <span className="seg scroll" role="group" aria-label="View">
          <button type="button" aria-pressed={view === "table"} onClick={() => change({ view: undefined })}>
            Table
          </button>
          <button
            type="button"
            aria-pressed={view === "board"}
            onClick={() => change({ view: "board" })}
            title="Table or board (v)"
          >
            Board
          </button>
        </span>
      </div>
      {unknown.length > 0 && (
        <p className="small is-warn" role="alert">
          No such value: {unknown.join(" ")}. Stages are {STAGES.join(", ")}; priorities are {PRIORITIES.join(", ")}.
        </p>
      )}
    </div>
  );
}
