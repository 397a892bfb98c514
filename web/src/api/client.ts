import createClient, { type Middleware } from "openapi-fetch";
import { ApiError, asApiError, isOutage, toApiError } from "./problem";
import type { paths } from "./schema";
import { sessionHeaders, sessionRejected } from "./session";

/** What the live connection learns from ordinary reads. */
export type ReadReport = "ok" | "outage" | "unauthenticated";
const observers = new Set<(report: ReadReport) => void>();

export function observeReads(observer: (report: ReadReport) => void): () => void {
  observers.add(observer);
  return () => observers.delete(observer);
}

function report(what: ReadReport) {
  for (const observer of observers) observer(what);
}

const session: Middleware = {
  onRequest({ request }) {
    for (const [name, value] of Object.entries(sessionHeaders())) request.headers.set(name, value);
    return request;
  },
};

const client = createClient<paths>({
  baseUrl: globalThis.location?.origin ?? "",
  fetch: (request: Request) => globalThis.fetch(request),
});
client.use(session);

export { client };

type Answer<T> = { data?: T; error?: unknown; response: Response };

/** Unwraps an answer, or throws an `ApiError`. */
export async function unwrap<T>(call: Promise<Answer<T>>): Promise<T> {
  let answer: Answer<T>;
  try {
    answer = await call;
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    report("outage");
    throw asApiError(error);
  }
  const { data, error, response } = answer;
  if (response.ok) {
    report("ok");
    return data as T;
  }
  const problem = toApiError(response, error);
  if (problem.status === 401) {
    sessionRejected();
    report("unauthenticated");
  } else if (isOutage(problem)) report("outage");
  else report("ok");
  throw problem;
}

/** A retry is worthwhile when the coordinator may answer differently. */
export function isRetryable(error: unknown): boolean {
  return error instanceof ApiError && (error.status === 503 || error.status === 429);
}

export function idempotencyKey(): string {
  return `web-${crypto.randomUUID()}`;
}
