// [U1] Every page of a real coordinator with two real factories, used as a person would.

import assert from "node:assert/strict";
import { after, afterEach, before, describe, it } from "node:test";
import { Browser, DESKTOP, noSidewaysScroll, open, PHONE, phase, signedIn, write } from "./browser.mjs";
import { Fleet } from "./fleet.mjs";

const MANIFEST = (title, lines, more = "") =>
  `---\ntitle: ${title}\nrepo: house\n${more}---\n\nDo what the lines say.\n\n${lines.map((line) => `$ ${line}`).join("\n")}\n`;

describe("the web UI", { timeout: 600_000 }, () => {
  const fleet = new Fleet();
  let browser;
  let context;
  let page;

  before(async () => {
    await fleet.start();
    browser = await Browser.launch();
    context = await browser.context();
    page = await signedIn(fleet, context);
  });
  after(async () => {
    await browser?.close();
    await fleet.stop();
  });
  afterEach(() => browser.check());

  it("signs in with a token and says who is signed in", async () => {
    const other = await browser.context();
    const fresh = await other.newPage();
    await fresh.goto(`${fleet.origin}/jobs?stage=failed`);
    await fresh.getByRole("heading", { name: "Sign in to giga" }).waitFor();
    await fresh.getByLabel("API token").fill("not a token");
    await fresh.getByRole("button", { name: "Sign in" }).click();
    await fresh.getByRole("alert").waitFor();
    await fresh.getByLabel("API token").fill(fleet.token);
    await fresh.getByRole("button", { name: "Sign in" }).click();
    await phase(fresh, "live");
    assert.match(fresh.url(), /\/jobs\?stage=failed$/);
    await fresh.getByRole("button", { name: "admin · admin" }).click();
    await fresh.getByRole("menuitem", { name: "Sign out" }).click();
    await fresh.getByRole("heading", { name: "Sign in to giga" }).waitFor();
    await other.close();
  });

  it("shows both factories on the fleet page", async () => {
    await open(fleet, page, "/");
    await page.getByRole("article", { name: "Factory east" }).getByText("healthy").waitFor();
    await page.getByRole("article", { name: "Factory west" }).getByText("healthy").waitFor();
    await page.getByText("Nothing needs you").waitFor();
  });

  it("submits a job from the form, follows it live and ships it", async () => {
    await open(fleet, page, "/new");
    await write(page, "---\ntitle: Wrong\nrepo: house\nbudget: { usd: lots }\npriorty: high\n---\n\nText.\n");
    await page.getByText("expected a number").first().waitFor();
    assert.equal(await page.getByRole("button", { name: /^Submit/ }).getAttribute("aria-disabled"), "true");
    await page.getByRole("button", { name: "Replace" }).click();
    await page.getByText(/^Fix line \d+ first$/).waitFor();
    await page.keyboard.press("ControlOrMeta+Enter");
    await page.getByText(/^Not submitted. Fix line \d+ first$/).waitFor();
    await write(page, MANIFEST("Nowhere", ["true"], "capabilities: [gpu:a100]\n"));
    await page.getByText("No factory can run it").waitFor();
    await write(
      page,
      MANIFEST("Paint the door", ["echo mixing paint", "sleep 2", "echo red > door.txt"], "verify: test -s door.txt\n"),
    );
    await page.getByText(/Will run on (east|west) with engine script/).waitFor();
    await page.getByRole("button", { name: /^Submit/ }).click();
    await page.getByRole("heading", { name: "Paint the door" }).waitFor();
    await page.locator(".badge", { hasText: "building" }).waitFor();
    await page.getByText("mixing paint").first().waitFor();
    await page.locator(".badge", { hasText: "testing" }).waitFor({ timeout: 40_000 });
    await page.getByText("Verified, ready to ship").waitFor();
    await page.getByText("door.txt", { exact: true }).waitFor();
    await page.keyboard.press("s");
    await page.getByRole("dialog").getByRole("button", { name: "Ship" }).click();
    await page.locator(".badge", { hasText: "shipped" }).waitFor({ timeout: 40_000 });
  });

  it("creates a profile, names it in a job and shows what it sets", async () => {
    await open(fleet, page, "/admin/profiles");
    await page.getByRole("button", { name: "New profile…" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Name").fill("mason");
    await dialog.getByLabel("Text").fill("---\nrepo: house\n---\nYou lay bricks.\n");
    await dialog.getByRole("button", { name: "Create" }).click();
    await dialog.getByText("a profile cannot set it").waitFor();
    await dialog.getByLabel("Text").fill("---\nverify: 'true'\n---\nYou lay bricks.\n");
    await dialog.getByRole("button", { name: "Create" }).click();
    await page.getByRole("button", { name: "Show mason" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "New version…" }).click();
    await dialog.getByLabel("Text").fill("---\nverify: 'true'\n---\nYou lay bricks with care.\n");
    await dialog.getByRole("button", { name: "Create" }).click();
    await page.getByText("mason@2").first().waitFor();
    await open(fleet, page, "/new");
    await write(page, MANIFEST("Lay the bricks", ["echo laid > bricks.txt"]));
    await page.getByRole("button", { name: "mason", exact: true }).click();
    await page.getByText(/Will run on (east|west)/).waitFor();
    await page.getByRole("button", { name: /^Submit/ }).click();
    await page.getByRole("heading", { name: "Lay the bricks" }).waitFor();
    await page.getByText("mason@2, sets verify").waitFor();
    await page.getByText("submitted with profile mason@2").first().waitFor();
    await page.keyboard.press("m");
    await page.getByText("You lay bricks with care.").waitFor();
  });

  it("answers a question in place, and the item leaves by itself", async () => {
    const ask = "printf 'Which brick?\\n' > .aq_question.md";
    const id = await fleet.submit(
      "Raise the walls",
      [`printf '%s' "$GIGA_PROMPT" | grep -q 'r[e]d brick' && echo walls > walls.txt || ${ask}`],
      { repo: "house" },
    );
    await fleet.untilStage(id, "blocked");
    await open(fleet, page, "/needs-me");
    await page.getByRole("button", { name: "Answer", exact: true }).click();
    await page.getByLabel("Answer", { exact: true }).fill("The red bricks");
    await page.getByRole("button", { name: "Answer and resume" }).click();
    await fleet.untilStage(id, "testing");
    await page.getByText("Which brick?").waitFor({ state: "detached" });
    await page.getByText("ready to ship").first().waitFor();
  });

  it("requeues a dead letter with its checkpoint dropped", async () => {
    const id = await fleet.submit("Lay the pipes", ["echo a > pipes.txt; echo the pipe burst; exit 3"], {
      repo: "house",
      retry: { max: 1 },
    });
    await fleet.untilStage(id, "dead_letter", "failed");
    await open(fleet, page, "/dispatch");
    await page
      .getByRole("row", { name: /Lay the pipes/ })
      .getByRole("button", { name: "Requeue…" })
      .click();
    const dialog = page.getByRole("dialog");
    const drop = dialog.getByText("Drop the checkpoint");
    if (await drop.isVisible()) await drop.click();
    await dialog.getByRole("button", { name: "Requeue 1 job" }).click();
    await fleet.until("the requeue", async () => {
      const { items } = await fleet.api("GET", `/jobs/${id}/events`);
      return items.some((event) => event.kind === "requeued");
    });
    await fleet.untilStage(id, "dead_letter", "failed");
  });

  it("switches the mode and back, and shows a switch made elsewhere", async () => {
    await open(fleet, page, "/dispatch");
    await page.getByRole("button", { name: "Switch to gate" }).click();
    await page.getByRole("dialog").getByLabel(/Type/).fill("gate");
    await page.getByRole("dialog").getByRole("button", { name: "Switch to gate" }).click();
    await page.locator(".mode.is-on", { hasText: "gate" }).waitFor();
    assert.equal((await fleet.api("GET", "/flags")).mode, "gate");
    await fleet.api("PUT", "/flags", { mode: "push" });
    await page.locator(".mode.is-on", { hasText: "push" }).waitFor();
  });

  it("drains a factory and resumes it", async () => {
    await open(fleet, page, "/factories/west");
    await page.getByRole("button", { name: "Drain…" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Drain" }).click();
    await page.locator(".badge", { hasText: "draining" }).waitFor();
    await page.getByRole("button", { name: "Resume" }).click();
    await page.locator(".badge", { hasText: "healthy" }).waitFor();
  });

  it("finds, filters and selects jobs; the address keeps it", async () => {
    await open(fleet, page, "/jobs");
    await page.getByLabel("Filter jobs").fill("stage:shipped paint");
    await page.keyboard.press("Enter");
    await page.getByRole("link", { name: "Paint the door" }).waitFor();
    assert.match(page.url(), /stage=shipped/);
    assert.match(page.url(), /q=paint/);
    await page.reload();
    await page.getByRole("link", { name: "Paint the door" }).waitFor();
    await page.getByLabel("Filter jobs").fill("nothing-has-this-name");
    await page.keyboard.press("Enter");
    await page.getByText("No job matches").waitFor();
    await page.getByRole("link", { name: "Clear filters" }).click();
    await page.getByRole("link", { name: "Lay the pipes" }).waitFor();
    await page.keyboard.press("j");
    await page.keyboard.press("x");
    await page.getByText("1 selected").waitFor();
    await page.getByRole("button", { name: "Clear" }).click();
    await page.keyboard.press("v");
    await page.getByRole("region", { name: "Shipped" }).getByText("Paint the door").waitFor();
  });

  it("moves by keyboard: pages, palette, sheet", async () => {
    await open(fleet, page, "/");
    await page.keyboard.type("gj");
    await page.waitForURL(/\/jobs/);
    await page.keyboard.type("gd");
    await page.waitForURL(/\/dispatch/);
    await page.keyboard.press("?");
    await page.getByRole("dialog", { name: "Keys" }).waitFor();
    await page.keyboard.press("Escape");
    await page.keyboard.press("ControlOrMeta+k");
    await page.getByRole("combobox").waitFor();
    await page.keyboard.type("paint the");
    await page.getByRole("option", { name: /Paint the door/ }).waitFor();
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Paint the door" }).waitFor();
    for (const [key, heading] of [
      ["r", "Runs"],
      ["m", "Manifest"],
      ["d", "Dependencies"],
      ["w", "Events"],
      ["l", "Log"],
      ["e", "Explain"],
    ]) {
      await page.keyboard.press(key);
      await page.getByRole("heading", { name: heading, exact: true }).first().waitFor();
    }
  });

  it("creates and revokes a token", async () => {
    await open(fleet, page, "/admin/tokens");
    await page.getByRole("button", { name: "New token…" }).click();
    await page.getByLabel("Name").fill("a robot");
    await page.getByRole("button", { name: "Create" }).click();
    await page.getByText("It is shown once").waitFor();
    await page.getByRole("button", { name: "Done" }).click();
    await page
      .getByRole("row", { name: /a robot/ })
      .getByRole("button", { name: "Revoke…" })
      .click();
    await page.getByRole("dialog").getByLabel(/Type/).fill("a robot");
    await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
    await page.getByRole("row", { name: /a robot/ }).waitFor({ state: "detached" });
  });

  it("fits a phone", async () => {
    const phone = await browser.context(PHONE);
    const small = await signedIn(fleet, phone);
    const { items } = await fleet.api("GET", "/jobs?limit=1");
    for (const path of [
      "/",
      "/needs-me",
      "/jobs",
      "/jobs?view=board",
      `/jobs/${items[0].id}`,
      "/new",
      "/dispatch",
      "/admin/profiles",
      "/admin/tokens",
      "/factories/east",
    ]) {
      await open(fleet, small, path);
      await small.waitForTimeout(400);
      await noSidewaysScroll(small);
    }
    await small.getByRole("link", { name: /Needs me/ }).tap();
    await small.waitForURL(/needs-me/);
    await phone.close();
  });

  it("keeps eight tabs live with one event stream", async () => {
    const many = await browser.context(DESKTOP);
    let streams = 0;
    many.on("request", (request) => {
      if (request.url().endsWith("/events/stream")) streams += 1;
    });
    const first = await signedIn(fleet, many);
    const tabs = [first];
    for (let index = 1; index < 8; index += 1) {
      const tab = await many.newPage();
      await open(fleet, tab, "/jobs");
      tabs.push(tab);
    }
    await fleet.submit("Plant a tree", ["echo tree > tree.txt"], { repo: "house" });
    for (const tab of tabs.slice(1)) await tab.getByRole("link", { name: "Plant a tree" }).waitFor();
    for (const tab of tabs) await phase(tab, "live");
    assert.equal(streams, 1, "one stream for eight tabs");
    // The tab that reads the stream closes: another one takes over.
    await first.close();
    await fleet.submit("Plant a hedge", ["echo hedge > hedge.txt"], { repo: "house" });
    for (const tab of tabs.slice(1)) await tab.getByRole("link", { name: "Plant a hedge" }).waitFor();
    await many.close();
  });
});
