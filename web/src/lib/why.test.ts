import { describe, expect, it } from "vitest";
import type { JobView } from "../api/types";
import { whyOf } from "./why";

const job = (part: Partial<JobView>) => ({ stage: "testing", ...part }) as JobView;

describe("where a job is and why", () => {
  it("calls work verified only when verify commands passed", () => {
    expect(whyOf(job({ verified: true }), undefined).text).toBe("verified, ready to ship");
    expect(whyOf(job({ verified: false }), undefined).text).toBe("completed, not verified");
    expect(whyOf(job({}), undefined).text).toBe("completed, not verified");
  });
});
