import { describe, expect, it } from "vitest";
import { ApiError, asApiError, isOutage, toApiError } from "./problem";

const answer = (status: number, headers: Record<string, string> = {}) => new Response(null, { status, headers });

describe("problem details", () => {
  it("become one sentence, a remedy and the code", () => {
    const body = { code: "forbidden", detail: "this token may not ship.", status: 403, title: "forbidden" };
    const error = toApiError(answer(403, { "x-request-id": "7f3a" }), body);
    expect(error).toMatchObject({ code: "forbidden", sentence: "This token may not ship", requestId: "7f3a" });
    expect(error.remedy).not.toBe("");
  });
  it("are made up for what a proxy sends", () => {
    expect(toApiError(answer(502), "<html>")).toMatchObject({ code: "unreachable", status: 502 });
    expect(toApiError(answer(418), null)).toMatchObject({ code: "http_418" });
  });
  it("tell an outage from an answer", () => {
    expect(isOutage(asApiError(new TypeError("failed to fetch")))).toBe(true);
    expect(isOutage(toApiError(answer(500), null))).toBe(true);
    expect(isOutage(toApiError(answer(500), { code: "internal", detail: "x" }))).toBe(false);
    expect(isOutage(toApiError(answer(503), { code: "unavailable", detail: "x" }))).toBe(false);
    expect(isOutage(new ApiError(0, "client_error", "x", ""))).toBe(false);
  });
});
