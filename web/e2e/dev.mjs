// A fleet with something in every state, for development: `node e2e/dev.mjs`. Prints what the dev server needs, runs until Ctrl-C.

import { Fleet } from "./fleet.mjs";
import { furnish, REPOS } from "./samples.mjs";

const fleet = await new Fleet({ seats: { east: 3, west: 2, "gpu-1": 1 }, repos: REPOS }).start();
const stop = async () => {
  await fleet.stop();
  process.exit(0);
};
process.on("SIGINT", stop);
process.on("SIGTERM", stop);
try {
  await furnish(fleet);
} catch (error) {
  console.error(error);
  await stop();
}
console.log(`GIGA_DEV_API=${fleet.origin} GIGA_DEV_TOKEN=${fleet.token} npm run dev`);
console.log(fleet.root);
setInterval(() => {}, 1 << 30);
