/** Who is in a room, as a scripted server says it. */

import assert from "node:assert/strict";
import type { ServerResponse } from "node:http";
import { test, type TestContext } from "node:test";
import { type WebSocket as Socket, WebSocket as Outside } from "ws";
import type { Members } from "../src/index.js";
import { DEADLINE_MS, listen, next, turned } from "./hear.js";
import { cursor, FakeServer, idle, inTurn, stream } from "./server.js";

globalThis.WebSocket ??= Outside as unknown as typeof WebSocket;

const WEBSOCKET = { transports: ["websocket"] as const };

/** Waits for the next change. */
const changed = (members: Members) =>
  new Promise<void>((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error("no change")), DEADLINE_MS);
    const off = members.on("change", () => {
      clearTimeout(timer);
      off();
      resolve();
    });
  });

/** A server that answers the `turn`th stream's question for members with these words. */
async function telling(t: TestContext, tell: (say: (words: object) => void, turn: number) => void) {
  const asked: string[] = [];
  let turn = 0;
  let left = (_: object) => {};
  const unwatched = new Promise<object>((resolve) => (left = resolve));
  const sockets: Socket[] = [];
  const server = await FakeServer.start(t, {
    websocket: (socket) => {
      const now = ++turn;
      sockets.push(socket);
      socket.on("message", (text) => {
        const { ping, members, ...other } = JSON.parse(String(text));
        if (ping) {
          socket.send('{"ok":{"ping":1,"next":"01"}}');
        } else if (!members) {
          left(other);
        } else {
          asked.push(members);
          tell((words) => socket.send(JSON.stringify(words)), now);
        }
      });
    },
  });
  const say = (words: object) => sockets.at(-1)!.send(JSON.stringify(words));
  return { server, asked, unwatched, say };
}

/** All that a set tells, in words. */
function diary(members: Members): string[] {
  const told: string[] = [];
  members.on("join", ({ id, info }) => told.push(`+${id}${info ?? ""}`));
  members.on("leave", ({ id }) => told.push(`-${id}`));
  members.on("change", ({ count, list }) => told.push(`${list.map(({ id }) => id)} ${count}`));
  return told;
}

const OF = { of: "room:7" };
const BOB = { id: "bob", info: 1 };

test("members are the list, and those who join and leave", async (t) => {
  const { server, say } = await telling(t, (say) =>
    say({ members: { ...OF, count: 1, list: [BOB] } }),
  );
  const members = listen(t, server.url, WEBSOCKET).members<number>("room:7");
  assert.deepEqual([members.of, members.list, members.isKnown], ["room:7", [], false]);
  const told = diary(members);
  await changed(members);
  assert.equal(members.isKnown, true);
  const first = members.list;
  say({ joined: { ...OF, id: "ann" } });
  await changed(members);
  assert.notEqual(members.list, first, "a list that was had stays as it was");
  say({ joined: { ...OF, id: "bob", info: 2 } });
  await changed(members);
  assert.deepEqual(members.list, [{ id: "bob", info: 2 }, { id: "ann" }]);
  say({ left: { ...OF, id: "bob" } });
  await changed(members);
  say({ joined: { of: "another", id: "eve" } });
  say({ left: { ...OF, id: "ann" } });
  await changed(members);
  assert.deepEqual(told, [
    ...["+bob1", "bob 1", "+ann", "bob,ann 2", "bob,ann 2", "-bob", "ann 1", "-ann", " 0"],
  ]);
});

test("list of a stream that came back is told as those who differ", async (t) => {
  const lists = [[BOB, { id: "ann" }], [{ id: "ann" }, { id: "eve" }]];
  const { server, asked } = await telling(t, (say, turn) =>
    say({ members: { ...OF, count: 2, list: lists[turn - 1] } }),
  );
  const members = listen(t, server.url, WEBSOCKET).members("room:7");
  const told = diary(members);
  await changed(members);
  server.cut();
  await changed(members);
  assert.deepEqual(told, ["+bob1", "+ann", "bob,ann 2", "-bob", "+eve", "ann,eve 2"]);
  assert.deepEqual(asked, ["room:7", "room:7"]);
});

test("too many are a count alone, until there is a list again", async (t) => {
  const { server, say } = await telling(t, (say) =>
    say({ members: { ...OF, count: 1, list: [BOB] } }),
  );
  const members = listen(t, server.url, WEBSOCKET).members("room:7");
  const told = diary(members);
  await changed(members);
  for (const words of [
    { joined: { ...OF, count: 1001 } },
    { members: { ...OF, count: 1002 } },
    { left: { ...OF, count: 1001 } },
    { members: { ...OF, count: 1, list: [BOB] } },
  ]) {
    say(words);
    await changed(members);
  }
  assert.deepEqual(told, ["+bob1", "bob 1", " 1001", " 1002", " 1001", "+bob1", "bob 1"]);
});

