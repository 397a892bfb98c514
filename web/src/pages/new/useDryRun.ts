import { useEffect, useState } from "react";
import { type ApiError, asApiError } from "../../api/problem";
import type { Finding } from "../../api/types";
import { useIsCurrent } from "../../live";

const DEBOUNCE_MS = 400;

export type DryRun<A> = {
  /** The answer for the last text that had no error, and when it was checked. */
  answer: A | null;
  answeredAt: number | null;
  findings: Finding[];
  error: ApiError | null;
  isChecking: boolean;
  /** The text that `findings` and `error` belong to. */
  checked: string | null;
  checkedAt: number | null;
};

/** Asks the coordinator what a text would become. */
export type Check<A> = (text: string, product: string | undefined, signal: AbortSignal) => Promise<A>;

const INITIAL: DryRun<never> = {
  answer: null,
  answeredAt: null,
  findings: [],
  error: null,
  isChecking: false,
  checked: null,
  checkedAt: null,
};

export function findingsOf(error: ApiError): Finding[] {
  const more = error.more;
  if (typeof more !== "object" || more === null || !("findings" in more) || !Array.isArray(more.findings)) return [];
  return more.findings as Finding[];
}

/** Validates while the user types; the last answer wins. */
export function useDryRun<A extends { warnings?: Finding[] }>(
  check: Check<A>,
  text: string,
  product: string | undefined,
): DryRun<A> {
  const [state, setState] = useState<DryRun<A>>(INITIAL);
  const isCurrent = useIsCurrent();
  useEffect(() => {
    if (!isCurrent || text.trim() === "") return;
    const abort = new AbortController();
    const timer = setTimeout(async () => {
      setState((old) => ({ ...old, isChecking: true }));
      try {
        const answer = await check(text, product, abort.signal);
        setState({
          answer,
          answeredAt: Date.now(),
          findings: answer.warnings ?? [],
          error: null,
          isChecking: false,
          checked: text,
          checkedAt: Date.now(),
        });
      } catch (failure) {
        if (abort.signal.aborted) return;
        const error = asApiError(failure);
        const findings = findingsOf(error);
        setState((old) => ({ ...old, findings, error, isChecking: false, checked: text, checkedAt: Date.now() }));
      }
    }, DEBOUNCE_MS);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [check, text, product, isCurrent]);
  return state;
}
