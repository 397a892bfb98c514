// A browser for the end-to-end tests. Every page fails its test on a dialog, an uncaught error or a violation of the
// content security policy.

import assert from "node:assert/strict";
import { chromium } from "playwright-core";

export const PHONE = { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true };
export const DESKTOP = { viewport: { width: 1440, height: 1000 } };

const ARGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-dev-shm-usage",
  "--disable-background-networking",
  "--disable-component-update",
  "--no-first-run",
];

export class Browser {
  /** What went wrong on any page. */
  faults = [];

  static async launch() {
    const self = new Browser();
    const executablePath = process.env.GIGA_TEST_CHROMIUM ?? "/usr/bin/chromium";
    self.chromium = await chromium.launch({ executablePath, args: ARGS });
    return self;
  }

  async context(options = DESKTOP) {
    const context = await this.chromium.newContext({ colorScheme: "light", ...options });
    context.setDefaultTimeout(20_000);
    await context.exposeBinding("reportViolation", (_source, text) => this.faults.push(text));
    await context.addInitScript(() => {
      addEventListener("securitypolicyviolation", (event) =>
        globalThis.reportViolation(
          `${location.pathname}: ${event.violatedDirective} blocked ${event.blockedURI} ${event.sample} at ${event.sourceFile}:${event.lineNumber}`,
        ),
      );
    });
    context.on("page", (page) => this.#watch(page));
    return context;
  }

  #watch(page) {
    page.on("dialog", async (dialog) => {
      this.faults.push(`${page.url()}: dialog ${dialog.message()}`);
      await dialog.dismiss();
    });
    page.on("pageerror", (error) => this.faults.push(`${page.url()}: ${error.message}`));
  }

  /** Fails the test that caused a fault, and forgets it. */
  check() {
    const found = this.faults.splice(0);
    assert.deepEqual(found, []);
  }

  async close() {
    await this.chromium.close();
  }
}

/** A signed-in page of the fleet, by a one-time code as `giga sign-in` prints it. */
export async function signedIn(fleet, context, path = "/", token = fleet.token) {
  const page = await context.newPage();
  const { code } = await fleet.api("POST", "/session/codes", {}, { authorization: `Bearer ${token}` });
  await page.goto(`${fleet.origin}/#code=${encodeURIComponent(code)}`);
  await phase(page, "live");
  if (path !== "/") await open(fleet, page, path);
  return page;
}

export async function open(fleet, page, path) {
  await page.goto(`${fleet.origin}${path}`);
  await phase(page, "live");
}

/** Waits until the connection has this state. */
export async function phase(page, name, timeout = 20_000) {
  await page.locator(`.conn[data-phase="${name}"]`).first().waitFor({ timeout });
}

/** Replaces the text of the manifest editor. */
export async function write(page, text) {
  await page.locator(".cm-content").click();
  await page.keyboard.press("ControlOrMeta+a");
  await page.keyboard.insertText(text);
}

export async function noSidewaysScroll(page) {
  // The window of a phone grows with the page: only the screen has a fixed width.
  const { width } = page.viewportSize();
  const content = await page.evaluate(() => document.documentElement.scrollWidth);
  assert.ok(content <= width, `${page.url()} is ${content} px wide on a screen of ${width}`);
}
