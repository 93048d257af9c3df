/** `examples/socketio`, as its README starts it, and what `docs/moving.md` shows of it. */

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, test, type TestContext } from "node:test";
import type { Page } from "playwright-core";
import { openContext, openPage } from "./browser.js";
import { Front } from "./front.js";
import { leave } from "./leave.js";
import { look } from "./look.js";
import { Program, root } from "./program.js";
import { Encke, until } from "./server.js";
import { Secret } from "./sign.js";

const EXAMPLE = join(root(), "examples/socketio");

/** What Chromium says by itself of a stream whose network is gone. */
const FAILED = /Failed to load|WebSocket connection to|ERR_/;

let secret: Secret;

before(async () => {
  secret = await Secret.make();
});

after(() => secret.remove());

/** Comes in under a name, in a browser of its own; the way to the server is of another origin. */
async function comeIn(t: TestContext, url: string, name: string, way: Front): Promise<Page> {
  const expected = { hosts: [new URL(way.origin).host], console: FAILED };
  const page = await openPage(t, await openContext(t), url, expected);
  await page.getByLabel("Your name").fill(name);
  await page.getByRole("button", { name: "Come in" }).click();
  await page.locator("#here", { hasText: name }).waitFor();
  return page;
}

/** What a page shows, once it has so many lines. */
async function lines(page: Page, count: number): Promise<string[]> {
  await page.locator("#lines li").nth(count - 1).waitFor();
  return page.locator("#lines li").allTextContents();
}

async function say(page: Page, text: string): Promise<void> {
  await page.getByLabel("Message", { exact: true }).fill(text);
  await page.getByRole("button", { name: "Send" }).click();
}

test("socketio: rooms, sends to all others, acknowledgements, and what was missed", async (t) => {
  for (const file of ["backend.mjs", "room.js"]) {
    const count = (await readFile(join(EXAMPLE, file), "utf8")).trimEnd().split("\n").length;
    assert.ok(count < 40, `${file} has ${count} lines`);
  }
  const options = [`--token-key=${secret.file}`, "--allow-origin=*", "--presence-grace=0"];
  const server = await Encke.start(t, ...options);
  const way = await Front.start(t, server);
  const { host } = new URL(way.origin);
  const env = { SECRET: secret.file, API: server.api, WS: host, PORT: "0" };
  const path = join(EXAMPLE, "backend.mjs");
  const backend = await Program.startIn(env, process.execPath, t, "http://", path);
  const url = `http://${backend.told("http://")}/`;

  const ann = await comeIn(t, url, "ann", way);
  const bob = await comeIn(t, url, "bob", way);
  await ann.locator("#here", { hasText: "ann, bob" }).waitFor();
  await say(ann, "Hello, <b>Bob</b>!");
  for (const page of [ann, bob]) {
    assert.deepEqual(await lines(page, 1), ["ann: Hello, <b>Bob</b>!"]);
  }
  await bob.getByRole("button", { name: "Roll the dice" }).click();
  await bob.locator("#yours", { hasText: /^You have a [1-6]\.$/ }).waitFor();
  const [, rolled] = await lines(bob, 2);
  assert.match(rolled, /^bob: [1-6]$/);
  assert.equal((await lines(ann, 2))[1], rolled);

  await bob.getByLabel("Room").selectOption("music");
  await ann.locator("#here", { hasText: /^ann$/ }).waitFor();
  await bob.locator("#here", { hasText: /^bob$/ }).waitFor();
  await say(bob, "Anybody here?");
  assert.deepEqual(await lines(bob, 1), ["bob: Anybody here?"]);
  await bob.getByLabel("Room").selectOption("lobby");
  await ann.locator("#here", { hasText: "ann, bob" }).waitFor();

  way.cut();
  for (const page of [ann, bob]) {
    await page.locator("#state", { hasText: /waiting|connecting/ }).waitFor();
  }
  await say(bob, "I am away.");
  const body = JSON.stringify({ name: "carol", room: "room:lobby" });
  const { number } = await (await fetch(`${url}roll`, { method: "POST", body })).json();
  way.mend();
  const missed = [`carol: ${number}`, "bob: I am away."];
  const all = ["ann: Hello, <b>Bob</b>!", rolled, ...missed];
  assert.deepEqual((await lines(ann, 4)).toSorted(), all.toSorted());
  assert.deepEqual((await lines(bob, 2)).toSorted(), missed.toSorted());
  await look(ann, "socketio");

  // What nobody's page asks ends it for nobody.
  assert.equal((await fetch(`${url}/`)).status, 404);
  await leave(`${url}roll`);
  assert.equal((await fetch(`${url}roll`, { method: "POST", body: "{" })).status, 500);
  await ann.close();
  await bob.close();
  await until("they are gone", async () => !(await server.connections("room:lobby")));
  await server.kill();
  assert.equal((await fetch(`${url}roll`, { method: "POST", body })).status, 500);
  assert.equal((await fetch(url)).status, 200, "it serves its page still");
});

test("what docs/moving.md shows instead of Socket.IO is of the example", async () => {
  const page = await readFile(join(root(), "docs/moving.md"), "utf8");
  const [, section] = page.split("\n## From Socket.IO\n");
  const shown = [...section.split("\n## ")[0].matchAll(/^```js\n(\/\/ after.*?)^```/gms)];
  assert.equal(shown.length, 2, "one for the page, one for the backend");
  const files = ["room.js", "backend.mjs"].map((file) => readFile(join(EXAMPLE, file), "utf8"));
  const written = (await Promise.all(files)).join("\n").split("\n");
  const known = new Set(written.map((line) => line.trim()));
  for (const [, code] of shown) {
    for (const line of code.split("\n").slice(1)) {
      assert.ok(known.has(line.trim()) || !line.trim(), `not of the example: ${line}`);
    }
  }
});
