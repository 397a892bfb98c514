import { Link } from "@tanstack/react-router";
import { createContext, type ReactNode, useContext, useEffect, useState } from "react";
import { createPortal } from "react-dom";
import { buttonClass } from "../ui/Button";
import { Icon } from "../ui/Icon";
import { NarrowMenu } from "./AccountMenu";
import { ConnectionState } from "./ConnectionState";
import { openPalette } from "./overlays";
import { ProductSwitcher } from "./ProductSwitcher";

const Slot = createContext<HTMLElement | null>(null);

/** The bar on top. Pages put their heading into it with `PageHead`. */
export function Bar({ children }: { children: ReactNode }) {
  const [slot, setSlot] = useState<HTMLElement | null>(null);
  return (
    <>
      <header className="bar">
        <ProductSwitcher className="btn is-quiet prodbtn" />
        <div ref={setSlot} className="bar-head" />
        <div className="bar-r">
          <button type="button" className="jump" onClick={openPalette} title="Jump to a job, factory or page">
            <Icon name="search" />
            <span className="lbl">Jump to…</span>
            <span className="sr">a job, factory or page</span>
            <kbd className="kbd">{/Mac/.test(navigator.platform) ? "⌘ K" : "Ctrl K"}</kbd>
          </button>
          <ConnectionState />
          <Link to="/new" className={buttonClass()} title="New job (c)" aria-label="New job">
            <Icon name="plus" />
            <span className="only-wide">New job</span>
          </Link>
          <NarrowMenu />
        </div>
      </header>
      <Slot.Provider value={slot}>{children}</Slot.Provider>
    </>
  );
}

/** Sets the heading and the title of the window: `(3) Fleet · giga`. */
export function PageHead({ title, crumbs }: { title: string; crumbs?: ReactNode }) {
  const slot = useContext(Slot);
  useEffect(() => {
    document.documentElement.dataset.page = title;
    dispatchEvent(new CustomEvent("giga-title"));
  }, [title]);
  if (slot === null) return null;
  return createPortal(crumbs ?? <h1>{title}</h1>, slot);
}
