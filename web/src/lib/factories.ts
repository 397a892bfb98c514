import type { EngineHealth, FactoryView } from "../api/types";
import type { GlyphName } from "../ui/Glyph";
import { clockShort } from "./format";

export type FactoryState = { word: string; className: string; glyph: GlyphName; trouble: number };

/** Health in words. `trouble` orders the list: worst first. */
export function factoryState(factory: FactoryView): FactoryState {
  switch (factory.presence) {
    case "stale":
      return { word: "stale", className: "st-failed", glyph: "failed", trouble: 5 };
    case "disconnected":
      return { word: "disconnected", className: "st-warn", glyph: "warn", trouble: 4 };
    case "warming":
      return { word: "not connected since the coordinator restarted", className: "st-off", glyph: "ring", trouble: 3 };
    case "stopped":
      return { word: "stopped", className: "st-off", glyph: "queued", trouble: 1 };
    case "live":
      return liveState(factory);
    default:
      return factory.presence satisfies never;
  }
}

function liveState(factory: FactoryView): FactoryState {
  if ((factory.engines ?? []).some((engine) => engineState(engine).isLimited)) {
    return { word: "engine limited", className: "st-warn", glyph: "warn", trouble: 3 };
  }
  if (factory.draining) return { word: "draining", className: "st-warn", glyph: "blocked", trouble: 2 };
  if (factory.health < 0.5) return { word: "failing often", className: "st-warn", glyph: "warn", trouble: 2 };
  return { word: "healthy", className: "st-ok", glyph: "shipped", trouble: 0 };
}

export function engineState(engine: EngineHealth): { text: string; isLimited: boolean } {
  if (engine.windowUntil != null) return { text: `window opens ${clockShort(engine.windowUntil)}`, isLimited: true };
  if (engine.retryAt != null) return { text: `paused, retry at ${clockShort(engine.retryAt)}`, isLimited: true };
  if (engine.problem != null) return { text: engine.problem, isLimited: true };
  if (engine.signedIn === false) return { text: "not signed in", isLimited: true };
  return { text: "ready", isLimited: false };
}

/** `Linux x86_64`, from the capabilities. */
export function platform(factory: FactoryView): string {
  const value = (prefix: string) =>
    factory.capabilities.filter((one) => one.startsWith(prefix)).map((one) => one.slice(prefix.length));
  const os =
    { linux: "Linux", mac: "macOS", macos: "macOS", windows: "Windows" }[value("os:")[0] ?? ""] ??
    value("os:")[0] ??
    "";
  return [os, value("arch:").at(-1)].filter(Boolean).join(" ");
}

export function byTrouble(a: FactoryView, b: FactoryView): number {
  return (
    factoryState(b).trouble - factoryState(a).trouble || b.seats.length - a.seats.length || a.id.localeCompare(b.id)
  );
}
