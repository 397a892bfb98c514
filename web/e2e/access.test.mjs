// [U1] No serious finding of axe on any page, in both themes and on a phone.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { after, before, describe, it } from "node:test";
import { Browser, DESKTOP, open, PHONE, signedIn } from "./browser.mjs";
import { Fleet } from "./fleet.mjs";
import { furnish, REPOS } from "./samples.mjs";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

async function findings(page) {
  await page.evaluate(AXE);
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  return violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(
      ({ id, nodes }) =>
        `${id}: ${nodes
          .slice(0, 3)
          .map((node) => node.html.slice(0, 200))
          .join(" | ")}`,
    );
}

describe("accessibility", { timeout: 600_000 }, () => {
  const fleet = new Fleet({ seats: { east: 3, west: 2 }, repos: REPOS });
  let browser;
  let paths;
  before(async () => {
    await fleet.start();
    await furnish(fleet);
    browser = await Browser.launch();
    const { items } = await fleet.api("GET", "/jobs?limit=100");
    const of = (stage) => items.find((job) => job.stage === stage)?.id;
    paths = ["/", "/needs-me", "/jobs", "/jobs?view=board", "/new", "/new?kind=plan"];
    paths.push("/budgets", "/budgets/default", "/dispatch", "/factories/east");
    for (const tab of ["products", "profiles", "tokens", "credentials", "factories"]) paths.push(`/admin/${tab}`);
    for (const stage of ["building", "blocked", "testing", "shipped", "dead_letter"]) paths.push(`/jobs/${of(stage)}`);
    for (const tab of ["log", "runs", "explain", "deps", "manifest", "events"])
      paths.push(`/jobs/${of("testing")}?tab=${tab}`);
  });
  after(async () => {
    await browser?.close();
    await fleet.stop();
  });

  for (const [name, options] of Object.entries({
    "in the light theme": { ...DESKTOP, colorScheme: "light" },
    "in the dark theme": { ...DESKTOP, colorScheme: "dark" },
    "on a phone": { ...PHONE, colorScheme: "light" },
  })) {
    it(`has no serious finding ${name}`, async () => {
      const context = await browser.context(options);
      const page = await signedIn(fleet, context);
      const found = {};
      for (const path of paths) {
        await open(fleet, page, path);
        await page.waitForTimeout(700);
        const list = await findings(page);
        if (list.length > 0) found[path] = list;
      }
      await open(fleet, page, "/needs-me");
      await page.locator("button.q").first().click();
      await page.waitForTimeout(400);
      const opened = await findings(page);
      if (opened.length > 0) found["needs-me, opened"] = opened;
      if (options.isMobile !== true) {
        for (const [keys, what] of [
          ["ControlOrMeta+k", "palette"],
          ["?", "keys"],
        ]) {
          await open(fleet, page, "/");
          await page.keyboard.press(keys);
          await page.getByRole("dialog").waitFor();
          const list = await findings(page);
          if (list.length > 0) found[what] = list;
        }
      }
      assert.deepEqual(found, {});
      browser.check();
      await context.close();
    });
  }

  it("has no serious finding on the sign-in page", async () => {
    const context = await browser.context();
    const page = await context.newPage();
    await page.goto(`${fleet.origin}/sign-in`);
    await page.getByText("the coordinator answers").waitFor();
    assert.deepEqual(await findings(page), []);
    await context.close();
  });
});
