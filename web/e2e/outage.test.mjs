// [U1] An outage never looks like an idle fleet.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { Browser, open, phase, signedIn } from "./browser.mjs";
import { Fleet } from "./fleet.mjs";

describe("an outage of the coordinator", { timeout: 300_000 }, () => {
  const fleet = new Fleet();
  let browser;
  before(async () => {
    await fleet.start();
    browser = await Browser.launch();
  });
  after(async () => {
    await browser?.close();
    await fleet.stop();
  });

  it("is shown within 12 s of a kill, and is over within 6 s of the restart", async () => {
    const context = await browser.context();
    const page = await signedIn(fleet, context);
    const empty = await context.newPage();
    await open(fleet, empty, "/needs-me");
    await empty.getByText("Nothing needs you").waitFor();
    await page.getByRole("article", { name: "Factory east" }).waitFor();

    // The other pages are loaded while nothing else happens.
    await page.waitForTimeout(5_000);

    await fleet.kill("coordinator", "SIGKILL");
    const killed = Date.now();
    await phase(page, "down", 12_000);
    const downAfter = Date.now() - killed;
    await page.getByText("The coordinator does not answer").waitFor();
    await page.getByText("was healthy").first().waitFor();
    assert.equal(await page.getByRole("article", { name: "Factory east" }).isVisible(), true, "the last data stays");
    await phase(empty, "down", 2_000);
    await empty.getByText("Nothing needed you when the coordinator last answered").waitFor();
    await page.getByRole("link", { name: "east" }).click();
    const drain = page.getByRole("button", { name: "Drain…" });
    assert.equal(await drain.getAttribute("aria-disabled"), "true");
    assert.match(await drain.getAttribute("title"), /unreachable/);
    await page.goBack();

    await fleet.startCoordinator();
    const started = Date.now();
    await phase(page, "live", 6_000);
    const liveAfter = Date.now() - started;
    await phase(empty, "live", 2_000);
    await page.getByRole("article", { name: "Factory east" }).getByText("healthy", { exact: true }).waitFor();
    console.log(`measured: down after ${downAfter} ms, live again after ${liveAfter} ms`);
    browser.check();
  });
});
