/** Each transport in a page: alone, by choice, and when a better one is blocked. */

import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import type { TransportName } from "../src/index.js";
import { type Expected, openContext, openPage, Tab } from "./browser.js";
import { Front } from "./front.js";
import { Encke } from "./server.js";

/** What Chromium says by itself of a request that failed. */
const FAILED = /Failed to load resource|WebSocket connection to .* failed/;

async function open(t: TestContext, expected: Expected = {}, ...options: string[]) {
  const server = await Encke.start(t, ...options);
  const front = await Front.start(t, server);
  const context = await openContext(t);
  const page = await openPage(t, context, `${front.origin}/e2e/e2e/page.html`, expected);
  return { server, front, page, tab: new Tab(page) };
}

for (const transport of ["websocket", "sse", "poll"] satisfies TransportName[]) {
  test(`${transport} in a page hears its own and whom it follows, in order`, async (t) => {
    const { server, tab } = await open(t);
    await server.subscribe("bob", "rj");
    await tab.listen({ ids: "bob", transports: [transport] });
    await tab.turned("open", transport);
    for (let n = 0; n < 20; n++) {
      await server.send(n % 2 ? "bob" : "rj", { n, text: "ä 🚀 </script>" });
    }
    const heard = await tab.heard(20);
    assert.deepEqual(heard, Array.from({ length: 20 }, (_, n) => ({ n, text: "ä 🚀 </script>" })));
    const { gaps, errors } = await tab.told();
    assert.deepEqual([gaps, errors], [0, []]);
  });

  test(`${transport} in a page logs in, out and off`, async (t) => {
    const { server, tab } = await open(t);
    await tab.listen({ ids: "bob", transports: [transport] });
    await tab.turned("open");
    assert.equal(await tab.page.evaluate(() => window.connection.login("photo:789", 7)), true);
    await server.send("photo:789", "a login");
    await server.send("7", "by a number");
    assert.deepEqual(await tab.heard(2), ["a login", "by a number"]);
    assert.equal(await tab.page.evaluate(() => window.connection.logout("bob")), true);
    await server.send("bob", "nobody");
    await server.send("7", "still here");
    assert.deepEqual(await tab.heard(3), ["a login", "by a number", "still here"]);
    await tab.page.evaluate(() => window.connection.close());
    assert.equal((await tab.told()).states.at(-1), `closed ${transport}`);
  });
}

test("blocked WebSocket is followed by SSE, blocked SSE by long poll", async (t) => {
  const { server, front, page, tab } = await open(t, { console: FAILED });
  front.blocks = (head) => /^upgrade: websocket/im.test(head);
  await tab.listen({ ids: "bob" });
  await tab.turned("open", "sse");
  await server.send("bob", "over SSE");
  assert.deepEqual(await tab.heard(1), ["over SSE"]);
  await page.evaluate(() => window.connection.close());

  await page.route("**/stream/**", (route) => route.abort());
  await tab.listen({ ids: "bob" });
  await tab.turned("open", "poll");
  await server.send("bob", "over poll");
  assert.deepEqual(await tab.heard(1), ["over poll"]);
});

test("nothing blocked is WebSocket", async (t) => {
  const { tab } = await open(t);
  await tab.listen({ ids: "bob" });
  await tab.turned("open", "websocket");
});

test("WebSocket in a page is compressed where the server agrees", async (t) => {
  const { server, front, page, tab } = await open(t, {}, "--websocket-deflate");
  const agreed = await page.evaluate(async (url) => {
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
  assert.equal(await page.evaluate((ids) => window.connection.login(...ids), rooms), true);
  const texts = [0, 1, 10, 1_000, 5_000].map((times) => "ä 🚀".repeat(times));
  for (const [n, text] of texts.entries()) await server.send(`room:${n}`, text);
  assert.deepEqual(await tab.heard(texts.length), texts);
});

test("refusal says what to do", async (t) => {
  const { tab } = await open(t, { console: FAILED });
  await tab.listen({ ids: "a b", transports: ["sse"] });
  await tab.turned("closed");
  const { errors } = await tab.told();
  assert.equal(errors.length, 1);
  assert.match(errors[0], /id/);
});

test("page of an origin that is let in hears, another is told why not", async (t) => {
  const server = await Encke.start(t);
  const front = await Front.start(t, server);
  const other = await Encke.start(t, "--allow-origin", front.origin);
  const context = await openContext(t);
  const expected = { console: /Failed to load|CORS|WebSocket/, hosts: [server.listen, other.listen] };
  const page = await openPage(t, context, `${front.origin}/e2e/e2e/page.html`, expected);
  const tab = new Tab(page);
  for (const transport of ["websocket", "sse", "poll"] satisfies TransportName[]) {
    await tab.listen({ ids: "bob", transports: [transport] }, `http://${other.listen}`);
    await tab.turned("open", transport);
    await other.send("bob", transport);
    assert.deepEqual(await tab.heard(1), [transport]);
    await page.evaluate(() => window.connection.close());
  }
  await tab.listen({ ids: "bob" }, `http://${server.listen}`);
  await tab.turned("waiting");
});
