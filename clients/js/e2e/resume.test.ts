/** What a page or a program hears of a network or a server that goes and comes back. */

import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import type { TransportName } from "../src/index.js";
import { type Client, openClient, type Place, PLACES } from "./client.js";
import { Front } from "./front.js";
import { Encke, until } from "./server.js";

const TRANSPORTS: TransportName[] = ["websocket", "sse", "poll"];

/** What Chromium says by itself of connections that break. */
const BROKEN = { console: /Failed to load resource|WebSocket connection to/ };

async function open(t: TestContext, place: Place, ...options: string[]) {
  const server = await Encke.start(t, ...options);
  const front = await Front.start(t, server);
  return { server, front, client: await openClient(t, place, front.origin, BROKEN) };
}

/** So many events of an id the server remembers in the tests of its end. */
const REMEMBERED = 200;

/** So many events at most does a client come behind: half of those that the server remembers. */
const BEHIND_MAX = REMEMBERED / 2;

/**
 * Sends `n`, `n + 1`, … about `bob`, until the server is gone; returns the first it did not take.
 *
 * It waits for `client`, which has heard all before `n` that it will hear: a page may be slower than
 * the server, and is rightly told of a gap when more comes between two polls than is remembered.
 */
async function sendFrom(server: Encke, client: Client, n: number): Promise<number> {
  const before = (await client.told()).events.length;
  const gone = server.ended();
  for (let sent = 0; ; sent++) {
    if (sent % BEHIND_MAX === 0) {
      // Whoever is killed leaves some unheard.
      await Promise.race([gone, client.heard(before + sent).catch(() => {})]);
    }
    const taken = await server.send("bob", n + sent).catch(() => null);
    if (taken === null) {
      return n + sent;
    }
  }
}

/** What was heard grows, and where a number is left out a gap was told. */
function assertNoHoleIsUnsaid(log: unknown[]): void {
  let last = -1;
  let isTold = false;
  for (const heard of log) {
    if (heard === "gap") {
      isTold = true;
      continue;
    }
    const n = heard as number;
    assert.ok(n > last, `${n} comes after ${last}: ${log}`);
    assert.ok(n === last + 1 || isTold, `nobody told of a gap before ${n}: ${log}`);
    [last, isTold] = [n, false];
  }
}

for (const place of PLACES) {
  for (const transport of TRANSPORTS) {
    test(`${transport} in a ${place} hears after a cut what came in between, once`, async (t) => {
      const { server, front, client } = await open(t, place);
      await server.subscribe("bob", "rj");
      await client.listen({ ids: "bob", transports: [transport] });
      await client.turned("open");
      let n = 0;
      for (let round = 0; round < 3; round++) {
        await server.send("bob", n++);
        front.cut();
        await client.turned("waiting");
        await until("the server has seen it", async () => (await server.connections("bob")) === 0);
        await server.send("rj", n++);
        await server.send("bob", n++);
        front.mend();
        await client.turned("open");
        await server.send("rj", n++);
      }
      assert.deepEqual(await client.heard(n), Array.from({ length: n }, (_, n) => n));
      assert.equal((await client.told()).gaps, 0);
    });
  }
}

// In Node the same program says so to a scripted server (test/connection.test.ts), and to a network
// that drops all (e2e/silence).
for (const transport of TRANSPORTS) {
  test(`${transport} in a page tells of each kill -9 and goes on`, async (t) => {
    const { server, client } = await open(t, "page", `--history-events=${REMEMBERED}`);
    await client.listen({ ids: "bob", transports: [transport] });
    let n = 0;
    for (let round = 1; round <= 3; round++) {
      await client.turned("open");
      const sending = sendFrom(server, client, n);
      await client.heard((await client.told()).events.length + 5);
      await server.kill();
      n = (await sending) + 1;
      await client.turned("waiting");
      await server.start();
      await client.missed(round);
    }
    await client.turned("open");
    await server.send("bob", n);
    await until("the last is heard", async () => (await client.told()).log.at(-1) === n);
    const { log, gaps } = await client.told();
    assertNoHoleIsUnsaid(log);
    assert.equal(gaps, 3, `each is told once: ${log}`);
  });
}

// What makes a gap more of a kill, and why `sendFrom` waits.
test("poll in a page that comes behind what is remembered is told of it", async (t) => {
  const { server, front, client } = await open(t, "page", `--history-events=${REMEMBERED}`);
  await client.listen({ ids: "bob", transports: ["poll"] });
  await client.turned("open");
  front.cut();
  await client.turned("waiting");
  await until("the server has seen it", async () => (await server.connections("bob")) === 0);
  for (let n = 0; n <= REMEMBERED; n++) {
    await server.send("bob", n);
  }
  front.mend();
  await client.heard(REMEMBERED);
  const { log } = await client.told();
  assert.deepEqual(log, ["gap", ...Array.from({ length: REMEMBERED }, (_, n) => n + 1)]);
});

for (const transport of ["websocket", "sse"] satisfies TransportName[]) {
  test(`${transport} in a page that freezes is noticed and resumed`, async (t) => {
    const { server, front, client } = await open(t, "page");
    await client.listen({ ids: "bob", transports: [transport], silenceMs: 3000, openMs: 2000 });
    await client.turned("open");
    front.freeze();
    await server.send("bob", "into the void");
    await client.turned("waiting");
    front.mend();
    assert.deepEqual(await client.heard(1), ["into the void"]);
    assert.equal((await client.told()).gaps, 0);
  });
}

test("holes that nobody told of, and doubles, would be seen", () => {
  assertNoHoleIsUnsaid([0, 1, "gap", 4, 5, "gap", 6]);
  assert.throws(() => assertNoHoleIsUnsaid([0, 2]), /before 2/);
  assert.throws(() => assertNoHoleIsUnsaid([0, "gap", 3, 5]), /before 5/);
  assert.throws(() => assertNoHoleIsUnsaid([0, 1, 1]), /1 comes after 1/);
});
