import { useEffect } from "react";

/** Keeps the window's title: the count of what needs the user, the page, the product's name. */
export function useTitle(needs: number) {
  useEffect(() => {
    const apply = () => {
      const page = document.documentElement.dataset.page ?? "";
      document.title = `${needs > 0 ? `(${needs}) ` : ""}${page === "" ? "" : `${page} · `}giga`;
    };
    apply();
    addEventListener("giga-title", apply);
    return () => removeEventListener("giga-title", apply);
  }, [needs]);
}
