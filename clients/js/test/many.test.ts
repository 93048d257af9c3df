/** More ids than an address holds, by each transport, against a scripted server. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { WebSocket as Outside } from "ws";
import { heard, listen, next, turned } from "./hear.js";
import { cursor, FakeServer, idle, message, refuse, type SocketHandler, stream } from "./server.js";

globalThis.WebSocket ??= Outside as unknown as typeof WebSocket;

/** The smallest bound on messages that the server can be started with. */
const MESSAGE_BYTES = 512;

/** Half of the server's bound on heads. */
const ADDRESS_CHARS = 4096;

const IDS = Array.from({ length: 1000 }, (_, n) => `room:${n}`);

/** The ids of an address, in their order. */
function idsOf(asked: string): string[] {
  const url = new URL(asked.split(" ")[1], "http://server.test");
  const [, , first] = url.pathname.split("/");
  return [decodeURIComponent(first), ...url.searchParams.getAll("id")];
}

/** Takes each login but for ids of that name, and notes what was said. */
function server(said: string[], bad = ""): SocketHandler {
  return (socket) => {
    socket.on("message", (text) => {
      said.push(String(text));
      const { ping, login, logout } = JSON.parse(String(text));
      const refused = { title: "Bad id", detail: "Write it another way." };
      const ok = ping ? { ping: 1, next: "04" } : { login, logout };
      socket.send(JSON.stringify(login?.includes(bad) ? { error: refused } : { ok }));
    });
  };
}

test("WebSocket opens with what fits and logs in the rest before it is open", async (t) => {
  const said: string[] = [];
  const fake = await FakeServer.start(t, { websocket: server(said) });
  const connection = listen(t, fake.url, { ids: IDS, transports: ["websocket"] });
  let gaps = 0;
  connection.on("gap", () => gaps++);
  await turned(connection, "open");
  const inAddress = idsOf(fake.asked[0]);
  assert.ok(fake.asked[0].length < ADDRESS_CHARS && inAddress.length > 200, fake.asked[0]);
  assert.ok(said.every((text) => Buffer.byteLength(text) <= MESSAGE_BYTES));
  assert.equal(said.at(-1), '{"ping":1}', "its answer says that all before it is done");
  const logins = said.slice(0, -1).flatMap((text) => JSON.parse(text).login);
  assert.deepEqual([...inAddress, ...logins], IDS);
  assert.equal(gaps, 0, "there was nothing to miss");
  fake.cut();
  await turned(connection, "waiting");
  await turned(connection, "open");
  assert.match(fake.asked[1], /last_event_id=04/);
  assert.equal(gaps, 1, "what came for the rest meanwhile is not caught up");
});

test("login of many goes in messages that the server takes", async (t) => {
  const said: string[] = [];
  const fake = await FakeServer.start(t, { websocket: server(said, "room:999") });
  const connection = listen(t, fake.url, { transports: ["websocket"] });
  await turned(connection, "open");
  assert.equal(await connection.login(...IDS.slice(0, 900)), true);
  const error = next(connection, "error");
  assert.equal(await connection.login(...IDS.slice(900)), false);
  assert.match((await error)[0].message, /another way/);
  assert.ok(said.every((text) => Buffer.byteLength(text) <= MESSAGE_BYTES));
  const logins = said.slice(1).flatMap((text) => JSON.parse(text).login);
  assert.deepEqual(logins, IDS);
});

test("id that is refused among the rest is an error, and the others stay", async (t) => {
  const said: string[] = [];
  const fake = await FakeServer.start(t, { websocket: server(said, "room:999") });
  const connection = listen(t, fake.url, { ids: IDS, transports: ["websocket"] });
  const error = next(connection, "error");
  await turned(connection, "open");
  assert.match((await error)[0].message, /another way/);
  said.length = 0;
  fake.cut();
  await turned(connection, "waiting");
  await turned(connection, "open");
  const again = said.slice(0, -1).flatMap((text) => JSON.parse(text).login);
  assert.ok(again.includes("room:900") && !again.includes("room:999"));
});

test("SSE takes as many as fit, says how many do not, and tries for all in time", async (t) => {
  let blocked = true;
  const said: string[] = [];
  const fake = await FakeServer.start(t, {
    websocket: (socket, ...asked) =>
      blocked ? socket.terminate() : server(said)(socket, ...asked),
    stream: (answer, ...request) => {
      stream(cursor("01"), message("02"))(answer, ...request);
      const again = setInterval(() => answer.write(":\n\n"), 10);
      answer.on("close", () => clearInterval(again));
    },
  });
  const now = performance.now.bind(performance);
  let later = 0;
  t.mock.method(performance, "now", () => now() + later);
  const connection = listen(t, fake.url, { ids: IDS, transports: ["websocket", "sse"] });
  const error = next(connection, "error");
  await turned(connection, "open");
  const inAddress = idsOf(fake.asked[1]);
  assert.match((await error)[0].message, new RegExp(`${IDS.length - inAddress.length} ids`));
  assert.equal(connection.transport, "sse");
  assert.equal(await connection.login("ann"), false, "there is no room for one more");
  blocked = false;
  later = 60_001;
  await turned(connection, "waiting");
  await turned(connection, "open");
  assert.equal(connection.transport, "websocket");
  const logins = said.slice(0, -1).flatMap((text) => JSON.parse(text).login);
  assert.deepEqual([...idsOf(fake.asked.at(-1)!), ...logins], [...IDS, "ann"]);
});

test("poll takes as many as fit and says how many do not", async (t) => {
  const fake = await FakeServer.start(t, { poll: idle("01") });
  const connection = listen(t, fake.url, { ids: IDS, transports: ["poll"] });
  const error = next(connection, "error");
  await turned(connection, "open");
  assert.match((await error)[0].message, /No room for \d+ ids/);
});

test("head that is too long all the same is made shorter, with one id it is refused", async (t) => {
  const tooLong = refuse(431, "Send fewer ids or smaller cookies.");
  const fake = await FakeServer.start(t, {
    stream: (answer, url, request) => {
      const handler = request.url!.length > 1000 ? tooLong : stream(cursor("01"), message("02"));
      handler(answer, url, request);
    },
    poll: tooLong,
  });
  const connection = listen(t, fake.url, { ids: IDS, transports: ["sse"] });
  const ids = heard(connection);
  await next(connection, "event");
  assert.deepEqual(ids, ["02"]);
  assert.equal(fake.asked.length, 3, "4,096, 2,048 and 1,024 characters, the host among them");
  const other = listen(t, fake.url, { ids: "bob", transports: ["poll"] });
  assert.match(String(await turned(other, "closed")), /smaller cookies/);
});
