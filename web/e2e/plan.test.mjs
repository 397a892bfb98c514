// [U1] [J4] [T5] [T2] [S5] A new user's first tree, reviews, money and preemption, all in the browser.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { after, afterEach, before, describe, it } from "node:test";
import { Browser, noSidewaysScroll, open, PHONE, signedIn, write } from "./browser.mjs";
import { Fleet } from "./fleet.mjs";

const PLAN = `---
repo: house
---
# Build a shed

## Lay the floor

\`\`\`job
artifacts: [floor.txt]
\`\`\`

$ echo floor > floor.txt
$ echo 'cost: $0.50'

## Raise the walls

\`\`\`job
after: Lay the floor
review: {}
\`\`\`

$ test -s floor.txt
$ echo walls > walls.txt
$ echo 'cost: $0.50'

## Hang the door

\`\`\`job
review: {}
\`\`\`

$ printf '%s' "$GIGA_PROMPT" | grep -q 'paint it r[e]d' && echo red > door.txt || echo plain > door.txt
$ echo 'cost: $0.50'

## Put the roof on

\`\`\`job
after: [Raise the walls, Hang the door]
\`\`\`

$ test -s walls.txt
$ grep -q red door.txt
$ echo roof > roof.txt
$ echo 'cost: $0.50'
`;

/** Each dollar is reported while the job runs, as an agent reports its cost. */
const BURN = [
  "echo 'cost: $1.00'; sleep 3",
  "echo 'cost: $1.75'; sleep 3",
  "echo 'cost: $2.40'; sleep 3",
  "echo burnt > burnt.txt",
];

const forever = ["while :; do echo at work; sleep 1; done"];
/** Pictures for people: `GIGA_E2E_SHOTS=DIR`. */
const SHOTS = process.env.GIGA_E2E_SHOTS;

