import { describe, expect, it } from "vitest";
import type { SessionView, TokenView } from "../api/types";
import { revokeRisk } from "./tokens";

const NOW = Date.parse("2026-11-18T12:00:00Z");
const admin = (id: string, expiresAt?: string): TokenView =>
  ({ id, name: id, grant: { role: "admin" }, createdAt: "2026-11-01T00:00:00Z", expiresAt }) as TokenView;
const session = { principal: { name: "root", role: "admin", products: [] } } as unknown as SessionView;

describe("revoking a token", () => {
  it("recognizes the token of the session", () => {
    const tokens = [admin("root"), admin("other")];
    expect(revokeRisk(admin("root"), tokens, session, NOW)).toEqual({ isOwn: true, isLastAdmin: false });
    expect(revokeRisk(admin("other"), tokens, session, NOW)).toEqual({ isOwn: false, isLastAdmin: false });
    expect(revokeRisk(admin("root"), tokens, undefined, NOW).isOwn).toBe(false);
  });
  it("does not count an expired admin token as another one", () => {
    const tokens = [admin("root"), admin("old", "2026-11-18T11:59:59Z")];
    expect(revokeRisk(admin("root"), tokens, session, NOW).isLastAdmin).toBe(true);
    expect(revokeRisk(admin("old", "2026-11-18T11:59:59Z"), tokens, session, NOW).isLastAdmin).toBe(false);
  });
});
