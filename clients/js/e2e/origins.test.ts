/** A page of one origin and a server of another that lets it in; and Node, which has no origin. */

import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import type { TransportName } from "../src/index.js";
import { type Client, openClient, type Place, PLACES } from "./client.js";
import { Front } from "./front.js";
import { Encke, until } from "./server.js";

const TRANSPORTS: TransportName[] = ["websocket", "sse", "poll"];

/** What Chromium says by itself of requests that fail. */
const FAILED = /Failed to load resource|WebSocket connection to/;

/** A client in `place`, a server that lets its page in, and the way between them. */
async function open(t: TestContext, place: Place, ...options: string[]) {
  const pages = await Front.start(t);
  const server = await Encke.start(t, `--allow-origin=${pages.origin}`, ...options);
  const way = await Front.start(t, server);
  const hosts = [new URL(way.origin).host];
  const client = await openClient(t, place, pages.origin, { console: FAILED, hosts });
  return { server, way, client };
}

/** Cuts the way, lets the server see it, and mends it. */
async function interrupt(server: Encke, way: Front, client: Client): Promise<void> {
  way.cut();
  await client.turned("waiting");
  await until("the server has seen it", async () => (await server.connections("bob")) === 0);
}

for (const place of PLACES) {
  for (const transport of TRANSPORTS) {
    test(`${transport} in a ${place} works across origins`, async (t) => {
      const { server, way, client } = await open(t, place, "--history-events=2");
      await client.listen({ ids: "bob", transports: [transport] }, way.origin);
      await client.turned("open", transport);
      await server.send("bob", 0);
      assert.deepEqual(await client.heard(1), [0]);
      await interrupt(server, way, client);
      await server.send("bob", 1);
      way.mend();
      assert.deepEqual(await client.heard(2), [0, 1]);
      assert.equal(await client.login("ann"), true);
      await server.send("ann", 2);
      await client.heard(3);
      assert.equal((await client.told()).gaps, 0);
      await interrupt(server, way, client);
      for (let n = 3; n < 8; n++) {
        await server.send("bob", n);
      }
      way.mend();
      await client.missed(1);
      assert.deepEqual(await client.heard(5), [0, 1, 2, 6, 7]);
    });
  }

  test(`full server is asked no more than it must be by a ${place}`, async (t) => {
    const { server, way, client } = await open(t, place, "--max-connections=1");
    const first = await openClient(t, "node", `http://${server.listen}`);
    await first.listen({ ids: "ann", transports: ["sse"] });
    await first.turned("open");
    await client.listen({ ids: "bob" }, way.origin);
    await client.turned("waiting");
    // How it failed to open a WebSocket it is not told, so it asks once more. A full server may
    // refuse before the relay has seen what is asked.
    assert.ok(way.asked.length <= 2, `${way.asked}`);
    const isAsked = (line: string) => /^GET \/stream\/bob(\?next=1)? HTTP\/1\.1$/.test(line);
    assert.ok(way.asked.every(isAsked), `${way.asked}`);
    const asked = way.asked.length;
    assert.deepEqual((await client.told()).waits, [5000]);
    await first.close();
    await until("there is room", async () => (await server.connections("ann")) === 0);
    await client.turned("open");
    await server.send("bob", "now");
    assert.deepEqual(await client.heard(1), ["now"]);
    assert.equal(way.asked.length, asked + 1, "it came back once");
  });

  test(`refusal across origins says what to do in a ${place}`, async (t) => {
    const { way, client } = await open(t, place);
    await client.listen({ ids: "a b" }, way.origin);
    await client.turned("closed");
    assert.match((await client.told()).errors[0], /white space/);
  });

  test(`more ids than an address holds are heard over WebSocket in a ${place}`, async (t) => {
    const { server, way, client } = await open(t, place, "--max-message=512");
    const ids = Array.from({ length: 2047 }, (_, n) => `${"room".repeat(25)}:${n}`);
    await client.listen({ ids: ["bob", ...ids], transports: ["websocket"] }, way.origin);
    await client.turned("open");
    for (const id of [ids[0], ids[1000], ids[2046]]) {
      assert.equal(await server.send(id, id), 1);
    }
    assert.deepEqual(await client.heard(3), [ids[0], ids[1000], ids[2046]]);
    await interrupt(server, way, client);
    await server.send("bob", "of the address");
    way.mend();
    await client.missed(1);
    await client.turned("open");
    assert.equal(await server.send(ids[2046], "again"), 1);
    assert.deepEqual((await client.heard(5)).slice(3), ["of the address", "again"]);
    assert.deepEqual((await client.told()).errors, []);
  });

  for (const transport of ["sse", "poll"] satisfies TransportName[]) {
    test(`as many ids as an address holds are heard over ${transport} in a ${place}`, async (t) => {
      const { server, way, client } = await open(t, place);
      const ids = Array.from({ length: 2047 }, (_, n) => `room:${n}`);
      await client.listen({ ids: ["bob", ...ids], transports: [transport] }, way.origin);
      await client.turned("open", transport);
      await server.send(ids[0], 0);
      await server.send(ids[2046], "nobody");
      await server.send(ids[1], 1);
      assert.deepEqual(await client.heard(2), [0, 1]);
      assert.match((await client.told()).errors[0], /No room for \d+ ids/);
    });
  }
}
