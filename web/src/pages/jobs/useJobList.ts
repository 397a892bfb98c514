import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { client, unwrap } from "../../api/client";
import type { Priority } from "../../api/types";
import { onJobEvent, onReset, usePhase } from "../../live";
import { throttled } from "../../live/batch";
import { upsertJobs } from "../../live/jobs";

export type JobFilter = {
  product?: string;
  stage?: string;
  repo?: string;
  priority?: Priority;
  factory?: string;
  tag?: string;
  text?: string;
};
export type Total = { count: number; isExact: boolean };
const PAGE = 200;
const NEXT_PAGE = 500;
const SCREEN = 40;
const LANE_EVERY_MS = 700;
const RELOAD_EVERY_MS = 1_000;

type State = {
  ids: string[];
  next: string | null;
  total: Total | null;
  isLoading: boolean;
  hasAnswer: boolean;
  error: unknown;
  newer: number;
};
const INITIAL: State = {
  ids: [],
  next: null,
  total: null,
  isLoading: true,
  hasAnswer: false,
  error: null,
  newer: 0,
};

/** `hold` while rows are selected: then nothing is inserted. A lane shows what is in its stages now; a table greys it out. */
export type ListOptions = { kind: "table" | "lane"; limit?: number; hold?: boolean };

/** Pages of ids; the jobs themselves are in the map of live/jobs. New jobs are counted, not inserted under the cursor. */
export function useJobList(filter: JobFilter, { kind, limit = PAGE, hold = false }: ListOptions) {
  const [state, setState] = useState<State>(INITIAL);
  const ids = useRef<ReadonlySet<string>>(new Set());
  ids.current = useMemo(() => new Set(state.ids), [state.ids]);
  const isHeld = useRef(hold);
  isHeld.current = hold;
  const { product, stage, repo, priority, factory, tag, text } = filter;
  const generation = useRef(0);
  const phase = usePhase();

  const load = useCallback(
    async (cursor: string | undefined) => {
      const mine = cursor === undefined ? ++generation.current : generation.current;
      setState((old) => ({ ...old, isLoading: true }));
      try {
        const query = {
          product,
          stage,
          repo,
          priority,
          factory,
          tag,
          text,
          cursor,
          limit: cursor === undefined ? limit : NEXT_PAGE,
          total: cursor === undefined,
        };
        const page = await unwrap(client.GET("/api/fleet/jobs", { params: { query } }));
        if (mine !== generation.current) return;
        upsertJobs(page.items);
        const ids = page.items.map((job) => job.id);
        setState((old) => ({
          ids: cursor === undefined ? ids : joined(old.ids, ids),
          next: page.next ?? null,
          total: cursor === undefined ? (page.total ?? null) : old.total,
          isLoading: false,
          hasAnswer: true,
          error: null,
          newer: cursor === undefined ? 0 : old.newer,
        }));
      } catch (error) {
        if (mine === generation.current) setState((old) => ({ ...old, isLoading: false, error }));
      }
    },
    [product, stage, repo, priority, factory, tag, text, limit],
  );

  const reload = useCallback(() => void load(undefined), [load]);
  useEffect(() => {
    setState(INITIAL);
    void load(undefined);
  }, [load]);
  useEffect(() => onReset(reload), [reload]);
  useEffect(() => {
    const later = throttled(kind === "lane" ? LANE_EVERY_MS : RELOAD_EVERY_MS, reload);
    const newer = new Set<string>();
    return onJobEvent((event) => {
      const { jobId } = event;
      const isKnown = ids.current.has(jobId);
      const fits =
        (product === undefined || event.productId === product) &&
        (stage === undefined || stage.split(",").includes(event.stage));
      if (kind === "lane") {
        if (isKnown && !fits) setState((old) => ({ ...old, ids: old.ids.filter((id) => id !== jobId) }));
        else if (!isKnown && fits) later("lane");
      } else if (!isKnown && fits && !newer.has(jobId)) {
        // At the top, where nothing moves under the cursor, new jobs appear; elsewhere they are counted.
        if (scrollY < 40 && !isHeld.current && document.visibilityState === "visible") later("list");
        else {
          newer.add(jobId);
          setState((old) => ({ ...old, newer: old.newer + 1 }));
        }
      }
    });
  }, [product, stage, reload, kind]);
  const hasError = state.error !== null;
  useEffect(() => {
    if (phase === "live" && hasError) reload();
  }, [phase, hasError, reload]);

  const more = useCallback(() => {
    if (!state.isLoading && state.next !== null) void load(state.next);
  }, [state.isLoading, state.next, load]);
  // A search may answer a page with few matches although there are more.
  const isShort = state.hasAnswer && state.error === null && state.ids.length < SCREEN && state.next !== null;
  useEffect(() => {
    if (isShort) more();
  }, [isShort, more]);
  return { ...state, more, reload };
}

/** Pages may overlap when jobs come in between. */
function joined(known: readonly string[], more: readonly string[]): string[] {
  const seen = new Set(known);
  return [...known, ...more.filter((id) => !seen.has(id))];
}
