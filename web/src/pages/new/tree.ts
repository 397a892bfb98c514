import type { PlannedJob } from "../../api/types";

/** A job of a plan with the jobs below it, and the titles of those that ship first. */
export type Branch = { job: PlannedJob; at: number; below: Branch[]; after: string[] };

/** The plan as a tree. What a parent waits for is not repeated at the jobs below it. */
export function branchesOf(jobs: readonly PlannedJob[]): Branch[] {
  const roots: Branch[] = [];
  const branches: Branch[] = [];
  jobs.forEach((job, at) => {
    const parent = job.parent == null ? undefined : branches[job.parent];
    const inherited = parent?.job.after ?? [];
    const own = (job.after ?? []).filter((place) => !inherited.includes(place));
    const after = own.map((place) => jobs[place]?.title ?? "").filter(Boolean);
    const branch: Branch = { job, at, below: [], after };
    branches.push(branch);
    (parent?.below ?? roots).push(branch);
  });
  return roots;
}
