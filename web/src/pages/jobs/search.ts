import { PRIORITIES, type Priority, STAGES, type StageName } from "../../api/types";
import { OPEN_STAGES } from "../../lib/stages";

export const JOB_VIEWS = ["table", "board"] as const;
export type JobsView = (typeof JOB_VIEWS)[number];

/** The URL is the state of the Jobs page. `product` belongs to the whole shell. */
export type JobsSearch = {
  view?: JobsView;
  stage?: string;
  repo?: string;
  priority?: Priority;
  factory?: string;
  /** With commas between them: all must match. */
  tag?: string;
  /** Words of the title, or a part of the id. */
  q?: string;
};

export const FILTER_KEYS = [
  "stage",
  "repo",
  "priority",
  "factory",
  "tag",
  "q",
] as const satisfies readonly (keyof JobsSearch)[];

const text = (value: unknown): string | undefined =>
  typeof value === "string" && value !== "" ? value : typeof value === "number" ? String(value) : undefined;

export function parseJobsSearch(search: Record<string, unknown>): JobsSearch {
  const stages = parseStages(text(search.stage));
  return {
    view: JOB_VIEWS.find((view) => view === search.view),
    stage: stages.length > 0 ? stages.join(",") : undefined,
    repo: text(search.repo),
    priority: PRIORITIES.find((priority) => priority === search.priority),
    factory: text(search.factory),
    tag: text(search.tag),
    q: text(search.q),
  };
}

export function parseStages(words: string | undefined): StageName[] {
  if (words === "open") return [...OPEN_STAGES];
  const wanted = (words ?? "").split(",");
  return STAGES.filter((stage) => wanted.includes(stage));
}

export type Typed = { search: Partial<JobsSearch> & { product?: string }; unknown: string[] };

/** Reads `stage:testing tag:ux fix login`. A known key with an impossible value is reported; plain words search the title. */
export function parseTyped(typed: string): Typed {
  const search: Typed["search"] = {};
  const unknown: string[] = [];
  const words: string[] = [];
  for (const word of typed.split(/\s+/).filter(Boolean)) {
    const [key, value = ""] = word.split(/:(.*)/s);
    if (!word.includes(":") || !isKey(key)) words.push(word);
    else if (!take(search, key, value)) unknown.push(word);
  }
  if (words.length > 0) search.q = words.join(" ");
  return { search, unknown };
}

const KEYS = ["stage", "repo", "product", "priority", "factory", "tag"] as const;
type Key = (typeof KEYS)[number];

function isKey(key: string | undefined): key is Key {
  return KEYS.some((one) => one === key);
}

function take(search: Typed["search"], key: Key, value: string): boolean {
  if (value === "") return false;
  switch (key) {
    case "stage": {
      const stages = parseStages(value);
      if (stages.length === 0) return false;
      search.stage = stages.join(",");
      return true;
    }
    case "priority": {
      const priority = PRIORITIES.find((one) => one === value);
      if (priority === undefined) return false;
      search.priority = priority;
      return true;
    }
    case "tag":
      search.tag = search.tag === undefined ? value : `${search.tag},${value}`;
      return true;
    case "repo":
    case "product":
    case "factory":
      search[key] = value;
      return true;
    default:
      return key satisfies never;
  }
}
