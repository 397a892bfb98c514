// [T4] Browser sessions: both halves are needed, and a session ends with its token.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { after, before, describe, it } from "node:test";
import { Browser, PHONE, phase, signedIn } from "./browser.mjs";
import { Fleet } from "./fleet.mjs";

describe("a browser session", { timeout: 300_000 }, () => {
  const fleet = new Fleet({ seats: { east: 1 } });
  let browser;
  before(async () => {
    await fleet.start();
    browser = await Browser.launch();
  });
  after(async () => {
    await browser?.close();
    await fleet.stop();
  });

  it("is signed out in every tab within 5 s of the revocation of its token", async () => {
    const made = await fleet.api("POST", "/tokens", { name: "guest", grant: { role: "operator", products: [] } });
    const context = await browser.context();
    const page = await signedIn(fleet, context, "/", made.secret);
    const other = await context.newPage();
    await other.goto(`${fleet.origin}/jobs`);
    await phase(other, "live");
    await fleet.api("DELETE", `/tokens/${made.token?.id ?? made.id}`);
    const revoked = Date.now();
    await page.getByRole("heading", { name: "Sign in to giga" }).waitFor({ timeout: 5_000 });
    await other.getByRole("heading", { name: "Sign in to giga" }).waitFor({ timeout: 5_000 });
    console.log(`measured: signed out ${Date.now() - revoked} ms after the revocation`);
    browser.check();
    await context.close();
  });

  it("gives nothing to a page on another port that has the cookie", async () => {
    const context = await browser.context();
    await signedIn(fleet, context);
    const server = createServer((_request, response) => {
      response.setHeader("content-type", "text/html");
      response.end("<!doctype html><title>another page of this machine</title>");
    }).listen(0, "127.0.0.1");
    await new Promise((done) => server.once("listening", done));
    const thief = await context.newPage();
    await thief.goto(`http://127.0.0.1:${server.address().port}/`);
    const read = thief.waitForResponse((response) => response.url().endsWith("/api/fleet/jobs"));
    await thief.evaluate(
      (url) => fetch(url, { mode: "no-cors", credentials: "include" }),
      `${fleet.origin}/api/fleet/jobs`,
    );
    assert.equal((await read).status(), 401);
    const [cookie] = await context.cookies(fleet.origin);
    assert.ok(cookie?.httpOnly && cookie.sameSite === "Strict", "the cookie is HttpOnly and SameSite=Strict");
    const direct = await fetch(`${fleet.origin}/api/fleet/jobs`, {
      headers: { cookie: `${cookie.name}=${cookie.value}` },
    });
    assert.equal(direct.status, 401, "the cookie alone is not enough");
    server.close();
    await context.close();
  });

  it("warns before its own token, the last admin token, is revoked", async () => {
    const context = await browser.context();
    const page = await signedIn(fleet, context, "/admin/tokens");
    const own = page.getByRole("row").filter({ hasText: "this session" });
    await own.getByRole("button", { name: "Revoke…" }).click();
    await page.getByText("This is the last admin token").waitFor();
    await page.keyboard.press("Escape");
    const other = await fleet.api("POST", "/tokens", { name: "second", grant: { role: "admin" } });
    await page.reload();
    await own.getByRole("button", { name: "Revoke…" }).click();
    await page.getByText("This is the token of your session: you will be signed out").waitFor();
    await fleet.api("DELETE", `/tokens/${other.token?.id ?? other.id}`);
    browser.check();
    await context.close();
  });

  it("can be ended on a phone, where the theme can be changed too", async () => {
    const context = await browser.context(PHONE);
    const page = await signedIn(fleet, context);
    const menu = page.getByRole("button", { name: "Menu", exact: true });
    await menu.click();
    await page.getByRole("menuitemradio", { name: "Theme: dark" }).click();
    assert.equal(await page.locator("html").getAttribute("data-theme"), "dark");
    await page.keyboard.press("Escape");
    await menu.click();
    await page.getByRole("menuitem", { name: "Jump to…" }).click();
    await page.getByRole("combobox").waitFor();
    await page.keyboard.press("Escape");
    await menu.click();
    await page.getByRole("menuitem", { name: "Sign out" }).click();
    await page.getByRole("heading", { name: "Sign in to giga" }).waitFor();
    browser.check();
    await context.close();
  });

  it("says why a used sign-in link does not work", async () => {
    const { url } = await fleet.api("POST", "/session/codes", {});
    const context = await browser.context();
    const page = await context.newPage();
    await page.goto(url);
    await phase(page, "live");
    assert.ok(!page.url().includes("code="), "the code is not left in the address");
    const again = await browser.context();
    const late = await again.newPage();
    await late.goto(url);
    await late.getByRole("heading", { name: "Sign in to giga" }).waitFor();
    await late.getByRole("alert").getByText("This link was used or has expired").waitFor();
    await late.getByRole("alert").getByText("giga sign-in").waitFor();
    browser.check();
    await context.close();
    await again.close();
  });
});
