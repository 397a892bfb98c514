import { useQuery } from "@tanstack/react-query";
import { needsQuery } from "../api/queries";

/** What waits for a person, in the coordinator's order: blocked people and money first, then age. */
export function useNeeds(product: string | undefined) {
  const query = useQuery(needsQuery(product));
  return { ...query, items: query.data?.items, total: query.data?.total ?? 0 };
}
