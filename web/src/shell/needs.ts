import { useQuery } from "@tanstack/react-query";
import { needsQuery } from "../api/queries";

/** What waits for a person, in the coordinator's order: blocked people and money first, then age. */
export function useNeeds(product: string | undefined) {
  const query = useQuery(needsQuery(product));
  const total = query.data?.total ?? 0;
  // Of more than a thousand failures, the newest are listed.
  const totalText = `${total}${query.data?.isExact === false ? "+" : ""}`;
  return { ...query, items: query.data?.items, total, totalText };
}
