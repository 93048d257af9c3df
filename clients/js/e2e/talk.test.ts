/** What clients say, by the real server: sends, members, and what was said before. */

import assert from "node:assert/strict";
import { after, before, test, type TestContext } from "node:test";
import type { TransportName } from "../src/index.js";
import { history } from "../src/history.js";
import { openContext, openPage } from "./browser.js";
import { type Client, openClient, openTab, type Place, PLACES } from "./client.js";
import { Front } from "./front.js";
import type { Asked } from "./listen.js";
import { Encke } from "./server.js";
import { Secret } from "./sign.js";

const TRANSPORTS: TransportName[] = ["websocket", "sse", "poll"];

/** What Chromium says by itself of requests that fail. */
const FAILED = /Failed to (load|fetch)|WebSocket connection to|ERR_/;

/** What the users of these tests may do in their rooms. */
const ROOMS = ["room:*"];
const GRANTED = { ids: ROOMS, send: ROOMS, members: ROOMS, history: ROOMS };

/** When these tokens end. */
const IN_2100 = 4_102_444_800;

let secret: Secret;

before(async () => {
  secret = await Secret.make();
});

after(() => secret.remove());

/** A guarded server of another origin than its pages, behind a network that can fail. */
async function open(t: TestContext, ...options: string[]) {
  const pages = await Front.start(t);
  const allowed = [`--token-key=${secret.file}`, `--allow-origin=${pages.origin}`];
  const server = await Encke.start(t, ...allowed, "--presence-grace=0", ...options);
  return { pages, server, way: await Front.start(t, server) };
}

type Opened = Awaited<ReturnType<typeof open>>;

/** A client of a user that is in the room. */
async function enter(
  t: TestContext,
  { pages, way }: Opened,
  place: Place,
  sub: string,
  options: Partial<Asked> = {},
): Promise<Client> {
  const hosts = [new URL(way.origin).host];
  const client = await openClient(t, place, pages.origin, { hosts, console: FAILED });
  const encke = { ...GRANTED, info: { name: sub.toUpperCase() } };
  const token = secret.sign({ sub, exp: IN_2100, encke });
  await client.listen({ ids: "room:7", token, ...options }, way.origin);
  await client.turned("open");
  return client;
}

for (const place of PLACES) {
  for (const transport of TRANSPORTS) {
    test(`${place} sends over ${transport}, hears others and itself with an echo`, async (t) => {
      const opened = await open(t);
      const ann = await enter(t, opened, place, "ann", { transports: [transport] });
      // Not by the way that Ann has found, which is a poll that may not be there for a moment.
      const bob = await enter(t, opened, "node", "bob", { transports: ["websocket"] });
      for (let n = 0; n < 5; n++) {
        const delivered = await ann.send("room:7", n, { event: "said" });
        assert.ok(delivered >= 1, `${delivered}`);
      }
      const delivered = await ann.send(["room:7", "room:8"], "echo", { echo: true });
      assert.ok(delivered >= 1, `${delivered}`);
      assert.deepEqual(await bob.heard(6), [0, 1, 2, 3, 4, "echo"], "each once, in order");
      const [first] = (await bob.told()).events;
      assert.deepEqual([first.from, first.event, first.about], ["ann", "said", "room:7"]);
      await bob.send("room:7", "bob");
      assert.deepEqual(await ann.heard(2), ["echo", "bob"]);
      assert.equal(await ann.send("strange", 1), -403);
      assert.equal(await ann.send("room:7", "x".repeat(20_000)), -413);
      assert.deepEqual((await ann.told()).errors, []);
    });
  }

  test(`what a ${place} sends while it is away is posted once, when it is back`, async (t) => {
    const opened = await open(t, "--client-send-rate=0");
    const ann = await enter(t, opened, place, "ann");
    const other = { ...opened, way: await Front.start(t, opened.server) };
    const bob = await enter(t, other, "node", "bob");
    opened.way.cut();
    await ann.turned("waiting");
    const sent = [1, 2, 3].map((n) => ann.send("room:7", n));
    opened.way.mend();
    await Promise.all(sent);
    await ann.send("room:7", 4);
    assert.deepEqual(await bob.heard(4), [1, 2, 3, 4]);
    assert.deepEqual((await ann.told()).events, [], "it does not hear itself");
  });

  for (const transport of TRANSPORTS) {
    test(`${place} sees over ${transport} who comes and goes`, async (t) => {
      const opened = await open(t);
      const ann = await enter(t, opened, place, "ann", { transports: [transport] });
      await ann.sees("room:7", ["ann"]);
      const tabs = [
        await enter(t, opened, "node", "bob"),
        await enter(t, opened, "node", "bob", { transports: ["sse"] }),
      ];
      await ann.sees("room:7", ["ann", "bob"]);
      await tabs[0].close();
      await ann.sees("room:7", ["ann", "bob"]);
      await tabs[1].close();
      await ann.sees("room:7", ["ann"]);
    });
  }
}

