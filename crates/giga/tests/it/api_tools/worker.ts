// A worker that knows nothing but the description: its types are generated, so that a wrong name does not compile.
import createClient from "openapi-fetch";
import type { components, paths } from "./schema.js";

type Schemas = components["schemas"];

const base = process.env["GIGA_API"]!;
const as = (token: string) => createClient<paths>({ baseUrl: base, headers: { Authorization: `Bearer ${token}` } });
const admin = as(process.env["GIGA_TOKEN"]!);
const sha = "0123456789abcdef0123456789abcdef01234567";

function must<T>(what: string, answer: { data?: T; error?: unknown; response: Response }): T {
  if (answer.data === undefined) throw new Error(`${what}: ${answer.response.status} ${JSON.stringify(answer.error)}`);
  return answer.data;
}

function expect(what: string, found: unknown, wanted: unknown): void {
  if (found !== wanted) throw new Error(`${what}: expected ${wanted}, found ${found}`);
}

const made = must("token", await admin.POST("/api/fleet/tokens", {
  body: { name: "worker", grant: { role: "join", factory: "generated" }, ttlSeconds: 600 },
}));
const enrolled = must("enroll", await admin.POST("/api/fleet/factories/enroll", {
  body: { joinToken: made.secret, factoryId: "generated" },
}));
const worker = as(enrolled.token);
const instance = crypto.randomUUID();
const beat = must("heartbeat", await worker.POST("/api/fleet/factories/heartbeat", {
  body: { instance, capabilities: ["os:linux", "engine:command"], repos: ["notes"], seatLimit: 2, protocol: 1 },
}));
expect("the factory", beat.factoryId, "generated");

const inbox = await fetch(`${base}/api/fleet/factories/generated/inbox?instance=${instance}&credit=2`, {
  headers: { Authorization: `Bearer ${enrolled.token}` },
});
const reader = inbox.body!.pipeThrough(new TextDecoderStream()).getReader();
let pending = "";

async function nextEvent(): Promise<Schemas["InboxEvent"]> {
  for (;;) {
    const end = pending.indexOf("\n\n");
    if (end >= 0) {
      const lines = pending.slice(0, end).split("\n");
      pending = pending.slice(end + 2);
      const field = (name: string) => lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
      const event = field("event");
      if (event !== undefined) return { event, data: JSON.parse(field("data") ?? "{}") } as Schemas["InboxEvent"];
      continue;
    }
    const { done, value } = await reader.read();
    if (done) throw new Error("the inbox ended");
    pending += value;
  }
}

async function nextOffer(): Promise<Schemas["Message"]> {
  for (;;) {
    const event = await nextEvent();
    if (event.event === "dispatch") return event.data;
  }
}

async function submit(title: string): Promise<string> {
  const bodyMd = `---\ntitle: ${title}\nrepo: notes\n---\nPlease.\n`;
  const submitted = must("submit", await admin.POST("/api/fleet/jobs", { body: { bodyMd, strict: true } }));
  return submitted.job.id;
}

// One job by the single routes.
const first = await submit("One by one");
const offer = await nextOffer();
expect("the offer", offer.jobId, first);
const accepted = must("accept", await worker.POST("/api/fleet/accept", {
  body: { jobId: first, dispatchSeq: offer.dispatchSeq, claimNonce: crypto.randomUUID(), instance },
}));
const of = { params: { path: { id: first } } };
const leaseEpoch = accepted.leaseEpoch;
must("start", await worker.POST("/api/fleet/jobs/{id}/start", { ...of, body: { leaseEpoch, engine: "command" } }));
must("save", await worker.PATCH("/api/fleet/jobs/{id}", {
  ...of, body: { leaseEpoch, checkpoint: { ref: "aq/wip/1", sha, epoch: leaseEpoch } },
}));
must("renew", await worker.POST("/api/fleet/factories/{id}/renew", {
  params: { path: { id: "generated" } },
  body: { instance, held: [{ jobId: first, leaseEpoch, progress: { doing: "Edit a file", turns: 1 } }], load: 0.5 },
}));
const completed = must("complete", await worker.POST("/api/fleet/jobs/{id}/complete", {
  ...of, body: { leaseEpoch, sha, insights: { tokensIn: 10, tokensOut: 5, costUsd: 0.01 } },
}));
const promoted = must("promote", await worker.POST("/api/fleet/jobs/{id}/promote", {
  ...of, body: { leaseEpoch: completed.promote!.leaseEpoch, outcome: { result: "done" } },
}));
expect("the first job", promoted.stage, "testing");

// Another by many operations in one request.
async function work(operation: Schemas["WorkOperation"]): Promise<Schemas["WorkResult"]> {
  const answer = must(operation.op, await worker.POST("/api/fleet/work", { body: { operations: [operation] } }));
  const result = answer.results[0]!;
  expect(`${operation.op} ${JSON.stringify(result)}`, result.status, 200);
  return result;
}

const second = await submit("Many at once");
const next = await nextOffer();
const grant = await work({ op: "accept", jobId: second, dispatchSeq: next.dispatchSeq, claimNonce: crypto.randomUUID(), instance });
if (!("accepted" in grant)) throw new Error("not accepted");
const epoch = grant.accepted.leaseEpoch;
await work({ op: "start", jobId: second, leaseEpoch: epoch, engine: "command" });
const done = await work({ op: "complete", jobId: second, leaseEpoch: epoch, sha });
if (!("completed" in done)) throw new Error("not completed");
await work({ op: "promote", jobId: second, leaseEpoch: done.completed.promote!.leaseEpoch, outcome: { result: "putOff", message: "checks run", retryAfterMs: 1000 } });

// What became of them, and what is refused.
const job = must("job", await admin.GET("/api/fleet/jobs/{id}", of));
expect("the commit", job.completedSha, sha);
const fenced = await worker.POST("/api/fleet/jobs/{id}/start", { ...of, body: { leaseEpoch, engine: "command" } });
expect("a repeated start", fenced.response.status, 409);
expect("its code", fenced.error?.code === "fenced" || fenced.error?.code === "illegal_transition", true);
const gone = await admin.DELETE("/api/fleet/tokens/{id}", { params: { path: { id: crypto.randomUUID() } } });
expect("no such token", gone.response.status, 404);
await reader.cancel();
console.log("a generated client did two jobs");
