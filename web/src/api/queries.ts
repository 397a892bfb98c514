import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { client, unwrap } from "./client";
import type { StageName } from "./types";

// One place for keys: live/ invalidates by their first words.

export const alertsQuery = queryOptions({
  queryKey: ["alerts"],
  queryFn: ({ signal }) => unwrap(client.GET("/api/fleet/alerts", { signal })),
});

export const metricsQuery = queryOptions({
  queryKey: ["metrics"],
  queryFn: ({ signal }) => unwrap(client.GET("/api/fleet/metrics", { signal })),
});

/** The last hour, as far as something changed in it. */
export const historyQuery = queryOptions({
  queryKey: ["history"],
  queryFn: ({ signal }) => unwrap(client.GET("/api/fleet/metrics/history", { signal })),
});

export const sessionQuery = queryOptions({
  queryKey: ["session"],
  queryFn: ({ signal }) => unwrap(client.GET("/api/fleet/session", { signal })),
  staleTime: Number.POSITIVE_INFINITY,
});

export const factoriesQuery = queryOptions({
  queryKey: ["factories"],
  queryFn: ({ signal }) => unwrap(client.GET("/api/fleet/factories", { signal })),
});

export const poolsQuery = queryOptions({
  queryKey: ["pools"],
  queryFn: ({ signal }) => unwrap(client.GET("/api/fleet/pools", { signal })),
});

export const productsQuery = queryOptions({
  queryKey: ["products"],
  queryFn: ({ signal }) => unwrap(client.GET("/api/fleet/products", { signal })),
});

export const budgetsQuery = queryOptions({
  queryKey: ["budgets"],
  queryFn: ({ signal }) => unwrap(client.GET("/api/fleet/budgets", { signal })),
});

/** How the money of the current period was spent over time. */
export function burnDownQuery(id: string) {
  return queryOptions({
    queryKey: ["burndown", id],
    queryFn: ({ signal }) =>
      unwrap(client.GET("/api/fleet/budgets/{id}/burndown", { params: { path: { id } }, signal })),
  });
}

export const profilesQuery = queryOptions({
  queryKey: ["profiles"],
  queryFn: ({ signal }) => unwrap(client.GET("/api/fleet/profiles", { signal })),
});

/** One version of a profile; it never changes. */
export function profileQuery(name: string, productId: string, version: number) {
  const params = { path: { name }, query: { productId, version } };
  return queryOptions({
    queryKey: ["profiles", productId, name, version],
    queryFn: ({ signal }) => unwrap(client.GET("/api/fleet/profiles/{name}", { params, signal })),
    placeholderData: keepPreviousData,
  });
}

export const flagsQuery = queryOptions({
  queryKey: ["flags"],
  queryFn: ({ signal }) => unwrap(client.GET("/api/fleet/flags", { signal })),
});

/** How push mode compares with polling. */
export const divergenceQuery = queryOptions({
  queryKey: ["divergence"],
  queryFn: ({ signal }) => unwrap(client.GET("/api/fleet/divergence", { signal })),
});

export const deadLettersQuery = queryOptions({
  queryKey: ["dead-letters"],
  queryFn: ({ signal }) => unwrap(client.GET("/api/fleet/dead-letters", { params: { query: { limit: 200 } }, signal })),
});

export const credentialsQuery = queryOptions({
  queryKey: ["credentials"],
  queryFn: ({ signal }) => unwrap(client.GET("/api/fleet/credentials", { signal })),
});

export const trackersQuery = queryOptions({
  queryKey: ["trackers"],
  queryFn: ({ signal }) => unwrap(client.GET("/api/fleet/tracker", { signal })),
});

export const webhooksQuery = queryOptions({
  queryKey: ["webhooks"],
  queryFn: ({ signal }) => unwrap(client.GET("/api/fleet/webhooks", { signal })),
});

export const tokensQuery = queryOptions({
  queryKey: ["tokens"],
  queryFn: ({ signal }) => unwrap(client.GET("/api/fleet/tokens", { signal })),
});

