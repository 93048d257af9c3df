/**
 * The pictures of the example's README: `npm run pictures` makes them anew in the folder that
 * `PICTURES` names. To be small they are cut down to a palette, as by
 *
 *     ffmpeg -i playdar-light.png -vf "split[a][b];[a]palettegen[p];[b][p]paletteuse" small.png
 */

import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { openContext } from "../../../../clients/js/e2e/browser.js";
import { answers, Daemon, search, TAIL } from "../daemon.js";

test("pictures of a song that plays, and of where else it can be heard", async (t) => {
  const folder = process.env.PICTURES;
  assert.ok(folder, "name a folder: PICTURES=FOLDER npm run pictures");
  const daemon = await Daemon.start(t, "--demo", "--script", TAIL, "--name", "living room");
  await daemon.letIn("Music blog", "http://blog.example.org/");
  for (const colorScheme of ["light", "dark"] as const) {
    const viewport = { width: 1200, height: 860 };
    const page = await daemon.open(t, await openContext(t, { colorScheme, viewport }));
    await page.locator("#tokens li").first().waitFor();
    await search(page, "Comet Encke", "Taurid");
    await answers(page, 9);
    await page.locator("#results li", { hasNotText: "mpeg" }).locator(".play").click();
    await page.mouse.move(5, 400);
    await page.waitForFunction(() => document.querySelector("audio")!.currentTime > 2);
    await page.screenshot({ path: join(folder, `playdar-${colorScheme}.png`) });
  }
});
