import type { PoolView } from "../api/types";
import type { GlyphName } from "../ui/Glyph";
import { plural } from "./format";

export type PoolState = { word: string; className: string; glyph: GlyphName };

/** What a pool does, in words. */
export function poolState({ scale, broken }: PoolView): PoolState {
  if (broken === true) return { word: "its factories do not fit", className: "st-failed", glyph: "failed" };
  if (scale.overdue === true) return { word: "no factory has joined", className: "st-failed", glyph: "failed" };
  if (scale.starting > 0)
    return {
      word: `starting ${plural(scale.starting, "factory", "factories")}`,
      className: "st-warn",
      glyph: "queued",
    };
  if (scale.live > 0) return { word: "running", className: "st-ok", glyph: "shipped" };
  return { word: "idle, no factory runs", className: "st-off", glyph: "ring" };
}