export const healthQuery = queryOptions({
  queryKey: ["health"],
  queryFn: ({ signal }) => unwrap(client.GET("/healthz", { signal })),
  staleTime: 60_000,
});

/** A short list of jobs for a panel; the Jobs page pages through `live/job-list`. */
export function jobsPanelQuery(stages: readonly StageName[], product: string | undefined, limit: number) {
  return queryOptions({
    queryKey: ["jobs", stages.join(","), product ?? "", limit],
    queryFn: ({ signal }) =>
      unwrap(client.GET("/api/fleet/jobs", { params: { query: { stage: stages.join(","), product, limit } }, signal })),
  });
}

/** The newest jobs whose title has these words, or whose id begins or ends so. */
export function jobSearchQuery(text: string, product: string | undefined) {
  const query = { text: text === "" ? undefined : text, product, limit: 20 };
  return queryOptions({
    queryKey: ["jobs", "search", text, product ?? ""],
    queryFn: ({ signal }) => unwrap(client.GET("/api/fleet/jobs", { params: { query }, signal })),
    placeholderData: keepPreviousData,
  });
}

export function jobQuery(id: string) {
  return queryOptions({
    queryKey: ["job", id],
    queryFn: ({ signal }) => unwrap(client.GET("/api/fleet/jobs/{id}", { params: { path: { id } }, signal })),
  });
}

/** The files that runs attached. */
export function artifactsQuery(id: string) {
  return queryOptions({
    queryKey: ["job", id, "artifacts"],
    queryFn: ({ signal }) => unwrap(client.GET("/api/fleet/jobs/{id}/artifacts", { params: { path: { id } }, signal })),
  });
}

export function jobEventsQuery(id: string) {
  return queryOptions({
    queryKey: ["job", id, "events"],
    queryFn: async ({ signal }) => {
      const items = [];
      let after: string | undefined;
      do {
        const page = await unwrap(
          client.GET("/api/fleet/jobs/{id}/events", {
            params: { path: { id }, query: { after, limit: 1000 } as never },
            signal,
          }),
        );
        items.push(...page.items);
        after = page.next ?? undefined;
      } while (after !== undefined && items.length < 5000);
      return items;
    },
  });
}

export function jobRunsQuery(id: string) {
  return queryOptions({
    queryKey: ["job", id, "runs"],
    queryFn: ({ signal }) =>
      unwrap(client.GET("/api/fleet/jobs/{id}/runs", { params: { path: { id }, query: { limit: 200 } }, signal })),
  });
}

export function runEvidenceQuery(id: string, n: number) {
  return queryOptions({
    queryKey: ["evidence", id, n],
    queryFn: ({ signal }) =>
      unwrap(client.GET("/api/fleet/jobs/{id}/runs/{n}/evidence", { params: { path: { id, n } }, signal })),
  });
}

export function jobExplainQuery(id: string) {
  return queryOptions({
    queryKey: ["job", id, "explain"],
    queryFn: ({ signal }) => unwrap(client.GET("/api/fleet/jobs/{id}/explain", { params: { path: { id } }, signal })),
  });
}

export function jobDagQuery(id: string) {
  return queryOptions({
    queryKey: ["job", id, "dag"],
    queryFn: ({ signal }) => unwrap(client.GET("/api/fleet/jobs/{id}/dag", { params: { path: { id } }, signal })),
  });
}

export function needsQuery(product: string | undefined) {
  return queryOptions({
    queryKey: ["needs", product ?? ""],
    queryFn: ({ signal }) =>
      unwrap(client.GET("/api/fleet/needs-me", { params: { query: { product, limit: 200 } }, signal })),
  });
}

export function countsQuery(product: string | undefined) {
  return queryOptions({
    queryKey: ["counts", product ?? ""],
    queryFn: ({ signal }) => unwrap(client.GET("/api/fleet/jobs/counts", { params: { query: { product } }, signal })),
  });
}
