// A name that the description does not have: this must not compile.
import type { components } from "./schema.js";

export const start: components["schemas"]["WorkOperation"] = { op: "start", job_id: "", leaseEpoch: 1, engine: "command" };
