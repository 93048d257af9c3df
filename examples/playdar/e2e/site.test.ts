/** A web site of another origin that does what playdar.js does: script tags, a popup, polls. */

import assert from "node:assert/strict";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test, type TestContext } from "node:test";
import { openContext, openPage } from "../../../clients/js/e2e/browser.js";
import { atEnd } from "../../../clients/js/e2e/ends.js";
import { Daemon, type Page, TAIL } from "./daemon.js";

const QID = "5A175F0B-7C51-4B39-9D8B-1C5B0E1B5F11";

test("a site asks for a token, gets results by script tags, and gives the token back", async (t) => {
  const daemon = await Daemon.start(t, "--script", TAIL);
  const page = await openSite(t, daemon);
  const foreign = await told(page, "stats", 1);
  assert.equal(foreign.name, "playdar");
  assert.equal(foreign.authenticated, false);
  assert.ok(!("capabilities" in foreign) && !("streams" in foreign), JSON.stringify(foreign));

  // Without a token nothing but that.
  await page.evaluate(`Playdar.client.resolve("Encke", "Site", "${QID}")`);
  await told(page, "errors", 1);

  // The popup asks the person; the token comes back by the receiver page, and the popup closes.
  const opened = page.context().waitForEvent("page");
  await page.click("#connect");
  const popup = await opened;
  const closed = popup.waitForEvent("close");
  await popup.getByRole("button", { name: "Allow" }).click();
  await closed;
  const friend = await told(page, "stats", 2);
  assert.equal(friend.authenticated, true);

  // The query with the site's own id, by the long way and by polls.
  await page.evaluate(`Playdar.client.resolve("Encke", "Site", "${QID}")`);
  assert.equal(await told(page, "resolutions", 1), QID);
  const poll = await told(page, "results", 1);
  assert.equal(poll.qid, QID);
  assert.ok(poll.poll_interval > 0 && poll.poll_limit > 0 && poll.refresh_interval > 0);
  const long = await told(page, "longs", 1);
  assert.equal(long.results.length, 8);
  assert.deepEqual([long.results[0].score, long.results[0].album], [0.95, "Aphelion (Deluxe Edition)"]);
  assert.ok(long.results.every((result: object) => !("url" in result)));
  const last = await told(page, "results", poll.poll_limit);
  assert.equal(last.results.length, 8);

  // The token given back is good for nothing any more.
  await page.evaluate("Playdar.client.clearAuth()");
  await page.waitForFunction(`(Playdar.client.stat(), told.stats.at(-1).authenticated === false)`);
  await page.evaluate(`Playdar.client.resolve("Encke", "Site", "other")`);
  await told(page, "errors", 2);
  assert.equal(await page.evaluate("told.resolutions.length"), 1);
});

test("a callback that is no name of a function runs nothing", async (t) => {
  const daemon = await Daemon.start(t);
  const page = await openSite(t, daemon);
  await told(page, "stats", 1);
  const evil = encodeURIComponent("globalThis.hacked=1;//");
  await page.evaluate(`Playdar.client.load("${daemon.origin}/api/?method=stat&jsonp=${evil}")`);
  await told(page, "errors", 1);
  assert.equal(await page.evaluate("globalThis.hacked"), undefined);
});

/** Opens the site, from another host and port than the daemon's. */
async function openSite(test: TestContext, daemon: Daemon): Promise<Page> {
  const server = createServer(async ({ url }, answer) => {
    const name = new URL(url!, "http://localhost").pathname.slice(1);
    const isOurs = ["site.html", "site.js", "receiver.html"].includes(name);
    const file = isOurs ? await readFile(new URL(name, import.meta.url)) : null;
    const kind = name.endsWith(".js") ? "text/javascript" : "text/html";
    answer.writeHead(file ? 200 : 404, { "content-type": `${kind}; charset=utf-8` });
    answer.end(file);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  atEnd(test, () => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const url = `http://localhost:${port}/site.html?daemon=${encodeURIComponent(daemon.origin)}`;
  const expected = { console: /Failed to load resource/, hosts: [new URL(daemon.origin).host] };
  return openPage(test, await openContext(test), url, expected);
}

/** The entry with this number, counted from 1, of what came back, once it is there. */
async function told(page: Page, kind: string, number: number): Promise<any> {
  const entry = await page.waitForFunction(`told.${kind}[${number - 1}]`);
  return entry.jsonValue();
}
