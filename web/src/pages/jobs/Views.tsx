import { Menu } from "@base-ui/react/menu";
import { useNavigate } from "@tanstack/react-router";
import { useId, useState } from "react";
import { OPEN_STAGES } from "../../lib/stages";
import { loadText, saveText } from "../../lib/storage";
import { buttonClass } from "../../ui/Button";
import { Confirm } from "../../ui/Confirm";
import { Icon } from "../../ui/Icon";
import { say } from "../../ui/toasts";
import { type JobsSearch, parseJobsSearch } from "./search";

type View = { name: string; search: JobsSearch };

const FIXED: readonly View[] = [
  { name: "Open jobs", search: { stage: OPEN_STAGES.join(",") } },
  { name: "Running now", search: { stage: "assigned,building" } },
  { name: "Failed and dead-lettered", search: { stage: "failed,dead_letter" } },
];
const KEY = "job-views";

function load(): View[] {
  try {
    const found: unknown = JSON.parse(loadText(KEY) ?? "[]");
    if (!Array.isArray(found)) return [];
    return found
      .filter((one): one is { name: string; search: Record<string, unknown> } => typeof one?.name === "string")
      .map((one) => ({ name: one.name, search: parseJobsSearch(one.search ?? {}) }));
  } catch {
    return [];
  }
}

/** Named addresses, kept in this browser. */
export function Views({ search }: { search: JobsSearch }) {
  const id = useId();
  const navigate = useNavigate();
  const [own, setOwn] = useState(load);
  const [name, setName] = useState<string | null>(null);
  const show = (view: View) =>
    void navigate({ to: "/jobs", search: (old) => ({ ...blank(old), view: search.view, ...view.search }) });
  const store = (views: View[]) => {
    setOwn(views);
    saveText(KEY, JSON.stringify(views));
  };
  return (
    <>
      <Menu.Root>
        <Menu.Trigger className={`${buttonClass()} only-wide`}>
          Views <Icon name="down" />
        </Menu.Trigger>
        <Menu.Portal>
          <Menu.Positioner align="end" sideOffset={4}>
            <Menu.Popup className="pop">
              {FIXED.map((view) => (
                <Menu.Item key={view.name} className="pop-item" onClick={() => show(view)}>
                  {view.name}
                </Menu.Item>
              ))}
              {own.length > 0 && <Menu.Separator className="pop-sep" />}
              {own.map((view) => (
                <Menu.Item key={view.name} className="pop-item" onClick={() => show(view)}>
                  {view.name}
                </Menu.Item>
              ))}
              <Menu.Separator className="pop-sep" />
              <Menu.Item className="pop-item" onClick={() => setName("")}>
                Save this view…
              </Menu.Item>
              {own.map((view) => (
                <Menu.Item
                  key={view.name}
                  className="pop-item is-danger"
                  onClick={() => store(own.filter((one) => one.name !== view.name))}
                >
                  Remove {view.name}
                </Menu.Item>
              ))}
            </Menu.Popup>
          </Menu.Positioner>
        </Menu.Portal>
      </Menu.Root>
      {name !== null && (
        <Confirm
          title="Save this view"
          verb="Save"
          onClose={() => setName(null)}
          act={async () => {
            if (name.trim() === "") throw new Error("the view needs a name");
            store([...own.filter((one) => one.name !== name.trim()), { name: name.trim(), search }]);
            say(`View ${name.trim()} saved`, "It is kept in this browser");
          }}
        >
          <div className="field">
            <label htmlFor={id}>Name</label>
            <input id={id} className="input" value={name} onChange={(event) => setName(event.target.value)} />
            <span className="hint">Kept in this browser. To share a view, share its address.</span>
          </div>
        </Confirm>
      )}
    </>
  );
}

function blank<T extends object>(old: T): T {
  return {
    ...old,
    stage: undefined,
    repo: undefined,
    priority: undefined,
    factory: undefined,
    tag: undefined,
    q: undefined,
  };
}
