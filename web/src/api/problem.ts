/** An error for people: one sentence, one remedy, and the code to search for. */
export class ApiError extends Error {
  override name = "ApiError";
  constructor(
    readonly status: number,
    readonly code: string,
    readonly sentence: string,
    readonly remedy: string,
    readonly more: unknown = null,
    readonly requestId: string | null = null,
  ) {
    super(sentence);
  }
}

/** What to do about a code, where the coordinator's own sentence does not say so. */
const REMEDIES: Record<string, string> = {
  unauthenticated: "Sign in again.",
  forbidden: "Use a token with the role operator or admin for this product.",
  not_found: "It may be removed, or your token may not see it.",
  precondition_failed: "It changed in the meantime. Reload it, then try again.",
  conflict: "It changed in the meantime. Reload it, then try again.",
  fenced: "The run has ended. Reload the job.",
  illegal_transition: "The job has moved on. Reload it.",
  rate_limited: "Wait a few seconds, then try again.",
  timed_out: "Reload to see whether it happened, then try again.",
  unavailable: "Try again. If it lasts, check the coordinator's log.",
  busy: "A backup or restore is in progress. Try again when it is done.",
  not_ready: "The coordinator is starting. Try again in a few seconds.",
  internal: "Check the coordinator's log.",
  unreachable: "Check that the coordinator runs and that this browser can reach it.",
  no_such_route: "This coordinator is older than this page. Upgrade it, or use `giga`.",
};

const BY_STATUS: Record<number, string> = {
  401: "unauthenticated",
  403: "forbidden",
  404: "not_found",
  409: "conflict",
  412: "precondition_failed",
  429: "rate_limited",
  502: "unreachable",
  503: "unavailable",
  504: "timed_out",
};

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function text(value: unknown): string | null {
  return typeof value === "string" && value.trim() !== "" ? value.trim() : null;
}

/** First letter in upper case, and no final full stop: one style for server and client sentences. */
export function sentenceCase(words: string): string {
  const trimmed = words.trim().replace(/\.$/, "");
  return trimmed.charAt(0).toUpperCase() + trimmed.slice(1);
}

/** Reads an error answer: problem details, or whatever a proxy sent in their place. */
export function toApiError(response: Response, body: unknown): ApiError {
  const problem = isRecord(body) ? body : {};
  const code = text(problem.code) ?? BY_STATUS[response.status] ?? `http_${response.status}`;
  const sentence = sentenceCase(
    text(problem.detail) ?? text(problem.title) ?? `The server answered ${response.status}`,
  );
  return new ApiError(
    response.status,
    code,
    sentence,
    REMEDIES[code] ?? "",
    problem.more ?? null,
    response.headers.get("x-request-id"),
  );
}

/** A request that got no answer. */
export function unreachable(): ApiError {
  return new ApiError(0, "unreachable", "The coordinator does not answer", REMEDIES.unreachable ?? "");
}

export function asApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  if (error instanceof TypeError || (error instanceof DOMException && error.name !== "AbortError"))
    return unreachable();
  return new ApiError(
    0,
    "client_error",
    sentenceCase(error instanceof Error ? error.message : String(error)),
    "Reload the page.",
  );
}

/** Whether the coordinator did not answer: nothing came, or a proxy in front of it sent a 5xx without problem details. */
export function isOutage(error: unknown): boolean {
  const { status, code } = asApiError(error);
  return (status === 0 && code === "unreachable") || status === 502 || status === 504 || code.startsWith("http_5");
}
