// [U1] [F9] A fleet that goes from no factory to three and back to none, as the browser shows it.

import assert from "node:assert/strict";
import { after, afterEach, before, describe, it } from "node:test";
import { Browser, noSidewaysScroll, open, PHONE, signedIn } from "./browser.mjs";
import { Fleet } from "./fleet.mjs";

/** Pictures for people: `GIGA_E2E_SHOTS=DIR`. */
const SHOTS = process.env.GIGA_E2E_SHOTS;

describe("factories on demand", { timeout: 300_000 }, () => {
  const fleet = new Fleet({ seats: {}, factory: "seats = 2" });
  let browser;
  let page;

  before(async () => {
    await fleet.start();
    const pool = { engines: ["script"], repos: ["house"], seats: 2, max: 3, idleAfterMs: 3_000 };
    await fleet.api("PUT", "/pools/linux", pool);
    browser = await Browser.launch();
    page = await signedIn(fleet, await browser.context());
  });
  after(async () => {
    await browser?.close();
    await fleet.stop();
  });
  afterEach(() => browser.check());

  const row = () => page.getByRole("region", { name: "Pools" }).getByRole("row", { name: /linux/ });
  const shot = async (name) => SHOTS !== undefined && (await page.screenshot({ path: `${SHOTS}/${name}.png` }));

  it("shows a job that waits for a factory as starting, not as unplaceable", async () => {
    await row().getByText("idle, no factory runs").waitFor();
    const job = await fleet.submit("Lay the floor", ["sleep 4", "echo floor > floor.txt"], { repo: "house" });
    await row().getByText("starting 1 factory").waitFor();
    await open(fleet, page, `/jobs/${job}`);
    await page.getByText("pool linux is starting a factory").first().waitFor();
    await open(fleet, page, "/");
  });

  it("goes to three factories and back to none", async () => {
    const lines = (name) => ["sleep 4", `echo ${name} > ${name}.txt`];
    for (const name of ["walls", "roof", "door", "window", "stairs"]) {
      await fleet.submit(`Build the ${name}`, lines(name), { repo: "house" });
    }
    await row().getByText("starting 3 factories").waitFor();
    await shot("pools-starting");
    fleet.startScaler();
    await page.waitForFunction(() => document.querySelectorAll('a[href^="/factories/linux-"]').length >= 3, null, {
      timeout: 60_000,
    });
    await row().getByText("running").waitFor({ timeout: 60_000 });
    await shot("pools-running");
    const phone = await signedIn(fleet, await browser.context(PHONE));
    await phone.getByRole("region", { name: "Pools" }).waitFor();
    await noSidewaysScroll(phone);

    await row().getByText("idle, no factory runs").waitFor({ timeout: 90_000 });
    await page.getByText("No factory yet").waitFor();
    await shot("pools-idle");
    const { items } = await fleet.api("GET", "/jobs");
    assert.deepEqual([...new Set(items.map((job) => job.stage))], ["testing"]);
  });
});
