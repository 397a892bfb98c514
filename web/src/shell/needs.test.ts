import { describe, expect, it } from "vitest";
import type { Alert, JobView, Product } from "../api/types";
import { needsOf } from "./needs";

const now = Date.parse("2026-11-18T12:00:00Z");
const job = (id: string, stage: JobView["stage"], more: Partial<JobView> = {}) =>
  ({ id, stage, productId: "p", updatedAt: "2026-11-18T11:00:00Z", ...more }) as JobView;
const product = (autoShip: boolean) => [{ id: "p", autoShip } as Product];

describe("what needs a person", () => {
  it("puts questions first and finished work last", () => {
    const jobs = [
      job("t", "testing"),
      job("f", "failed", { reason: "timeout" }),
      job("q", "blocked", { question: "which?" }),
      job("d", "dead_letter"),
    ];
    expect(needsOf(jobs, [], product(false), now).map((need) => need.kind)).toEqual([
      "question",
      "dead",
      "failed",
      "ship",
    ]);
  });
  it("leaves out what needs nobody", () => {
    const jobs = [
      job("b", "blocked"),
      job("c", "failed", { reason: "cancelled" }),
      job("o", "failed", { reason: "timeout", updatedAt: "2026-11-16T11:00:00Z" }),
      job("x", "dead_letter", { dismissed: true }),
      job("s", "testing"),
    ];
    expect(needsOf(jobs, [], product(true), now)).toEqual([]);
  });
  it("does not list a job and its alert twice", () => {
    const alerts = [
      { code: "question", jobId: "q", message: "", since: "2026-11-18T10:00:00Z" },
      { code: "unplaceable", jobId: "u", message: "", since: "2026-11-18T10:00:00Z" },
      { code: "dispatch_lag", message: "", since: "2026-11-18T10:00:00Z" },
    ] as Alert[];
    const found = needsOf([job("q", "blocked", { question: "?" })], alerts, product(true), now);
    expect(found.map((need) => need.alert?.code ?? need.kind)).toEqual(["question", "unplaceable"]);
  });
});
