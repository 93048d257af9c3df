/** Each transport in a page and in Node: alone, by choice, and when a better one is blocked. */

import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import type { TransportName } from "../src/index.js";
import type { Expected } from "./browser.js";
import { openClient, openTab, type Place, PLACES } from "./client.js";
import { Front } from "./front.js";
import { Encke } from "./server.js";

const TRANSPORTS: TransportName[] = ["websocket", "sse", "poll"];

/** What Chromium says by itself of a request that failed. */
const FAILED = { console: /Failed to load resource|WebSocket connection to .* failed/ };

async function open(t: TestContext, place: Place, expected: Expected = {}) {
  const server = await Encke.start(t);
  const front = await Front.start(t, server);
  return { server, front, client: await openClient(t, place, front.origin, expected) };
}

const isWebSocket = (head: string) => /^upgrade: websocket/im.test(head);
const isSse = (head: string) => /^accept: text\/event-stream/im.test(head);

for (const place of PLACES) {
  for (const transport of TRANSPORTS) {
    test(`${transport} in a ${place} hears its own and whom it follows, in order`, async (t) => {
      const { server, client } = await open(t, place);
      await server.subscribe("bob", "rj");
      await client.listen({ ids: "bob", transports: [transport] });
      await client.turned("open", transport);
      const events = Array.from({ length: 20 }, (_, n) => ({ n, text: "ä 🚀 </script>" }));
      for (const event of events) {
        await server.send(event.n % 2 ? "bob" : "rj", event);
      }
      assert.deepEqual(await client.heard(20), events);
      const { gaps, errors } = await client.told();
      assert.deepEqual([gaps, errors], [0, []]);
    });

    test(`${transport} in a ${place} logs in, out and off`, async (t) => {
      const { server, client } = await open(t, place);
      await client.listen({ ids: "bob", transports: [transport] });
      await client.turned("open");
      assert.equal(await client.login("photo:789", 7), true);
      await server.send("photo:789", "a login");
      await server.send("7", "by a number");
      assert.deepEqual(await client.heard(2), ["a login", "by a number"]);
      assert.equal(await client.logout("bob"), true);
      await server.send("bob", "nobody");
      await server.send("7", "still here");
      assert.deepEqual(await client.heard(3), ["a login", "by a number", "still here"]);
      await client.close();
      assert.equal((await client.told()).states.at(-1), `closed ${transport}`);
    });
  }

  test(`nothing blocked in a ${place} is WebSocket`, async (t) => {
    const { client } = await open(t, place);
    await client.listen({ ids: "bob" });
    await client.turned("open", "websocket");
  });

  test(`refused WebSocket in a ${place} is followed by SSE, broken SSE by poll`, async (t) => {
    const { server, front, client } = await open(t, place, FAILED);
    front.rule = (head) => (isWebSocket(head) ? "refuse" : "pass");
    await client.listen({ ids: "bob" });
    await client.turned("open", "sse");
    await server.send("bob", "over SSE");
    assert.deepEqual(await client.heard(1), ["over SSE"]);
    // The firewall learns.
    front.rule = (head) => (isWebSocket(head) ? "refuse" : isSse(head) ? "reset" : "pass");
    front.cut();
    front.mend();
    await client.turned("open", "poll");
    await server.send("bob", "over poll");
    assert.deepEqual(await client.heard(2), ["over SSE", "over poll"]);
    assert.equal((await client.told()).gaps, 0);
  });

  test(`streams that a proxy holds back in a ${place} are followed by poll`, async (t) => {
    const { server, front, client } = await open(t, place, FAILED);
    front.rule = (head) => (isWebSocket(head) || isSse(head) ? "hold" : "pass");
    await client.listen({ ids: "bob", openMs: 1000 });
    await client.turned("open", "poll");
    await server.send("bob", "over poll");
    assert.deepEqual(await client.heard(1), ["over poll"]);
  });
}

test("WebSocket in a page is compressed where the server agrees", async (t) => {
  const server = await Encke.start(t, "--websocket-deflate");
  const front = await Front.start(t, server);
  const tab = await openTab(t, front.origin);
  const agreed = await tab.page.evaluate(async (url) => {
    const socket = new WebSocket(url);
    await new Promise((resolve, reject) => {
      socket.onopen = resolve;
      socket.onerror = reject;
    });
    socket.close();
    return socket.extensions;
  }, `${front.origin.replace("http", "ws")}/stream/bob`);
  assert.match(agreed, /^permessage-deflate;.*server_no_context_takeover/);
  await tab.listen({ ids: "bob", transports: ["websocket"] });
  await tab.turned("open", "websocket");
  // A command that Chromium compresses, then events from short to long.
  const rooms = Array.from({ length: 100 }, (_, n) => `room:${n}`);
  assert.equal(await tab.login(...rooms), true);
  const texts = [0, 1, 10, 1_000, 5_000].map((times) => "ä 🚀".repeat(times));
  for (const [n, text] of texts.entries()) await server.send(`room:${n}`, text);
  assert.deepEqual(await tab.heard(texts.length), texts);
});

test("refusal says what to do", async (t) => {
  const { client } = await open(t, "page", FAILED);
  await client.listen({ ids: "a b", transports: ["sse"] });
  await client.turned("closed");
  const { errors } = await client.told();
  assert.equal(errors.length, 1);
  assert.match(errors[0], /id/);
});

test("page of an origin that is let in hears, another is told why not", async (t) => {
  const server = await Encke.start(t);
  const front = await Front.start(t, server);
  const other = await Encke.start(t, "--allow-origin", front.origin);
  const hosts = [server.listen, other.listen];
  const tab = await openTab(t, front.origin, { console: /Failed to load|CORS|WebSocket/, hosts });
  for (const transport of TRANSPORTS) {
    await tab.listen({ ids: "bob", transports: [transport] }, `http://${other.listen}`);
    await tab.turned("open", transport);
    await other.send("bob", transport);
    assert.deepEqual(await tab.heard(1), [transport]);
    await tab.close();
  }
  // The refusal is the server's own words, and final.
  await tab.listen({ ids: "bob", transports: ["sse"] }, `http://${server.listen}`);
  await tab.turned("closed");
});
