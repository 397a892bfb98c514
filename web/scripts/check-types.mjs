// Fails when src/api/schema.ts does not match the OpenAPI golden file.
import { readFileSync } from "node:fs";
import openapiTS, { astToString, COMMENT_HEADER } from "openapi-typescript";

const golden = new URL("../../crates/server/tests/it/golden/openapi.json", import.meta.url);
const fresh = COMMENT_HEADER + astToString(await openapiTS(golden));
const committed = readFileSync(new URL("../src/api/schema.ts", import.meta.url), "utf8");
if (fresh.trim() !== committed.trim()) {
  console.error("src/api/schema.ts is stale: run `npm run types` and commit the result");
  process.exit(1);
}
