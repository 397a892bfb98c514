// [P4] [U1] What the page costs: the first load, an idle minute, a hundred thousand rows.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { Browser, open, phase, signedIn } from "./browser.mjs";
import { Fleet } from "./fleet.mjs";

const FIRST_LOAD_MAX = 280_000;
const ROWS = 100_000;
const LONG_TASK_MS = 50;
const IDLE_MS = 60_000;

describe("the cost of the page", { timeout: 600_000 }, () => {
  // The last sweep follows the last work: it comes before the idle minute.
  const fleet = new Fleet({ seats: { east: 1, west: 1 }, coordinator: "sweep_every = '2s'" });
  let browser;
  let context;
  before(async () => {
    await fleet.start();
    const id = await fleet.submit("One job", ["echo one > one.txt"], { repo: "house" });
    await fleet.untilStage(id, "testing");
    // Only a fleet without open work is idle.
    await fleet.until("the merge", async () => {
      await fleet.api("POST", `/jobs/${id}/actions/ship`, { fresh: false }).catch(() => undefined);
      return (await fleet.api("GET", `/jobs/${id}`)).stage === "shipped";
    });
    browser = await Browser.launch();
    context = await browser.context();
    await signedIn(fleet, context).then((page) => page.close());
  });
  after(async () => {
    await browser?.close();
    await fleet.stop();
  });

  it("loads the fleet page with at most 280 kB", async () => {
    const page = await context.newPage();
    const session = await context.newCDPSession(page);
    await session.send("Network.enable");
    await session.send("Network.setCacheDisabled", { cacheDisabled: true });
    let bytes = 0;
    let requests = 0;
    session.on("Network.loadingFinished", ({ encodedDataLength }) => {
      bytes += encodedDataLength;
      requests += 1;
    });
    const start = Date.now();
    await page.goto(`${fleet.origin}/`);
    await phase(page, "live");
    await page.getByRole("article", { name: "Factory east" }).waitFor();
    const ms = Date.now() - start;
    await page.waitForTimeout(1_500);
    console.log(
      `measured: first load of the fleet page ${Math.round(bytes / 1000)} kB in ${requests} requests, ${ms} ms`,
    );
    assert.ok(bytes <= FIRST_LOAD_MAX, `${bytes} bytes`);
    await page.close();
  });

  it("makes no request and no store operation in an idle minute", async () => {
    const page = await context.newPage();
    await open(fleet, page, "/");
    await page.getByRole("article", { name: "Factory east" }).waitFor();
    await page.waitForTimeout(15_000);
    const seen = [];
    page.on("request", (request) => seen.push(request.url()));
    // Reading the counters is itself an operation of the store: measured, and taken off.
    const reading = -(await operations(fleet)) + (await operations(fleet));
    const before = await operations(fleet);
    await page.waitForTimeout(IDLE_MS);
    const after = (await operations(fleet)) - reading;
    console.log(`measured: ${seen.length} requests and ${after - before} store operations in an idle minute`);
    assert.deepEqual(seen, []);
    assert.equal(after - before, 0, "store operations");
    await page.close();
  });

  it("scrolls a hundred thousand jobs without a task over 50 ms", async () => {
    const page = await context.newPage();
    const { items } = await fleet.api("GET", "/jobs?limit=1");
    // A fleet with as many jobs takes minutes to fill: the list is answered from here, in the coordinator's form.
    await page.route(/\/api\/fleet\/jobs\?/, async (route) => {
      const query = new URL(route.request().url()).searchParams;
      const at = Number(query.get("cursor") ?? 0);
      const limit = Math.min(Number(query.get("limit") ?? 50), ROWS - at);
      const rows = Array.from({ length: limit }, (_, index) => ({
        ...items[0],
        id: rowId(at + index),
        title: `Job ${at + index}`,
      }));
      const next = at + limit < ROWS ? String(at + limit) : null;
      await route.fulfill({ json: { items: rows, next, total: { count: ROWS, isExact: true } } });
    });
    await open(fleet, page, "/jobs");
    await page.getByRole("link", { name: "Job 0", exact: true }).waitFor();
    for (;;) {
      const shown = await page.locator(".panel-f").first().textContent();
      if (shown?.startsWith(`${ROWS.toLocaleString("en-US")} jobs`)) break;
      await page.evaluate(() => scrollTo(0, document.documentElement.scrollHeight));
      await page.waitForTimeout(30);
    }
    // A task that is too long is so every time; collecting garbage of the tests before is not.
    let worst = Number.POSITIVE_INFINITY;
    for (let attempt = 0; attempt < 4 && worst > LONG_TASK_MS; attempt += 1) {
      await browser.chromium.startTracing(page, { categories: ["toplevel"] });
      await scrollThrough(page);
      worst = longestTask(await browser.chromium.stopTracing());
    }
    const rendered = await page.locator(".jobs-table tbody tr").count();
    console.log(`measured: ${ROWS} jobs scrolled, longest task ${Math.round(worst)} ms, ${rendered} rows in the page`);
    assert.ok(rendered < 200, `${rendered} rows in the page`);
    assert.ok(worst <= LONG_TASK_MS, `the longest task took ${worst} ms`);
    await page.close();
  });
});

function rowId(index) {
  return `01a1ef61-0000-7000-8000-${String(index).padStart(12, "0")}`;
}

async function operations(fleet) {
  const { storeOperations } = await fleet.api("GET", "/metrics");
  return Object.values(storeOperations).reduce((sum, value) => sum + value, 0);
}

/** Scrolls at many places between the top and the end. */
function scrollThrough(page) {
  return page.evaluate(async () => {
    const frame = () => new Promise((done) => requestAnimationFrame(done));
    scrollTo(0, 0);
    await new Promise((done) => setTimeout(done, 500));
    const height = document.documentElement.scrollHeight;
    for (let place = 0; place < 20; place += 1) {
      scrollTo(0, (height * place) / 20);
      await frame();
      for (let step = 0; step < 12; step += 1) {
        scrollBy(0, 300);
        await frame();
      }
    }
    scrollTo(0, height);
    await new Promise((done) => setTimeout(done, 300));
  });
}

/**
 * The longest task of a page's main thread in milliseconds of its own processor time: on a busy machine the time on the
 * clock counts other programs too.
 */
function longestTask(trace) {
  const { traceEvents } = JSON.parse(trace.toString());
  const threads = traceEvents.filter(({ name, args }) => name === "thread_name" && args.name === "CrRendererMain");
  const pages = new Set(threads.map(({ pid, tid }) => `${pid}/${tid}`));
  const tasks = traceEvents.filter(
    ({ ph, tdur, pid, tid }) => ph === "X" && tdur !== undefined && pages.has(`${pid}/${tid}`),
  );
  assert.ok(tasks.length > 100, `the trace has ${tasks.length} tasks`);
  return tasks.reduce((longest, { tdur }) => Math.max(longest, tdur / 1000), 0);
}
