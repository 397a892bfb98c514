// Browser sessions (UI.md §6.3): an HttpOnly cookie and, as a second half, a header value kept in localStorage.
// Behind the dev proxy with GIGA_DEV_TOKEN every call carries a bearer token, so that no session is needed.

import { ApiError, toApiError, unreachable } from "./problem";

export const SESSION_HEADER = "x-giga-session";
const STORAGE_KEY = "giga.session";
const CHANNEL = "giga-session";
const ROUTE = "/api/fleet/session";

export type Credentials = { token: string } | { code: string };
type Listener = (isSignedIn: boolean) => void;

const listeners = new Set<Listener>();
const channel = typeof BroadcastChannel === "undefined" ? null : new BroadcastChannel(CHANNEL);
channel?.addEventListener("message", (message: MessageEvent<boolean>) => notify(message.data));

function notify(isSignedIn: boolean) {
  for (const listener of listeners) listener(isSignedIn);
}

function store(value: string | null) {
  try {
    if (value === null) localStorage.removeItem(STORAGE_KEY);
    else localStorage.setItem(STORAGE_KEY, value);
  } catch {
    // Storage is blocked: the session then lasts until the tab closes.
  }
  memory = value;
}

let memory: string | null = null;

/** The header half of the session. */
export function sessionValue(): string | null {
  try {
    return localStorage.getItem(STORAGE_KEY) ?? memory;
  } catch {
    return memory;
  }
}

/** The headers that every call and stream sends. */
export function sessionHeaders(): Record<string, string> {
  const value = sessionValue();
  return value === null ? {} : { [SESSION_HEADER]: value };
}

/** Calls back when this or another tab signs in or out. */
export function onSession(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Trades a token or a one-time code for a session. */
export async function signIn(credentials: Credentials): Promise<void> {
  const response = await fetch(ROUTE, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(credentials),
  }).catch(() => {
    throw unreachable();
  });
  const body: unknown = await response.json().catch(() => null);
  if (response.status === 401 && "code" in credentials)
    throw new ApiError(401, "used_link", "This link was used or has expired", "`giga sign-in` prints another one.");
  if (!response.ok) throw toApiError(response, body);
  const value = readSession(body);
  if (value === null)
    throw new ApiError(response.status, "bad_answer", "The sign-in answer has no session", "Upgrade the coordinator.");
  store(value);
  channel?.postMessage(true);
  notify(true);
}

function readSession(body: unknown): string | null {
  if (typeof body !== "object" || body === null || !("session" in body)) return null;
  return typeof body.session === "string" ? body.session : null;
}

/** Ends the session on the server and in every tab. */
export async function signOut(): Promise<void> {
  await fetch(ROUTE, { method: "DELETE", headers: sessionHeaders() }).catch(() => undefined);
  store(null);
  channel?.postMessage(false);
  notify(false);
}

/** The server rejected the session: forget it. */
export function sessionRejected() {
  if (sessionValue() !== null) store(null);
}

/** A one-time code in the fragment of the sign-in link of `giga up`. Removes it from the address. */
export function takeCodeFromFragment(): string | null {
  const code = new URLSearchParams(location.hash.slice(1)).get("code");
  if (code !== null) history.replaceState(history.state, "", location.pathname + location.search);
  return code;
}

let firstError: unknown = null;

/** The link that opened this page was refused: the sign-in page says why. */
export function rememberSignInError(error: unknown) {
  firstError = error;
}

export function signInError(): unknown {
  return firstError;
}
