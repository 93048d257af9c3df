/** The demo page: two users in two tabs, with the crowd around them, and a server that goes. */

import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import type { Page } from "playwright-core";
import { countBytes, openContext, openPage, PAGE_BYTES_MAX, tabTo } from "./browser.js";
import { atEnd } from "./ends.js";
import { Program, startDemo } from "./program.js";
import { Encke, freeAddress } from "./server.js";

/** What Chromium says by itself of connections that break. */
const BROKEN = /Failed to load resource|ERR_CONNECTION|WebSocket connection to/;

/** Waits for so many rows of the feed. */
async function rows(page: Page, selector: string, count: number): Promise<void> {
  const enough = ([selector, count]: readonly [string, number]) =>
    document.querySelectorAll(`#feed ${selector}`).length >= count;
  await page.waitForFunction(enough, [selector, count] as const);
}

function user(page: Page): string {
  return new URL(page.url()).hash.slice(1);
}

async function say(page: Page, words: string): Promise<void> {
  await page.fill("#words", words);
  await page.press("#words", "Enter");
}

test("two users of a demo are friends in two tabs, and one hears the other", async (t) => {
  const { url, api } = await startDemo(t, "--users=300", "--rate=600");
  const context = await openContext(t);
  const bytes = countBytes(context);
  const page = await openPage(t, context, url, { hosts: [api] });
  await rows(page, ".listens", 5);
  assert.match(await page.title(), /^\S.* \(\d+\) · Encke$/);
  // By WebSocket, or by another way where that is slow to open.
  await page.locator("#state-words", { hasText: "live over" }).waitFor();
  const loaded = await bytes();
  assert.ok(loaded > 10_000 && loaded < PAGE_BYTES_MAX, `${loaded} bytes`);
  t.diagnostic(`the demo page loads ${loaded} bytes`);

  // Its friends are the API's.
  const me = user(page);
  for (const [list, path] of [["followers", "subscribers"], ["following", "subscriptions"]]) {
    const { ids } = await (await fetch(`http://${api}/${path}/${me}`)).json();
    await page.waitForFunction((list) => document.getElementById(`${list}-count`)?.textContent, list);
    assert.equal(await page.textContent(`#${list}-count`), String(ids.length));
    const shown = await page.$$eval(`#${list} li[data-id]`, (all) =>
      all.map((one) => (one as HTMLElement).dataset.id),
    );
    assert.equal(shown.length, Math.min(12, ids.length));
    assert.ok(shown.every((id) => ids.includes(id)));
  }
  await page.waitForSelector("#followers .there.online");

  // A friend in a second tab hears what is said here, as it was typed.
  const opened = context.waitForEvent("page");
  await page.click("#followers a >> nth=0");
  const friend = await opened;
  await rows(friend, ".item", 1);
  assert.equal(user(friend), await page.getAttribute("#followers li >> nth=0", "data-id"));
  await say(page, "Good evening, <b>Earth</b>");
  const heard = friend.locator("#feed .says", { hasText: "Good evening, <b>Earth</b>" });
  await heard.waitFor();
  assert.match(await heard.locator(".took").innerText(), /^[\d.]+\s(ms|s)$/);
  await page.locator("#said", { hasText: /Heard on \d+ streams\. Back here after/ }).waitFor();
  assert.equal(await friend.locator("#feed q *").count(), 0);
  await friend.close();

  // Somebody else, by keyboard; and what cannot be an id is told.
  await page.fill("#someone", "7");
  await page.press("#someone", "Enter");
  await page.locator("#me-id", { hasText: "user 7" }).waitFor();
  assert.equal(user(page), "7");
  await rows(page, ".item", 3);
  await page.fill("#someone", "no such id");
  await page.press("#someone", "Enter");
  await page.locator("#someone-error", { hasText: "no spaces" }).waitFor();

  // A pause holds what comes, and tells how much that is.
  await page.click("#pause");
  await page.locator("#pause", { hasText: /^Go on \(\d+\)$/ }).waitFor();
  // Their number may be all that are shown already.
  await page.$eval("#feed > *", (row) => row.classList.add("held"));
  await page.click("#pause");
  await page.waitForSelector("#feed > :first-child:not(.held)");
});

test("everything on the page can be done with the keyboard", async (t) => {
  const server = await Encke.start(t, '--demo-page={"users":10,"events_per_second":1}');
  await server.subscribe("5", "7");
  const context = await openContext(t);
  const page = await openPage(t, context, `http://${server.listen}/#1`, { hosts: [server.api] });
  await page.locator("#state-words", { hasText: "live over" }).waitFor();
  await tabTo(page, "#skip");
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement?.id), "news");
  await tabTo(page, "#someone");
  await page.keyboard.press("Control+A");
  await page.keyboard.type("7");
  await page.keyboard.press("Enter");
  await page.locator("#me-id", { hasText: "user 7" }).waitFor();
  await tabTo(page, "#words");
  await page.keyboard.type("By keyboard");
  await page.keyboard.press("Enter");
  await page.locator("#feed .mine", { hasText: "By keyboard" }).waitFor();
  await tabTo(page, "#pause");
  await page.keyboard.press("Space");
  await page.locator('#pause[aria-pressed="true"]').waitFor();
  await tabTo(page, "#news");
  await tabTo(page, "#followers a");
  const opened = context.waitForEvent("page");
  await page.keyboard.press("Enter");
  assert.equal(user(await opened), "5");
});

test("page says that its server is gone, and goes on when it is back", async (t) => {
  const data = await mkdtemp(join(tmpdir(), "encke-e2e-"));
  atEnd(t, () => rm(data, { recursive: true, force: true }));
  const [listen, api] = [await freeAddress(), await freeAddress()];
  const args = [
    "serve", `--listen=${listen}`, `--api=${api}`, "--json", "--data", data,
    '--demo-page={"users":10,"events_per_second":1}',
  ];
  const server = await Program.start(t, "pid", ...args);
  // Here all moves that can.
  const context = await openContext(t, { reducedMotion: "no-preference" });
  const expected = { console: BROKEN, hosts: [api] };
  const page = await openPage(t, context, `http://${listen}/#1`, expected);
  const state = (words: string) => page.locator("#state-words", { hasText: words }).waitFor();
  await state("live over");
  await server.end("SIGKILL");
  await state("trying again");
  await say(page, "Is anybody there?");
  await page.locator("#said", { hasText: "Not sent." }).waitFor();
  await Program.start(t, "pid", ...args);
  await state("live over");
  await page.locator("#feed .note", { hasText: "is back" }).waitFor();
  await say(page, "There you are");
  await page.locator("#feed .says", { hasText: "There you are" }).waitFor();
});