describe("a tree of jobs, its reviews and its money", { timeout: 600_000 }, () => {
  const fleet = new Fleet({ seats: { east: 2 }, coordinator: "preemption_grace = '20s'" });
  let browser;
  let ada;
  let grace;
  let root;

  before(async () => {
    await fleet.start();
    browser = await Browser.launch();
    ada = await person("ada", "admin");
    grace = await person("grace", "operator");
  });
  after(async () => {
    await browser?.close();
    await fleet.stop();
  });
  afterEach(() => browser.check());

  /** The browser of a person, signed in with a token of that person. */
  async function person(owner, role) {
    const { secret } = await fleet.api("POST", "/tokens", { name: `${owner}'s laptop`, owner, grant: { role } });
    const page = await signedIn(fleet, await browser.context(), "/", secret);
    return { page, secret };
  }

  /** Looks at a page as a person would: in both themes, and on a phone. */
  async function look(who, path, name) {
    const phone = await browser.context({ ...PHONE, deviceScaleFactor: 2 });
    const small = await signedIn(fleet, phone, path, who.secret);
    await small.waitForTimeout(1_000);
    await noSidewaysScroll(small);
    if (SHOTS !== undefined) {
      for (const colorScheme of ["light", "dark"]) {
        await small.emulateMedia({ colorScheme });
        await small.waitForTimeout(300);
        await small.screenshot({ path: `${SHOTS}/${name}-phone-${colorScheme}.png`, fullPage: true });
        await who.page.emulateMedia({ colorScheme });
        await who.page.waitForTimeout(300);
        await who.page.screenshot({ path: `${SHOTS}/${name}-${colorScheme}.png`, fullPage: true });
      }
      await who.page.emulateMedia({ colorScheme: "light" });
    }
    await phone.close();
  }

  const badge = (page, stage, timeout = 60_000) =>
    page.locator(".badge", { hasText: stage }).first().waitFor({ timeout });

  /** The id of the job that a page shows. */
  const shown = (page) => new URL(page.url()).pathname.split("/").at(-1);

  it("draws a plan before it is submitted, and follows the tree", async () => {
    const { page } = ada;
    await open(fleet, page, "/admin/products");
    await page
      .getByRole("row", { name: /default/ })
      .getByRole("button", { name: /Edit/ })
      .click();
    await page.getByRole("dialog").getByText("Merge finished jobs automatically").click();
    await page.getByRole("dialog").getByRole("button", { name: "Save" }).click();
    await open(fleet, page, "/new");
    await page.getByRole("button", { name: "A plan: a tree of jobs" }).click();
    await page.getByText("Write the plan first").waitFor();
    await write(page, PLAN.replace("after: Lay the floor", "after: Lay the flor"));
    await page.getByText("which is no heading of this plan").first().waitFor();
    assert.equal(await page.getByRole("button", { name: /^Submit/ }).getAttribute("aria-disabled"), "true");
    await write(page, PLAN.replace("repo: house", "repo: house\ncapabilities: [gpu:a100]"));
    await page.getByRole("button", { name: "Submit…" }).waitFor();
    await write(page, PLAN);
    await page.getByText("4 tasks and 1 composite").waitFor();
    await page.getByText("after Raise the walls, Hang the door").waitFor();
    await page.getByText("will run on east with engine script").first().waitFor();
    assert.equal((await fleet.api("GET", "/jobs")).items.length, 0, "nothing is submitted yet");
    await look(ada, "/new?kind=plan", "plan");
    await page.getByRole("button", { name: /^Submit/ }).click();
    await page.getByRole("heading", { name: "Build a shed" }).waitFor();
    root = shown(page);
    await page.getByRole("region", { name: "Children" }).getByRole("link", { name: "Put the roof on" }).waitFor();
    await page.keyboard.press("d");
    await page.getByRole("group", { name: "Graph of dependencies and children" }).waitFor();
    assert.equal(await page.locator(".dag .box").count(), 5);
  });

  it("approves one job, and sends another back with a comment", async () => {
    const { page } = grace;
    await fleet.until("two reviews", async () => {
      const { items } = await fleet.api("GET", "/jobs?stage=review");
      return items.length === 2;
    });
    await open(fleet, ada.page, `/jobs/${root}?tab=deps`);
    await look(ada, `/jobs/${root}?tab=deps`, "tree");
    await open(fleet, page, "/needs-me");
    await page.getByText("Raise the walls").first().waitFor();
    await page.getByText("Hang the door").first().waitFor();
    const { items } = await fleet.api("GET", "/jobs?stage=review");
    const [walls, door] = ["Raise the walls", "Hang the door"].map((title) => items.find((job) => job.title === title));
    // Who submitted the work cannot approve it.
    await open(fleet, ada.page, `/jobs/${walls.id}`);
    await ada.page.getByText("You cannot vote").waitFor();
    await open(fleet, page, `/jobs/${walls.id}`);
    await page.getByText("In review: 0 of 1 approval").waitFor();
    await look(grace, `/jobs/${walls.id}`, "review");
    await page.getByRole("button", { name: "Approve", exact: true }).click();
    await badge(page, "shipped");
    await open(fleet, page, `/jobs/${door.id}`);
    await page.getByLabel("Comment").fill("Please paint it red.");
    await page.getByRole("button", { name: "Request changes", exact: true }).click();
    await page.getByText("paint it red").first().waitFor();
    await fleet.until("the second run", async () => {
      const job = await fleet.api("GET", `/jobs/${door.id}`);
      return job.stage === "review" && job.review.run === 2;
    });
    await page.getByRole("button", { name: "Approve", exact: true }).click();
    await badge(page, "shipped");
  });

  it("sees the tree ship with what it cost", async () => {
    const { page } = ada;
    await open(fleet, page, `/jobs/${root}`);
    await badge(page, "shipped");
    await page.getByText("4 of 4 jobs shipped, $2.50 in total").waitFor();
  });

  it("downloads what a run attached, from the object store where that signs a URL", async () => {
    const { page } = ada;
    await page.getByRole("region", { name: "Children" }).getByRole("link", { name: "Lay the floor" }).click();
    await page.getByRole("heading", { name: "Lay the floor" }).waitFor();
    await page.keyboard.press("f");
    const file = page.getByRole("button", { name: "Download floor.txt" });
    const [download] = await Promise.all([page.waitForEvent("download"), file.click()]);
    assert.equal(download.suggestedFilename(), "floor.txt");
    assert.equal(await readFile(await download.path(), "utf8"), "floor\n");
    // The object store of this test is a page of the coordinator that needs no session.
    const signed = `${fleet.origin}/healthz?signature=x`;
    await page.route(/\/artifacts\/.*\/link$/, (route) => route.fulfill({ json: { url: signed } }));
    const [tab] = await Promise.all([page.context().waitForEvent("page"), file.click()]);
    await tab.waitForURL(signed);
    await tab.close();
    await page.unrouteAll();
  });

  it("sets a budget, sees it burn, waits for money, raises it and works on", async () => {
    const { page } = ada;
    await open(fleet, page, "/budgets/default");
    await page.getByRole("button", { name: "Change budget…" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Ceiling in dollars").fill("5");
    await dialog.getByRole("button", { name: "Save" }).click();
    await page.getByText("of $5.00 per month").first().waitFor();
    await page.getByText("ceilings are not enforced").waitFor();
    await page.getByRole("button", { name: "Enforce ceilings…" }).click();
    await dialog.getByRole("button", { name: "Enforce", exact: true }).click();
    await page.getByRole("button", { name: "Stop enforcing ceilings…" }).waitFor();
    const spent = page.locator(".figures div", { hasText: "Spent" }).locator(".v");
    assert.equal(await spent.textContent(), "$2.50");
    await fleet.submit("Burn the wood", BURN, { repo: "house", budget: { usd: 2.5 } });
    // What the agent reports counts while it runs.
    for (const usd of ["$3.50", "$4.25", "$4.90"]) await page.locator(".figures .v", { hasText: usd }).waitFor();
    const next = await fleet.submit("Sweep the ashes", ["echo swept > swept.txt", "echo 'cost: $0.25'"], {
      repo: "house",
    });
    await page.getByText("waits for money").first().waitFor();
    await page.getByText("The jobs of this product wait for money").waitFor();
    await open(fleet, page, "/needs-me");
    await page.getByText("waiting for money: product default").first().waitFor();
    await open(fleet, page, "/budgets/default");
    await look(ada, "/budgets/default", "budget");
    await open(fleet, page, `/jobs/${next}`);
    await page
      .getByText(/[Ww]aiting for money: product default has spent \$4.90 of \$5.00/)
      .first()
      .waitFor();
    await open(fleet, page, "/budgets/default");
    await page.getByRole("button", { name: "Change budget…" }).click();
    await dialog.getByLabel("Ceiling in dollars").fill("50");
    await dialog.getByRole("button", { name: "Save" }).click();
    await page.getByText("of $50.00 per month").first().waitFor();
    await open(fleet, page, `/jobs/${next}`);
    await badge(page, "shipped");
    // A pause by hand names who, and why.
    await open(fleet, page, "/budgets/default");
    await page.getByRole("button", { name: "Pause…" }).click();
    await dialog.getByLabel("Reason").fill("the prices changed");
    await dialog.getByRole("button", { name: "Pause" }).click();
    await page.getByText(/Paused by ada's laptop since .*: the prices changed/).waitFor();
    await page.getByRole("button", { name: "Resume…" }).click();
    await dialog.getByRole("button", { name: "Resume" }).click();
    await page.getByText("active", { exact: true }).first().waitFor();
  });

  it("lets a critical job preempt another, and both say why", async () => {
    const { page } = ada;
    await open(fleet, page, "/dispatch");
    await page.getByRole("button", { name: "Switch preemption on…" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Switch on" }).click();
    await page.getByText("On: a critical job without a seat").waitFor();
    const low = { repo: "house", priority: "low", preemptible: true };
    const held = [];
    for (const title of ["Sort the nails", "Count the planks"]) held.push(await fleet.submit(title, forever, low));
    for (const id of held) await fleet.untilStage(id, "building");
    const critical = await fleet.submit("Put the fire out", ["echo out > fire.txt"], {
      repo: "house",
      priority: "critical",
    });
    let victim;
    await fleet.until("the eviction", async () => {
      for (const id of held) {
        const { items } = await fleet.api("GET", `/jobs/${id}/events`);
        if (items.some((event) => event.kind === "preempted")) victim = id;
      }
      return victim !== undefined;
    });
    await open(fleet, page, `/jobs/${critical}`);
    await badge(page, "shipped");
    await open(fleet, page, `/jobs/${victim}`);
    await page
      .getByText(/asked to save the work and to release the seat for critical job/)
      .first()
      .waitFor();
    await page
      .getByText(/preempted/)
      .first()
      .waitFor();
    // It continues once the seat is free.
    await fleet.untilStage(victim, "building");
    await open(fleet, page, "/dispatch");
    await look(ada, "/dispatch", "dispatch");
    await page.getByRole("button", { name: "Switch preemption off…" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Switch off" }).click();
    await page.getByText("Off: critical jobs wait for a free seat").waitFor();
    assert.equal((await fleet.api("GET", "/flags")).preemption, false);
    for (const id of held) await fleet.api("POST", `/jobs/${id}/actions/cancel`, {});
  });
});
