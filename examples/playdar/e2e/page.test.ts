/** The page: a question, its answers one after the other, a song that plays, a network that goes. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { openContext, openPage, tabTo } from "../../../clients/js/e2e/browser.js";
import { answers, Daemon, type Page, search, state, TAIL } from "./daemon.js";
import { Relay } from "./relay.js";

/** How many answers the resolver of the tests has, and their scores in per cent, best first. */
const PERCENTS = [95, 90, 85, 80, 75, 70, 65, 62];

/** What Chromium says by itself of connections that break. */
const BROKEN = /Failed to load resource|ERR_|EventSource/;

test("answers come one after the other, the best on top, and none is markup", async (t) => {
  const daemon = await Daemon.start(t, "--script", TAIL);
  const page = await daemon.open(t, await openContext(t));
  await page.locator("#sources li", { hasText: "tail" }).waitFor();
  await search(page, "Markup", "One <i>by</i> one");
  await answers(page, PERCENTS.length);
  await state(page, "live over SSE");
  assert.equal(await page.locator("#results li").count(), PERCENTS.length);
  assert.deepEqual(await percents(page), PERCENTS);

  // Each was shown when it came, a tenth of a second after the one before, whatever its place. The
  // later it is found, the longer it is.
  const rows = await page.$$eval("#results li", (rows) =>
    rows.map((row) => [".length", ".took"].map((part) => row.querySelector(part)!.textContent!)),
  );
  const times = rows.sort().map(([, took]) => milliseconds(took));
  assert.ok(times.every((time, at) => time > 80 * (at + 1)), `none before it was found: ${rows}`);
  // Were they held back until the last is there, they would come at once. A busy machine may do so
  // with some of them.
  assert.ok(times.at(-1)! - times[0]! > 100, `${rows}`);

  // What looks like markup is text, and runs nothing.
  const script = "<script>globalThis.hacked = 1</script>";
  const row = page.locator("#results li", { hasText: script }).first();
  assert.equal(await row.locator("b").textContent(), "One <i>by</i> one");
  assert.equal(await row.locator(".source").textContent(), script);
  assert.equal(await row.locator(".album").textContent(), script);
  assert.equal(await page.locator("#results :is(script, img, i)").count(), 0);
  assert.equal(await page.evaluate("globalThis.hacked"), undefined);
  await page.locator("#spoken", { hasText: "8 answers, best: One <i>by</i> one by Markup" }).waitFor();

  // The next question takes the place of the one before, and nobody who has it is told, too.
  await search(page, "None", "Such");
  await page.locator("#quiet", { hasText: "Nobody has “Such” by None." }).waitFor();
  assert.equal(await page.locator("#results li").count(), 0);
});

test("a song plays, by ranges, and stops where one says so", async (t) => {
  const daemon = await Daemon.start(t, "--demo");
  const { artist, track } = await song(daemon);
  const page = await daemon.open(t, await openContext(t));
  const parts: [number, string | undefined][] = [];
  page.on("response", (answer) => {
    if (answer.url().includes("/sid/")) {
      parts.push([answer.status(), answer.headers()["content-range"]]);
    }
  });
  await search(page, artist, track);
  await answers(page, 1);
  assert.equal((await percents(page))[0], 100);
  const play = page.locator("#results .play").first();
  await play.click();
  await page.waitForFunction(() => document.querySelector("audio")!.currentTime > 0.3);
  await page.locator('#results .play[aria-pressed="true"]').waitFor();
  assert.equal(await page.textContent("#player-title"), track);
  assert.ok(parts.length > 0 && parts.every(([status]) => status === 206), `${parts}`);
  assert.match(parts[0][1]!, /^bytes 0-\d+\/\d+$/);

  // On from another place, which is in the file.
  await page.evaluate(() => {
    const audio = document.querySelector("audio")!;
    audio.currentTime = audio.duration * 0.7;
  });
  await page.waitForFunction(() => {
    const { currentTime, duration, paused, seeking } = document.querySelector("audio")!;
    return !seeking && !paused && currentTime > duration * 0.7 + 0.1;
  });
  await play.click();
  await page.locator('#results .play[aria-pressed="false"]').waitFor();
  assert.equal(await page.evaluate(() => document.querySelector("audio")!.paused), true);
});

test("what cannot be played says so", async (t) => {
  const daemon = await Daemon.start(t, "--script", TAIL);
  const expected = { console: BROKEN };
  const page = await daemon.open(t, await openContext(t), "#artist=Encke&track=Gone", expected);
  await answers(page, 1);
  await page.locator("#results .play").first().click();
  await page.locator("#player-error", { hasText: "try another answer" }).waitFor();
  await page.locator('#results li.chosen .play[aria-pressed="false"]').waitFor();
});

test("answers go on where they were when the stream was cut", async (t) => {
  const daemon = await Daemon.start(t, "--script", TAIL);
  const relay = await Relay.start(t, daemon);
  const page = await openPage(t, await openContext(t), relay.origin, { console: BROKEN });
  await search(page, "Encke", "Cut");
  await answers(page, 2);
  relay.cut();
  await state(page, "trying again");
  relay.rule = "pass";
  await state(page, "live over SSE");
  await answers(page, PERCENTS.length);
  assert.deepEqual(await percents(page), PERCENTS);
  // It came back with the place of the last event that it had heard.
  assert.equal(relay.asked[0], undefined);
  assert.match(relay.asked.at(-1)!, /^\w{16}$/);
});

test("where no stream comes through, asking again brings the answers", async (t) => {
  const daemon = await Daemon.start(t, "--script", TAIL);
  const relay = await Relay.start(t, daemon);
  relay.rule = "refuse";
  const page = await openPage(t, await openContext(t), relay.origin, { console: BROKEN });
  await search(page, "Encke", "Refused");
  await state(page, "asking again and again");
  await answers(page, PERCENTS.length);
  assert.deepEqual(await percents(page), PERCENTS);
});

test("everything on the page can be done with the keyboard", async (t) => {
  const daemon = await Daemon.start(t, "--script", TAIL);
  await daemon.letIn("Radio", "http://radio.example.org/");
  const expected = { console: BROKEN };
  const page = await daemon.open(t, await openContext(t), "", expected);
  await page.locator("#tokens button").waitFor();
  await tabTo(page, "#skip");
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement?.id), "answers");
  await tabTo(page, "#artist");
  await page.keyboard.press("Enter");
  await page.locator("#search-error", { hasText: "an artist and a track" }).waitFor();
  assert.equal(await page.getAttribute("#artist", "aria-invalid"), "");
  await page.keyboard.type("Encke");
  await tabTo(page, "#track");
  await page.keyboard.type("By keyboard");
  await page.keyboard.press("Enter");
  await answers(page, PERCENTS.length);
  assert.equal(await page.textContent("#search-error"), "");
  await tabTo(page, "#results .play");
  await page.keyboard.press("Space");
  await page.locator("#results li.chosen").waitFor();
  await tabTo(page, "#tokens button");
  await page.keyboard.press("Enter");
  await page.locator("#tokens-said", { hasText: "Radio may ask no more." }).waitFor();
});

/** A song that the demo has made. */
async function song(daemon: Daemon): Promise<{ artist: string; track: string }> {
  const { examples } = await daemon.json("/api/?method=stat");
  return examples[0];
}

async function percents(page: Page): Promise<number[]> {
  const texts = await page.locator("#results .match").allInnerTexts();
  return texts.map((text) => parseInt(text, 10));
}

/** `412 ms` or `1.2 s` as a number. */
function milliseconds(took: string): number {
  return parseFloat(took) * (took.endsWith(" ms") ? 1 : 1000);
}
