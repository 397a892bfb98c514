import { PRIORITIES, type Priority, STAGES, type StageName } from "../../api/types";
import { OPEN_STAGES } from "../../lib/stages";

export const JOB_VIEWS = ["table", "board"] as const;
export type JobsView = (typeof JOB_VIEWS)[number];

/** The URL is the state of the Jobs page. `product` belongs to the whole shell. */
export type JobsSearch = { view?: JobsView; stage?: string; repo?: string; priority?: Priority };

export function parseJobsSearch(search: Record<string, unknown>): JobsSearch {
  const stages = parseStages(typeof search.stage === "string" ? search.stage : undefined);
  return {
    view: JOB_VIEWS.find((view) => view === search.view),
    stage: stages.length > 0 ? stages.join(",") : undefined,
    repo: typeof search.repo === "string" && search.repo !== "" ? search.repo : undefined,
    priority: PRIORITIES.find((priority) => priority === search.priority),
  };
}

export function parseStages(text: string | undefined): StageName[] {
  if (text === "open") return [...OPEN_STAGES];
  const words = (text ?? "").split(",");
  return STAGES.filter((stage) => words.includes(stage));
}

export type Typed = { search: Partial<JobsSearch> & { product?: string }; unknown: string[] };

/** Reads `stage:review repo:web`. Words without a key cannot be searched: the API has no text filter. */
export function parseTyped(text: string): Typed {
  const search: Typed["search"] = {};
  const unknown: string[] = [];
  for (const word of text.split(/\s+/).filter(Boolean)) {
    const [key, value] = word.split(/:(.*)/s);
    if (key === "stage" && parseStages(value).length > 0) search.stage = parseStages(value).join(",");
    else if (key === "repo" && value) search.repo = value;
    else if (key === "product" && value) search.product = value;
    else if (key === "priority" && PRIORITIES.some((one) => one === value))
      search.priority = PRIORITIES.find((one) => one === value);
    else unknown.push(word);
  }
  return { search, unknown };
}