test("sends that an upgrade of the server meets are each posted once, in order", async (t) => {
  const opened = await open(t, "--client-send-rate=0");
  const ann = await enter(t, opened, "node", "ann");
  const bob = await enter(t, opened, "node", "bob", { transports: ["sse"] });
  let ended = false;
  const upgrade = opened.server.upgrade().then(() => (ended = true));
  let count = 0;
  while (!ended || count < 50) {
    await ann.send("room:7", count++);
  }
  await upgrade;
  const numbers = Array.from({ length: count }, (_, n) => n);
  assert.deepEqual(await bob.heard(count), numbers);
  assert.equal((await bob.told()).gaps, 0);
});

for (const transport of TRANSPORTS) {
  test(`past comes first over ${transport}, as much as is asked for`, async (t) => {
    const opened = await open(t);
    for (let n = 0; n < 5; n++) {
      await opened.server.send("room:7", n);
    }
    const options = { transports: [transport] };
    const last = await enter(t, opened, "node", "ann", { ...options, last: 2 });
    assert.deepEqual(await last.heard(2), [3, 4]);
    const all = await enter(t, opened, "node", "bob", { ...options, after: "earliest" });
    assert.deepEqual(await all.heard(5), [0, 1, 2, 3, 4]);
    await opened.server.send("room:7", 5);
    assert.deepEqual(await last.heard(3), [3, 4, 5]);
    assert.deepEqual(await all.heard(6), [0, 1, 2, 3, 4, 5]);
  });
}

/** Reads pages of two events of room 7, from the newest one to the oldest; the data of each. */
async function pagesOf(from: typeof history, url: string, token: string): Promise<unknown[][]> {
  const read = [];
  for await (const { events } of from(url, "room:7", { token, limit: 2, newestFirst: true })) {
    read.push(events.map(({ data }) => data));
  }
  return read;
}

for (const place of PLACES) {
  test(`${place} reads the past of a room in pages, if its token grants that`, async (t) => {
    const { pages, server, way } = await open(t);
    for (let n = 0; n < 5; n++) {
      await server.send("room:7", n);
    }
    const sign = (encke: object) => secret.sign({ sub: "ann", exp: IN_2100, encke });
    const page =
      place === "page" &&
      (await openPage(t, await openContext(t), `${pages.origin}/e2e/e2e/page.html`, {
        hosts: [new URL(way.origin).host],
        console: FAILED,
      }));
    const read = (token: string) => {
      if (!page) {
        return pagesOf(history, way.origin, token);
      }
      const code = `import("/e2e/dist/history.js").then(({ history }) =>
        (${pagesOf})(history, ${JSON.stringify(way.origin)}, ${JSON.stringify(token)}))`;
      return page.evaluate<unknown[][]>(code);
    };
    assert.deepEqual(await read(sign(GRANTED)), [[4, 3], [2, 1], [0]]);
    await assert.rejects(read(sign({ ...GRANTED, history: [] })), /encke\.history/);
  });
}

for (const worker of [undefined, false] as const) {
  test(`tab hears what another one sends, and not itself; worker: ${worker}`, async (t) => {
    const server = await Encke.start(t, "--client-send", "--client-send-rate=0");
    const front = await Front.start(t, server);
    const context = await openContext(t);
    const options = { ids: "room:7", shared: true, ...(worker === false && { worker }) };
    const tabs = [];
    for (let n = 0; n < 2; n++) {
      const tab = await openTab(t, front.origin, { console: FAILED }, Promise.resolve(context));
      await tab.listen(options);
      await tab.turned("open");
      tabs.push(tab);
    }
    assert.equal((await server.call("/stats")).connections_open, 1);
    for (let n = 0; n < 3; n++) {
      assert.equal(await tabs[0].send("room:7", `first ${n}`), 1);
    }
    assert.equal(await tabs[1].send("room:7", "second"), 1);
    assert.deepEqual(await tabs[1].heard(3), ["first 0", "first 1", "first 2"]);
    assert.deepEqual(await tabs[0].heard(1), ["second"]);
    // The one that keeps the connection goes, where a tab does.
    const sent = tabs[1].send("room:7", "on its way");
    await tabs[0].page.close();
    await sent;
    assert.deepEqual((await tabs[1].told()).gaps, 0);
  });
}
