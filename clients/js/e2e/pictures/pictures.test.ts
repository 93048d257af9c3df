/**
 * Makes the pictures of the server's pages anew, into `docs/img` (`npm run pictures`): light and
 * dark, on a desk and on a telephone. Their figures are of the program that `ENCKE` names, else of
 * the debug build, and of how busy the machine is.
 */

import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import type { Page } from "playwright-core";
import { openContext, openPage } from "../browser.js";
import { Program, root, startDemo } from "../program.js";
import { Encke } from "../server.js";

/** What the README says of them. */
const DEMO = ["--users=1000", "--rate=400"];

/** Charts have so many seconds to show. */
const SECONDS = 150;

const PHONE = { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2 };

/** Colours that run into each other take more bytes: two pixels for one of a page would be many. */
const SKY_ON_A_PHONE = { ...PHONE, deviceScaleFactor: 1.5 };

/** Takes `page` in both schemes, or the part of it that `part` names. */
async function keep(page: Page, name: string, part?: string): Promise<void> {
  for (const colorScheme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
    await page.evaluate(() => scrollTo(0, 0));
    await page.evaluate(() => new Promise(requestAnimationFrame));
    const path = join(root(), `docs/img/${name}-${colorScheme}.png`);
    await (part ? page.locator(part) : page).screenshot({ path });
  }
}

test("pictures of the dashboard", { timeout: 2 * 60_000 + SECONDS * 1000 }, async (t) => {
  const { url, api } = await startDemo(t, ...DEMO);
  await sleep(SECONDS * 1000);
  const screens = { "": { viewport: { width: 1280, height: 1140 } }, "-phone": PHONE };
  for (const [screen, options] of Object.entries(screens)) {
    const context = await openContext(t, options);
    const hosts = [new URL(url).host];
    const page = await openPage(t, context, `http://${api}/#id=40`, { hosts });
    await page.locator('#state[data-state="live"]').waitFor();
    await page.getByLabel("About").fill("40");
    await page.getByLabel(/^Data/).fill('{"listens to":"Clair de lune"}');
    await page.getByRole("button", { name: "Send", exact: true }).click();
    await page.locator("#arrivals .took").waitFor();
    await keep(page, `dashboard${screen}`);
    // Its stream of that id is not to count in the next picture.
    await page.close();
    await sleep(3000);
  }
});

test("pictures of the demo page", async (t) => {
  const { url, api } = await startDemo(t, "--users=1000", "--rate=50");
  const screens = { "": { viewport: { width: 1280, height: 900 } }, "-phone": SKY_ON_A_PHONE };
  for (const [screen, options] of Object.entries(screens)) {
    const context = await openContext(t, options);
    const page = await openPage(t, context, `${url}#21`, { hosts: [api] });
    await page.locator("#feed .listens").nth(7).waitFor();
    await page.fill("#words", "Good evening from Earth");
    await page.press("#words", "Enter");
    await page.locator("#said", { hasText: "Back here after" }).waitFor();
    await page.locator("#words").blur();
    await keep(page, `demo-page${screen}`);
  }
});

test("pictures of what is slow and dropped", async (t) => {
  const server = await Encke.start(t);
  const stream = `http://${server.listen}/stream/{id}`;
  const listeners = ["--users=40", "--slow=0.3", "--reconnect", `--url=${stream}`];
  await Program.start(t, "open 40", "flood", ...listeners);
  const sends = ["--users=40", "--rate=400", "--payload=10000"];
  await Program.start(t, "sent", "spam", `--api=http://${server.api}`, ...sends);
  const context = await openContext(t, { viewport: { width: 1280, height: 1140 } });
  const page = await openPage(t, context, `http://${server.api}/`, { hosts: [server.listen] });
  await page.locator("#trouble").waitFor();
  await page.locator("#slow", { hasText: /[1-9]\d/ }).waitFor();
  await keep(page, "dashboard-slow", "#endings");
});
