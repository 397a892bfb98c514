import { Dialog } from "@base-ui/react/dialog";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { type ReactNode, useDeferredValue, useEffect, useMemo, useState } from "react";
import { factoriesQuery, jobSearchQuery } from "../api/queries";
import { shortId } from "../lib/format";
import { Icon } from "../ui/Icon";
import { StageGlyph } from "../ui/Stage";
import { useProduct } from "./ProductSwitcher";
import { PAGES } from "./Rail";
import { applyTheme } from "./theme";

type Item = { key: string; group: string; text: string; glyph: ReactNode; hint?: string; run: () => void };

const SHOWN_PER_GROUP = 8;

/** Jump to a job, factory or page. The coordinator searches the jobs, by words of the title or a part of the id. */
export function Palette({ onClose }: { onClose: () => void }) {
  const [text, setText] = useState("");
  const [cursor, setCursor] = useState(0);
  const query = useDeferredValue(text.trim().toLowerCase());
  const { items, isFresh } = useItems(query);
  const isReady = isFresh && query === text.trim().toLowerCase();
  const [isPending, setPending] = useState(false);
  const go = (item: Item | undefined) => {
    if (item === undefined) return;
    onClose();
    item.run();
  };
  useEffect(() => {
    if (!isPending || !isReady) return;
    setPending(false);
    const [first] = items;
    if (first === undefined) return;
    onClose();
    first.run();
  }, [isPending, isReady, items, onClose]);
  const at = Math.min(cursor, Math.max(0, items.length - 1));
  const id = (index: number) => `palette-${index}`;

  return (
    <Dialog.Root open onOpenChange={(isOpen) => !isOpen && onClose()}>
      <Dialog.Portal>
        <Dialog.Backdrop className="scrim" />
        <Dialog.Popup className="palette" aria-label="Jump">
          <input
            role="combobox"
            aria-expanded="true"
            aria-controls="palette-list"
            aria-activedescendant={items.length > 0 ? id(at) : undefined}
            aria-label="Jump to a job, factory or page"
            placeholder="Job title or id, factory, page"
            value={text}
            onChange={(event) => {
              setText(event.target.value);
              setCursor(0);
            }}
            onKeyDown={(event) => {
              const move = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
              if (move !== 0) {
                event.preventDefault();
                setCursor((at + move + items.length) % Math.max(1, items.length));
              } else if (event.key === "Enter") {
                // Who types fast means the result of the whole text, not of what is still shown.
                if (isReady) go(items[at]);
                else setPending(true);
              }
            }}
          />
          <div id="palette-list" role="listbox" aria-label="Results" className="palette-list">
            {items.length === 0 && <p className="grp">Nothing matches</p>}
            {items.map((item, index) => (
              <div key={item.key}>
                {item.group !== items[index - 1]?.group && <p className="grp">{item.group}</p>}
                <div
                  id={id(index)}
                  role="option"
                  tabIndex={-1}
                  aria-selected={index === at}
                  className="palette-item"
                  ref={(node) => {
                    if (index === at) node?.scrollIntoView({ block: "nearest" });
                  }}
                  onMouseMove={() => setCursor(index)}
                  onClick={() => go(item)}
                  onKeyDown={() => undefined}
                >
                  {item.glyph}
                  <span className="t1">{item.text}</span>
                  <span className="id">{item.hint}</span>
                </div>
              </div>
            ))}
          </div>
          <div className="foot">
            <span>↑↓ move</span>
            <span>↵ open</span>
            <span>Esc close</span>
          </div>
        </Dialog.Popup>
      </Dialog.Portal>
    </Dialog.Root>
  );
}

function useItems(query: string): { items: Item[]; isFresh: boolean } {
  const navigate = useNavigate();
  const product = useProduct();
  const { data: jobs, isPlaceholderData, isPending } = useQuery(jobSearchQuery(query, product));
  const { data: factories } = useQuery(factoriesQuery);
  const items = useMemo(() => {
    const has = (text: string) => text.toLowerCase().includes(query);
    const found = (jobs?.items ?? []).slice(0, SHOWN_PER_GROUP);
    const items: Item[] = found.map((job) => ({
      key: job.id,
      group: "Jobs",
      text: job.title,
      glyph: <StageGlyph stage={job.stage} />,
      hint: shortId(job.id),
      run: () => void navigate({ to: "/jobs/$id", params: { id: job.id } }),
    }));
    if (/^[0-9a-f-]{36}$/.test(query) && items.length === 0) {
      const open = () => void navigate({ to: "/jobs/$id", params: { id: query } });
      items.push({ key: query, group: "Jobs", text: `Open job ${query}`, glyph: <Icon name="jobs" />, run: open });
    }
    for (const factory of (factories?.items ?? []).filter((one) => has(one.id)).slice(0, SHOWN_PER_GROUP)) {
      const open = () => void navigate({ to: "/factories/$id", params: { id: factory.id } });
      items.push({
        key: `f-${factory.id}`,
        group: "Factories",
        text: factory.id,
        glyph: <Icon name="fleet" />,
        run: open,
      });
    }
    for (const page of PAGES.filter((one) => has(one.label))) {
      items.push({
        key: page.to,
        group: "Pages",
        text: page.label,
        glyph: <Icon name={page.icon} />,
        hint: `g ${page.key}`,
        run: () => void navigate({ to: page.to }),
      });
    }
    const actions = [
      { text: "New job", hint: "c", run: () => void navigate({ to: "/new" }) },
      { text: "Theme: system", run: () => applyTheme("system") },
      { text: "Theme: light", run: () => applyTheme("light") },
      { text: "Theme: dark", run: () => applyTheme("dark") },
    ];
    for (const action of actions.filter((one) => has(one.text))) {
      items.push({ key: action.text, group: "Actions", glyph: <Icon name="plus" />, ...action });
    }
    return items;
  }, [query, jobs, factories, navigate]);
  return { items, isFresh: !isPlaceholderData && !isPending };
}
