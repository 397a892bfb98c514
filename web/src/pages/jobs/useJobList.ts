import { useCallback, useEffect, useRef, useState } from "react";
import { client, unwrap } from "../../api/client";
import type { Priority } from "../../api/types";
import { onReset, onSubmitted, usePhase } from "../../live";
import { upsertJobs } from "../../live/jobs";

export type JobFilter = { product?: string; stage?: string; repo?: string; priority?: Priority };
const PAGE = 200;

type State = {
  ids: string[];
  next: string | null;
  isLoading: boolean;
  hasAnswer: boolean;
  error: unknown;
  newer: number;
};
const INITIAL: State = { ids: [], next: null, isLoading: true, hasAnswer: false, error: null, newer: 0 };

/** Pages of ids; the jobs themselves are in the map of live/jobs. New jobs are counted, not inserted under the cursor. */
export function useJobList(filter: JobFilter, limit = PAGE) {
  const [state, setState] = useState<State>(INITIAL);
  const { product, stage, repo, priority } = filter;
  const generation = useRef(0);
  const phase = usePhase();

  const load = useCallback(
    async (cursor: string | undefined) => {
      const mine = cursor === undefined ? ++generation.current : generation.current;
      setState((old) => ({ ...old, isLoading: true }));
      try {
        const page = await unwrap(
          client.GET("/api/fleet/jobs", { params: { query: { product, stage, repo, priority, cursor, limit } } }),
        );
        if (mine !== generation.current) return;
        upsertJobs(page.items);
        const ids = page.items.map((job) => job.id);
        setState((old) => ({
          ids: cursor === undefined ? ids : [...old.ids, ...ids.filter((id) => !old.ids.includes(id))],
          next: page.next ?? null,
          isLoading: false,
          hasAnswer: true,
          error: null,
          newer: cursor === undefined ? 0 : old.newer,
        }));
      } catch (error) {
        if (mine === generation.current) setState((old) => ({ ...old, isLoading: false, error }));
      }
    },
    [product, stage, repo, priority, limit],
  );

  const reload = useCallback(() => void load(undefined), [load]);
  useEffect(() => {
    setState(INITIAL);
    void load(undefined);
  }, [load]);
  useEffect(() => onReset(reload), [reload]);
  useEffect(
    () =>
      onSubmitted((event) => {
        if (product !== undefined && event.productId !== product) return;
        if (stage !== undefined && !stage.split(",").includes(event.stage)) return;
        if (scrollY < 40 && document.visibilityState === "visible") reload();
        else setState((old) => ({ ...old, newer: old.newer + 1 }));
      }),
    [product, stage, reload],
  );
  const hasError = state.error !== null;
  useEffect(() => {
    if (phase === "live" && hasError) reload();
  }, [phase, hasError, reload]);

  const more = useCallback(() => {
    if (!state.isLoading && state.next !== null) void load(state.next);
  }, [state.isLoading, state.next, load]);
  return { ...state, more, reload };
}
