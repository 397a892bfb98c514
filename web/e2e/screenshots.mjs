// Pictures of the web UI and of `giga dash` for the documentation: `node e2e/screenshots.mjs DIR`.

import { mkdirSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { Browser, open, signedIn, write } from "./browser.mjs";
import { Fleet, program } from "./fleet.mjs";
import { furnish, REPOS } from "./samples.mjs";
import { Terminal, terminalPage } from "./terminal.mjs";

const MANIFEST = `---
title: Retry failed transcriptions with a smaller chunk size
product: lysnrai
repo: uploads-api
capabilities: ["os:linux"]
priorty: high
budget: { usd: 2.50, wall: 90m }
verify:
  - make test
---

A transcription that fails with \`OutOfMemory\` is dropped today. Retry it once with
half the chunk size, then a quarter, and record which size worked.

## Done when

- no job ends in OutOfMemory on the \`long-calls\` fixture set
- the chosen size is a label on the metric
`;

const directory = resolve(process.argv[2] ?? "shots");
mkdirSync(directory, { recursive: true });
const fleet = new Fleet({ seats: { "mac-1": 3, "ubuntu-1": 3, "gpu-1": 1 }, repos: REPOS });
let browser;
try {
  await fleet.start();
  // Where Inter is installed, the pictures use it in the place of the distribution's default.
  writeFileSync(
    fleet.path("fonts.conf"),
    `<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd"><fontconfig><include ignore_missing="yes">/etc/fonts/fonts.conf</include>${["sans-serif", "system-ui"].map((name) => `<alias binding="strong"><family>${name}</family><prefer><family>Inter</family></prefer></alias>`).join("")}</fontconfig>`,
  );
  process.env.FONTCONFIG_FILE = fleet.path("fonts.conf");
  browser = await Browser.launch();
  await furnish(fleet);
  let job;
  await fleet.until("running jobs", async () => {
    const { items } = await fleet.api("GET", "/jobs?stage=building&limit=50");
    job = items.find((one) => one.title.startsWith("Resume interrupted"));
    return job !== undefined && items.length >= 4;
  });
  // Long enough for a few checkpoints and reports of progress.
  await new Promise((done) => setTimeout(done, 12_000));
  for (const colorScheme of ["light", "dark"]) {
    const context = await browser.context({ viewport: { width: 1280, height: 860 }, colorScheme });
    const page = await signedIn(fleet, context);
    const shoot = async (name) => {
      await page.mouse.move(0, 0);
      await page.waitForTimeout(1_500);
      await page.screenshot({ path: join(directory, `${name}-${colorScheme}.png`) });
    };
    await open(fleet, page, "/");
    await shoot("fleet");
    await open(fleet, page, `/jobs/${job.id}`);
    await shoot("job");
    await open(fleet, page, "/new");
    await write(page, MANIFEST);
    await shoot("new-job");
    await context.close();
  }
  const dash = new Terminal(fleet.path("tmux"), {
    columns: 132,
    rows: 34,
    cwd: fleet.root,
    command: `'${program()}' --config giga.toml dash`,
    env: { GIGA_TOKEN: fleet.token, GIGA_API: fleet.origin },
  });
  try {
    await dash.screen("need me");
    dash.press("2");
    await dash.screen("Resume interrupted");
    // The reads of the page end, and agents report what they do.
    await new Promise((done) => setTimeout(done, 2_000));
    const context = await browser.context({ deviceScaleFactor: 2 });
    const page = await context.newPage();
    await page.setContent(terminalPage(await dash.screen("Resume interrupted")));
    await page.locator("pre").screenshot({ path: join(directory, "dash.png") });
    await context.close();
  } finally {
    dash.close();
  }
} finally {
  await browser?.close();
  await fleet.stop();
}
