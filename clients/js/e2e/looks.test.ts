/**
 * How the server's pages look: light and dark, on a telephone and on a desk, calm where calm is
 * asked for.
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import { openContext, openPage } from "./browser.js";
import { look } from "./look.js";
import { startDemo } from "./program.js";

test("both pages fit each screen and can be read, light and dark", async (t) => {
  const { url, api } = await startDemo(t, "--users=300", "--rate=60");
  const context = await openContext(t);
  // The runner's compiler calls it in each function with functions of its own.
  await context.addInitScript("globalThis.__name = (of) => of");

  const page = await openPage(t, context, `${url}#3`, { hosts: [api] });
  await page.locator("#feed .listens").nth(5).waitFor();
  await page.fill("#words", "Good evening from Earth");
  await page.press("#words", "Enter");
  await page.locator("#said", { hasText: "Back here after" }).waitFor();
  await page.waitForSelector("#followers .there.online");
  await look(page, "demo");

  const hosts = [new URL(url).host];
  const dashboard = await openPage(t, context, `http://${api}/#id=3`, { hosts });
  await dashboard.locator('#state[data-state="live"]').waitFor();
  await dashboard.fill("#send-about", "3");
  await dashboard.getByRole("button", { name: "Send", exact: true }).click();
  await dashboard.locator("#arrivals .took").first().waitFor();
  await dashboard.locator("#tune-sum", { hasText: "fit" }).waitFor();
  await dashboard.locator("#figures-details summary").click();
  await dashboard.locator("#figures-table tbody tr").nth(5).waitFor();
  await dashboard.locator("#figures-details summary").click();
  await look(dashboard, "dashboard");
});

test("who asks for calm sees nothing move in", async (t) => {
  const { url, api } = await startDemo(t, "--users=300", "--rate=60");
  const context = await openContext(t, { reducedMotion: "reduce" });
  const page = await openPage(t, context, `${url}#3`, { hosts: [api] });
  const row = page.locator("#feed .item").first();
  await row.waitFor();
  const animation = await row.evaluate((row) => {
    row.classList.add("fresh", "says");
    return getComputedStyle(row).animationName;
  });
  assert.equal(animation, "none");
});
