import { client, idempotencyKey, unwrap } from "./client";
import type {
  ActionRequest,
  BudgetSettings,
  CreateProfileRequest,
  DispatchModes,
  JobAction,
  JobReview,
  JobView,
  NewTokenScope,
  ProductSettings,
  VoteDecision,
} from "./types";

/** `rev` fences the write: the coordinator rejects it when the job has changed since. */
export function actOnJob(job: Pick<JobView, "id" | "rev">, action: JobAction, body: ActionRequest, fenced = true) {
  const header = fenced ? { "If-Match": `"${job.rev}"` } : {};
  return unwrap(
    client.POST("/api/fleet/jobs/{id}/actions/{action}", { params: { path: { id: job.id, action }, header }, body }),
  );
}

export function submitJob(bodyMd: string, productId: string | undefined, key = idempotencyKey()) {
  return unwrap(
    client.POST("/api/fleet/jobs", {
      params: { header: { "Idempotency-Key": key } },
      body: { bodyMd, productId },
    }),
  );
}

export function dryRunJob(bodyMd: string, productId: string | undefined, signal: AbortSignal) {
  return unwrap(
    client.POST("/api/fleet/jobs", { params: { query: { dryRun: true } }, body: { bodyMd, productId }, signal }),
  );
}

/** The same text is submitted once: its keys follow from it. */
export function submitPlan(bodyMd: string, productId: string | undefined) {
  return unwrap(client.POST("/api/fleet/plans", { body: { bodyMd, productId } }));
}

export function dryRunPlan(bodyMd: string, productId: string | undefined, signal: AbortSignal) {
  return unwrap(
    client.POST("/api/fleet/plans", { params: { query: { dryRun: true } }, body: { bodyMd, productId }, signal }),
  );
}

export function redriveDeadLetter(id: string, fresh: boolean, message?: string) {
  return unwrap(
    client.POST("/api/fleet/dead-letters/{id}/redrive", { params: { path: { id } }, body: { fresh, message } }),
  );
}

export function dismissJob(id: string, message?: string) {
  return unwrap(client.POST("/api/fleet/jobs/{id}/dismiss", { params: { path: { id } }, body: { message } }));
}

/** An empty answer lets the agent decide by itself. */
export function answerJob(job: Pick<JobView, "id" | "rev">, text: string) {
  const params = { path: { id: job.id }, header: { "If-Match": `"${job.rev}"` } };
  return unwrap(client.POST("/api/fleet/jobs/{id}/answer", { params, body: { text } }));
}

/** A vote names the commit that was shown; work without a commit is named by its run. */
export function voteOnJob(id: string, review: JobReview, decision: VoteDecision, comment: string) {
  const work = review.sha == null ? { run: review.run } : { sha: review.sha };
  const body = { decision, ...work, comment: comment === "" ? undefined : comment };
  return unwrap(client.POST("/api/fleet/jobs/{id}/review", { params: { path: { id } }, body }));
}

export function setModes(modes: DispatchModes) {
  return unwrap(client.PUT("/api/fleet/flags", { body: modes }));
}

export function drainFactory(id: string, draining: boolean) {
  return unwrap(client.POST("/api/fleet/factories/{id}/drain", { params: { path: { id } }, body: { draining } }));
}

export function removeFactory(id: string) {
  return unwrap(client.DELETE("/api/fleet/factories/{id}", { params: { path: { id } } }));
}

export function resumeCredential(credential: string) {
  return unwrap(client.POST("/api/fleet/credentials/resume", { body: { credential } }));
}

export function testWebhook(name: string) {
  return unwrap(client.POST("/api/fleet/webhooks/{name}/test", { params: { path: { name } } }));
}

export function echoItem(jobId: string) {
  return unwrap(client.POST("/api/fleet/tracker/echo", { body: { jobId } }));
}

export function saveBudget(id: string, settings: BudgetSettings) {
  return unwrap(client.PUT("/api/fleet/budgets/{id}", { params: { path: { id } }, body: settings }));
}

export function pauseProduct(id: string, reason?: string) {
  return unwrap(client.POST("/api/fleet/budgets/{id}/pause", { params: { path: { id } }, body: { reason } }));
}

export function resumeProduct(id: string) {
  return unwrap(client.POST("/api/fleet/budgets/{id}/resume", { params: { path: { id } } }));
}

export function createProfile(body: CreateProfileRequest) {
  return unwrap(client.POST("/api/fleet/profiles", { body }));
}

export function saveProduct(id: string, settings: ProductSettings) {
  return unwrap(client.PUT("/api/fleet/products/{id}", { params: { path: { id } }, body: settings }));
}

export function createToken(name: string, grant: NewTokenScope, ttlSeconds: number | null, owner?: string) {
  return unwrap(client.POST("/api/fleet/tokens", { body: { name, grant, ttlSeconds, owner } }));
}

export function revokeToken(id: string) {
  return unwrap(client.DELETE("/api/fleet/tokens/{id}", { params: { path: { id } } }));
}

/** A signed URL of an artifact's bytes, where the object store signs some. */
export function artifactLink(id: string) {
  return unwrap(client.GET("/api/fleet/artifacts/{id}/link", { params: { path: { id } } }));
}

/** The bytes of an artifact. The coordinator passes them on: the page may not read from an object store. */
export function downloadArtifact(id: string): Promise<Blob> {
  const params = { path: { id }, query: { proxied: true } };
  return unwrap(client.GET("/api/fleet/artifacts/{id}", { params, parseAs: "blob" })) as Promise<Blob>;
}

export function removeArtifact(id: string) {
  return unwrap(client.DELETE("/api/fleet/artifacts/{id}", { params: { path: { id } } }));
}
