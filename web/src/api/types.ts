import type { components } from "./schema";

type Schemas = components["schemas"];

export type Alert = Schemas["Alert"];
export type AlertCode = Schemas["AlertCode"];
export type BudgetPeriod = Schemas["BudgetPeriod"];
export type BudgetSettings = Schemas["BudgetSettings"];
export type BudgetView = Schemas["BudgetView"];
export type MoneyWait = Schemas["MoneyWait"];
export type BurnDown = Schemas["BurnDown"];
export type ArtifactView = Schemas["ArtifactView"];
export type CreateProfileRequest = Schemas["CreateProfileRequest"];
export type CredentialView = Schemas["CredentialView"];
export type TreeSummary = Schemas["TreeSummary"];
export type Dag = Schemas["Dag"];
export type DagNode = Schemas["DagNode"];
export type DeadLetter = Schemas["DeadLetter"];
export type DispatchModes = Schemas["DispatchModes"];
export type Divergence = Schemas["Divergence"];
export type DivergenceReport = Schemas["DivergenceReport"];
export type EngineHealth = Schemas["EngineHealth"];
export type Evidence = Schemas["Evidence"];
export type Explanation = Schemas["Explanation"];
export type FactoryFit = Schemas["FactoryFit"];
export type FactoryView = Schemas["FactoryView"];
export type FailureReason = Schemas["FailureReason"];
export type Finding = Schemas["Finding"];
export type Ineligible = Schemas["Ineligible"];
export type JobDetail = Schemas["JobDetail"];
export type JobEvent = Schemas["JobEvent"];
export type JobExplanation = Schemas["JobExplanation"];
export type JobReview = Schemas["JobReview"];
export type JobView = Schemas["JobView"];
export type Metrics = Schemas["Metrics"];
export type MetricsHistory = Schemas["MetricsHistory"];
export type Mode = Schemas["Mode"];
export type NeedAction = Schemas["NeedAction"];
export type NeedItem = Schemas["Need"];
export type NeedKind = Schemas["NeedKind"];
export type NewTokenScope = Schemas["NewTokenScope"];
export type PoolView = Schemas["PoolView"];
export type PlannedJob = Schemas["PlannedJobView"];
export type PlanResponse = Schemas["PlanResponse"];
export type PlacementDecision = Schemas["PlacementDecision"];
export type Priority = Schemas["Priority"];
export type Product = Schemas["Product"];
export type ProductSettings = Schemas["ProductSettings"];
export type ProfileDefaults = Schemas["ProfileDefaults"];
export type ProfileView = Schemas["ProfileView"];
export type Progress = Schemas["Progress"];
export type ProgressEvent = Schemas["ProgressEvent"];
export type Run = Schemas["Run"];
export type RunEvidence = Schemas["RunEvidence"];
export type ProductDivergence = Schemas["ProductDivergence"];
export type RunOutcome = Schemas["RunOutcome"];
export type SessionView = Schemas["SessionView"];
export type RunningWork = Schemas["RunningWork"];
export type SpendShare = Schemas["SpendShare"];
export type StageName = Schemas["StageName"];
export type SubmitResponse = Schemas["SubmitResponse"];
export type TokenScope = Schemas["TokenScope"];
export type TokenView = Schemas["TokenView"];

export type Vote = Schemas["Vote"];
export type VoteDecision = Schemas["VoteDecision"];

export type JobAction = Schemas["Action"];
export type ActionRequest = Schemas["ActionRequest"];

export const STAGES = [
  "queued",
  "blocked",
  "assigned",
  "building",
  "review",
  "testing",
  "shipped",
  "failed",
  "dead_letter",
] as const satisfies readonly StageName[];

export const PRIORITIES = ["critical", "high", "normal", "low"] as const satisfies readonly Priority[];
