import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { needsQuery } from "../api/queries";
import { withReasonWords } from "../lib/stages";

/** What waits for a person, in the coordinator's order: blocked people and money first, then age. */
export function useNeeds(product: string | undefined) {
  const query = useQuery(needsQuery(product));
  const total = query.data?.total ?? 0;
  // Of more than a thousand failures, the newest are listed.
  const totalText = `${total}${query.data?.isExact === false ? "+" : ""}`;
  const listed = query.data?.items;
  const items = useMemo(() => listed?.map((item) => ({ ...item, text: withReasonWords(item.text) })), [listed]);
  return { ...query, items, total, totalText };
}
