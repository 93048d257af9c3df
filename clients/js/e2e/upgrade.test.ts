/**
 * `encke upgrade` beside clients that are not ours, in Chromium and in Node: a page's own
 * `EventSource` and `WebSocket`, npm's `ws`, and beside them our client in both places. None of
 * them notices: no connection ends, and each event is heard once.
 */

import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { WebSocket as Outside } from "ws";
import type { TransportName } from "../src/index.js";
import { openContext, openPage } from "./browser.js";
import { openClient, PLACES } from "./client.js";
import { Front } from "./front.js";
import { Encke, until } from "./server.js";

const ROUNDS = 3;
const EVENTS = 20;

/** Upgrades under events that are sent before, meanwhile and after; returns how many. */
async function upgradeUnderEvents(server: Encke, hearers: number): Promise<number> {
  let n = 0;
  const send = async () => assert.equal(await server.send("bob", n++), hearers);
  for (let round = 0; round < ROUNDS; round++) {
    for (let event = 0; event < EVENTS; event++) {
      await send();
    }
    let isOver = false;
    const upgraded = server.upgrade().finally(() => (isOver = true));
    while (!isOver) {
      await send();
    }
    await upgraded;
  }
  await send();
  return n;
}

async function start(t: TestContext): Promise<{ server: Encke; front: Front }> {
  const server = await Encke.start(t, "--keepalive=1", "--history-events=100000");
  return { server, front: await Front.start(t, server) };
}

declare global {
  interface Window {
    heard: number[];
    ends: string[];
    opened: number;
  }
}

test("a page's own EventSource and WebSocket do not notice an upgrade", async (t) => {
  const { server, front } = await start(t);
  const page = await openPage(t, await openContext(t), `${front.origin}/e2e/e2e/page.html`);
  for (const kind of ["EventSource", "WebSocket"]) {
    await page.evaluate((kind) => {
      window.heard = [];
      window.ends = [];
      window.opened = 0;
      const url = new URL("/stream/bob", location.href);
      if (kind === "WebSocket") {
        url.protocol = "ws:";
      }
      const source = kind === "WebSocket" ? new WebSocket(url) : new EventSource(url);
      source.onopen = () => window.opened++;
      source.onerror = () => window.ends.push("error");
      source.addEventListener("close", () => window.ends.push("close"));
      source.addEventListener("message", (event) => {
        window.heard.push(JSON.parse((event as MessageEvent).data).data);
      });
    }, kind);
    await until(`${kind} is online`, async () => (await server.connections("bob")) === 1);
    const sent = await upgradeUnderEvents(server, 1);
    await page.waitForFunction((sent) => window.heard.length >= sent, sent);
    const told = await page.evaluate(() => [window.heard, window.ends, window.opened]);
    assert.deepEqual(told, [Array.from({ length: sent }, (_, n) => n), [], 1], kind);
    await page.reload();
    await until(`${kind} is gone`, async () => (await server.connections("bob")) === 0);
  }
});

test("npm's ws does not notice an upgrade", async (t) => {
  const server = await Encke.start(t, "--keepalive=1");
  const heard: number[] = [];
  const ends: string[] = [];
  const socket = new Outside(`ws://${server.listen}/stream/bob`);
  t.after(() => socket.terminate());
  socket.on("message", (text) => heard.push(JSON.parse(text.toString()).data));
  socket.on("error", (error) => ends.push(error.message));
  socket.on("close", (code) => ends.push(`close ${code}`));
  await until("it is online", async () => (await server.connections("bob")) === 1);
  const sent = await upgradeUnderEvents(server, 1);
  await until("all is heard", async () => heard.length >= sent);
  assert.deepEqual([heard, ends], [Array.from({ length: sent }, (_, n) => n), []]);
});

for (const place of PLACES) {
  for (const transport of ["websocket", "sse"] satisfies TransportName[]) {
    test(`our client by ${transport} in a ${place} does not notice an upgrade`, async (t) => {
      const { server, front } = await start(t);
      const client = await openClient(t, place, front.origin);
      await client.listen({ ids: "bob", transports: [transport] });
      await client.turned("open");
      const before = (await client.told()).states.length;
      const sent = await upgradeUnderEvents(server, 1);
      assert.deepEqual(await client.heard(sent), Array.from({ length: sent }, (_, n) => n));
      const { states, gaps, errors } = await client.told();
      assert.deepEqual([states.length, gaps, errors], [before, 0, []]);
    });
  }
}
