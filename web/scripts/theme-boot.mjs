import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";

/** Puts src/theme-boot.js into <head> as a blocking classic script: `/assets/theme-<hash>.js` in a build. */
export function themeBoot() {
  const source = () => readFileSync(new URL("../src/theme-boot.js", import.meta.url), "utf8");
  let isBuild = false;
  const fileName = () => `assets/theme-${createHash("sha256").update(source()).digest("hex").slice(0, 8)}.js`;
  return {
    name: "giga-theme-boot",
    configResolved(config) {
      isBuild = config.command === "build";
    },
    generateBundle() {
      this.emitFile({ type: "asset", fileName: fileName(), source: source() });
    },
    transformIndexHtml() {
      const src = isBuild ? `/${fileName()}` : "/src/theme-boot.js";
      return [{ tag: "script", attrs: { src }, injectTo: "head-prepend" }];
    },
  };
}
