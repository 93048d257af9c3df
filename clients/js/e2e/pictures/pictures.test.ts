/**
 * Makes the README's pictures of the dashboard anew, into `docs/img` (`npm run pictures`): light and
 * dark, on a desk and on a telephone. Its charts are of the program that `ENCKE` names, else of the
 * debug build, and of how busy the machine is.
 */

import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { openContext, openPage } from "../browser.js";
import { root, startDemo } from "../program.js";

/** What the README says of them. */
const DEMO = ["--users=1000", "--rate=400"];

/** Charts have so many seconds to show. */
const SECONDS = 150;

const SCREENS = {
  "": { viewport: { width: 1280, height: 1140 } },
  "-phone": { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2 },
};

test("pictures of the dashboard", { timeout: 2 * 60_000 + SECONDS * 1000 }, async (t) => {
  const { url, api } = await startDemo(t, ...DEMO);
  await sleep(SECONDS * 1000);
  for (const [screen, options] of Object.entries(SCREENS)) {
    const context = await openContext(t, { ...options, reducedMotion: "reduce" });
    const hosts = [new URL(url).host];
    const page = await openPage(t, context, `http://${api}/#id=40`, { hosts });
    await page.locator('#state[data-state="live"]').waitFor();
    await page.getByLabel("About").fill("40");
    await page.getByLabel(/^Data/).fill('{"listens to":"Clair de lune"}');
    await page.getByRole("button", { name: "Send", exact: true }).click();
    await page.locator("#arrivals .took").waitFor();
    for (const colorScheme of ["light", "dark"] as const) {
      await page.emulateMedia({ colorScheme });
      await page.evaluate(() => scrollTo(0, 0));
      await page.evaluate(() => new Promise(requestAnimationFrame));
      const path = join(root(), `docs/img/dashboard${screen}-${colorScheme}.png`);
      await page.screenshot({ path });
    }
    // Its stream of that id is not to count in the next picture.
    await page.close();
    await sleep(3000);
  }
});