test("sets of one room are asked for once, and a later one knows what the first does", async (t) => {
  const { server, asked, unwatched, say } = await telling(t, (say) =>
    say({ members: { ...OF, count: 1, list: [BOB] } }),
  );
  const connection = listen(t, server.url, WEBSOCKET);
  const first = connection.members("room:7");
  await changed(first);
  const second = connection.members("room:7");
  assert.deepEqual([second.list, second.isKnown], [[BOB], true]);
  first.stop();
  say({ left: { ...OF, id: "bob" } });
  await changed(second);
  assert.deepEqual([first.count, second.count], [1, 0]);
  second.stop();
  // Its answer is none to what else is asked.
  const login = connection.login("ann");
  assert.deepEqual(await unwatched, { unwatch: "room:7" });
  say({ ok: { unwatch: "room:7" } });
  say({ error: { title: "Bad id", status: 400, detail: "Write another one." } });
  assert.equal(await login, false);
  server.cut();
  await turned(connection, "waiting");
  await turned(connection, "open");
  assert.deepEqual(asked, ["room:7"], "nobody looks at it any more");
});

test("rooms stand in the address of SSE, which is opened again for a later one", async (t) => {
  const list = `data: ${JSON.stringify({ members: { ...OF, count: 1, list: [BOB] } })}\n\n`;
  const server = await FakeServer.start(t, { stream: stream(cursor("01"), list) });
  const connection = listen(t, server.url, { transports: ["sse"] });
  const members = connection.members("room:7");
  await changed(members);
  assert.deepEqual(members.list, [BOB]);
  const other = connection.members(8);
  await changed(members);
  assert.deepEqual([other.of, other.isKnown], ["8", false]);
  members.stop();
  const again = connection.members("room:7");
  await changed(again);
  assert.deepEqual(again.list, [BOB]);
  assert.deepEqual(server.asked, [
    "sse /stream/bob?members=room%3A7",
    "sse /stream/bob?last_event_id=01&members=room%3A7&members=8",
    "sse /stream/bob?last_event_id=01&members=8&members=room%3A7",
  ]);
});

test("rooms stand in the address of a poll, with the place that the one before has told", async (t) => {
  const told = (place: string, ...messages: object[]) => (answer: ServerResponse) => {
    const head = { "content-type": "application/json", "encke-next": "01" };
    answer.writeHead(200, { ...head, "encke-members": place });
    answer.end(JSON.stringify(messages));
  };
  const server = await FakeServer.start(t, {
    poll: inTurn(
      told("aa", { members: { ...OF, count: 1, list: [BOB] } }),
      told("aa", { id: "01", about: "bob", data: null }),
      told("bb", { joined: { ...OF, id: "ann" } }, { left: { ...OF, id: "bob" } }),
      idle("01"),
    ),
  });
  const connection = listen(t, server.url, { transports: ["poll"] });
  const members = connection.members("room:7");
  const seen = diary(members);
  await changed(members);
  // The two of the last answer come together.
  await changed(members);
  assert.deepEqual(seen, ["+bob1", "bob 1", "+ann", "bob,ann 2", "-bob", "ann 1"]);
  assert.deepEqual(server.asked.slice(0, 3), [
    "poll /poll/bob?members=room%3A7&wait=0",
    "poll /poll/bob?after=01&members=room%3A7&wait=20&members_after=aa",
    "poll /poll/bob?after=01&members=room%3A7&wait=20&members_after=aa",
  ]);
});

test("refused room is an error, and one that finds the server busy is asked for again", async (t) => {
  const error = { title: "Forbidden", status: 403, detail: "Have it granted." };
  const busy = { title: "Service Unavailable", status: 503, detail: "Later.", retry_after: 0 };
  let tries = 0;
  const { server, asked } = await telling(t, (say) => {
    if (asked.at(-1) === "no") {
      say({ error, members: "no" });
    } else {
      const list = { members: { ...OF, count: 1, list: [BOB] } };
      say(++tries < 2 ? { error: busy, members: "room:7" } : list);
    }
  });
  const connection = listen(t, server.url, WEBSOCKET);
  const refusal = next(connection, "error", ({ status }) => status === 403);
  connection.members("no");
  assert.match((await refusal)[0].message, /Have it granted/);
  const members = connection.members("room:7");
  await changed(members);
  assert.deepEqual([members.list, asked], [[BOB], ["no", "room:7", "room:7"]]);
});
