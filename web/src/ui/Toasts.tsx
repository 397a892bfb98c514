import { Toast } from "@base-ui/react/toast";
import { Glyph } from "./Glyph";
import { Icon } from "./Icon";
import { toasts } from "./toasts";
import { Words } from "./Words";

export function Toasts() {
  return (
    <Toast.Provider toastManager={toasts} limit={4}>
      <Toast.Portal>
        <Toast.Viewport className="toasts">
          <List />
        </Toast.Viewport>
      </Toast.Portal>
    </Toast.Provider>
  );
}

function List() {
  const { toasts: items } = Toast.useToastManager();
  return items.map((toast) => (
    <Toast.Root key={toast.id} toast={toast} className="toast">
      <span className={toast.type === "error" ? "st-failed" : "st-ok"}>
        <Glyph name={toast.type === "error" ? "failed" : "shipped"} />
      </span>
      <Toast.Content>
        <Toast.Title render={<p />}>
          <Words text={String(toast.title ?? "")} />
        </Toast.Title>
        {toast.description !== undefined && toast.description !== "" && (
          <Toast.Description className="sub">
            <Words text={String(toast.description)} />
          </Toast.Description>
        )}
      </Toast.Content>
      <Toast.Close className="btn is-small is-quiet is-icon" aria-label="Close">
        <Icon name="close" />
      </Toast.Close>
    </Toast.Root>
  ));
}
