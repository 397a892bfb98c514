import type { SessionView, TokenView } from "../api/types";

/** What revoking a token would do to the person who asks for it. */
export type RevokeRisk = { isOwn: boolean; isLastAdmin: boolean };

/** A session names its token by name and role, not by id: two tokens of one name are both marked. */
export function isSessionToken(token: TokenView, session: SessionView | undefined): boolean {
  return session !== undefined && token.name === session.principal.name && token.grant.role === session.principal.role;
}

export function revokeRisk(
  token: TokenView,
  tokens: readonly TokenView[],
  session: SessionView | undefined,
  now = Date.now(),
): RevokeRisk {
  const isAdmin = (one: TokenView) =>
    one.grant.role === "admin" && (one.expiresAt == null || Date.parse(one.expiresAt) > now);
  return {
    isOwn: isSessionToken(token, session),
    isLastAdmin: isAdmin(token) && !tokens.some((one) => one.id !== token.id && isAdmin(one)),
  };
}
