/** How the page looks: light and dark, on a telephone and on a desk, and to those who hear it. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { openContext, openPage } from "../../../clients/js/e2e/browser.js";
import { look } from "../../../clients/js/e2e/look.js";
import { answers, Daemon, search, state, TAIL } from "./daemon.js";

test("the page reads well in each of its forms", async (t) => {
  const daemon = await Daemon.start(t, "--demo", "--script", TAIL);
  await daemon.letIn("Music blog", "http://blog.example.org/");
  await daemon.letIn("A radio with a long name", "http://radio.example.org/a/page/far/below/its/root");
  const context = await openContext(t);
  await context.addInitScript("globalThis.__name = (of) => of");
  const page = await daemon.open(t, context, "", { console: /Failed to load resource|ERR_/ });
  await page.locator("#tokens li").nth(1).waitFor();
  await page.locator("#sources li").first().waitFor();
  await look(page, "playdar-start");

  await page.press("#artist", "Enter");
  await page.locator("#search-error", { hasText: "an artist" }).waitFor();
  await look(page, "playdar-empty");

  // A song that is there by nearly this name, and plays, and those that others have.
  const { examples: [{ artist, track }] } = await daemon.json("/api/?method=stat");
  await search(page, artist, `${track}!`);
  await answers(page, 9);
  await state(page, "live");
  await page.locator("#results li", { hasNotText: "mpeg" }).locator(".play").click();
  await page.locator("#results li.chosen").waitFor();
  await page.waitForFunction(() => document.querySelector("audio")!.currentTime > 0);
  await look(page, "playdar-answers");
});

test("the form that lets a page in reads well, and says what it was told as text", async (t) => {
  const daemon = await Daemon.start(t);
  const context = await openContext(t);
  await context.addInitScript("globalThis.__name = (of) => of");
  const receiverurl = "http://music.example.org/a/receiver/far/below/the/root.html";
  const name = "A <b>music</b> page";
  const asked = new URLSearchParams({ website: "http://music.example.org/", name, receiverurl });
  const page = await openPage(t, context, `${daemon.origin}/auth_1/?${asked}`);
  await page.getByRole("button", { name: "Allow" }).waitFor();
  assert.equal(await page.locator("strong").first().textContent(), name);
  await look(page, "playdar-allow");
});

test("who asks for calm sees nothing move in", async (t) => {
  const daemon = await Daemon.start(t, "--script", TAIL);
  for (const [reducedMotion, name] of [["reduce", "none"], ["no-preference", "arrive"]] as const) {
    const page = await daemon.open(t, await openContext(t, { reducedMotion }));
    await search(page, "Encke", "Calm");
    await answers(page, 1);
    const row = page.locator("#results li").first();
    assert.equal(await row.evaluate((row) => getComputedStyle(row).animationName), name);
  }
});
