export const JOB_TABS = ["overview", "log", "runs", "explain", "deps", "manifest", "artifacts", "events"] as const;
export type JobTab = (typeof JOB_TABS)[number];

export const TAB_NAMES: Record<JobTab, { name: string; key: string }> = {
  overview: { name: "Overview", key: "t" },
  log: { name: "Log", key: "l" },
  runs: { name: "Runs", key: "r" },
  explain: { name: "Explain", key: "e" },
  deps: { name: "Dependencies", key: "d" },
  manifest: { name: "Manifest", key: "m" },
  artifacts: { name: "Artifacts", key: "f" },
  events: { name: "Events", key: "w" },
};
