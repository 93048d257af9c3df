/** What the connection does about failures, on SSE and long poll against a scripted server. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { connect } from "../src/index.js";
import { heard, listen, next, turned } from "./hear.js";
import {
  answers,
  cursor,
  FakeServer,
  type Handler,
  idle,
  inTurn,
  message,
  refuse,
  stream,
} from "./server.js";

const SSE = { transports: ["sse"] as const };

test("events come in order, and the address has all ids", async (t) => {
  const server = await FakeServer.start(t, { stream: stream(cursor("01"), message("02", [1])) });
  const connection = listen(t, `${server.url}push?key=x`, { ...SSE, ids: ["photo:789", "a+b", 7] });
  const [event] = await next(connection, "event");
  assert.deepEqual(event, { id: "02", about: "bob", data: [1] });
  assert.deepEqual(server.asked, ["sse /push/stream/photo%3A789?key=x&id=a%2Bb&id=7"]);
  assert.equal(connection.cursor, "02");
});

test("events that come twice are dropped", async (t) => {
  const server = await FakeServer.start(t, {
    stream: inTurn(
      stream(cursor("01"), message("02")),
      stream(message("01"), message("02"), message("03")),
    ),
  });
  const connection = listen(t, server.url, SSE);
  const ids = heard(connection);
  await next(connection, "event");
  const third = next(connection, "event");
  server.cut();
  assert.ok(await turned(connection, "waiting"), "says why");
  await third;
  assert.deepEqual(ids, ["02", "03"]);
  assert.deepEqual(server.asked, ["sse /stream/bob", "sse /stream/bob?last_event_id=02"]);
});

test("stream lost before its first event is resumed where it began", async (t) => {
  const server = await FakeServer.start(t, { stream: stream(cursor("01")) });
  const connection = listen(t, server.url, SSE);
  await turned(connection, "open");
  server.cut();
  await turned(connection, "waiting");
  await turned(connection, "open");
  assert.equal(server.asked[1], "sse /stream/bob?last_event_id=01");
});

test("refusal closes the connection and says what to do", async (t) => {
  const words = "An id has 1 to 255 bytes.";
  const server = await FakeServer.start(t, { stream: refuse(400, words) });
  const connection = listen(t, server.url, SSE);
  const error = next(connection, "error");
  const why = await turned(connection, "closed");
  assert.equal((await error)[0], why);
  assert.equal(why?.message, `Refused: ${words}`);
  assert.equal(why?.status, 400);
  assert.equal(server.asked.length, 1, "it is not asked again");
});

test("refusal that nobody listens for is printed", async (t) => {
  const print = t.mock.method(console, "error", () => {});
  const server = await FakeServer.start(t, { stream: refuse(403, "List the origin.") });
  const connection = connect(server.url, { ids: "bob", ...SSE });
  await turned(connection, "closed");
  assert.match(String(print.mock.calls[0].arguments[0]), /List the origin/);
});

/** A refusal as others word it: an ingress, a gateway, a page that asks for a login. */
const FOREIGN: [string, Handler][] = [
  ["page", refuse(404, "", { "content-type": "text/html" })],
  ["fault", refuse(502, "Bad gateway.", { "content-type": "text/html" })],
  ["401", refuse(401, "Who are you?", { "content-type": "text/html" })],
];

for (const [name, foreign] of FOREIGN) {
  test(`refusal that is not the server's own passes: ${name}`, async (t) => {
    const all = [...Array(5).fill(foreign), stream(cursor("01"))];
    const server = await FakeServer.start(t, { stream: inTurn(...all) });
    const connection = listen(t, server.url, SSE);
    const errors: (number | undefined)[] = [];
    const waits: (number | undefined)[] = [];
    connection.on("error", ({ status }) => errors.push(status));
    connection.on("state", (state, why) => state === "waiting" && waits.push(why?.status));
    await turned(connection, "open");
    const status = waits[0]!;
    assert.deepEqual(waits, Array(5).fill(status), "it says each time why it waits");
    assert.deepEqual(errors, status < 500 ? [status] : [], "and once that it is refused");
  });
}

test("transport that fails at once is followed by the next, which is remembered", async (t) => {
  const server = await FakeServer.start(t, {
    stream: refuse(502, "A proxy does not like it."),
    poll: inTurn(answers([], "01"), answers(["02"], "02"), idle("02")),
  });
  const options = { transports: ["sse", "poll"] as const };
  const connection = listen(t, server.url, options);
  const states: string[] = [];
  connection.on("state", (state) => states.push(state));
  await next(connection, "event");
  assert.equal(connection.transport, "poll");
  assert.deepEqual(states, ["open"], "without a wait between");
  const second = listen(t, server.url, options);
  assert.equal(second.transport, "poll");
  await second[Symbol.asyncIterator]().return!();
  const [first, ...polls] = server.asked;
  assert.equal(first, "sse /stream/bob");
  assert.deepEqual(polls.slice(0, 2), [
    "poll /poll/bob?wait=0",
    "poll /poll/bob?after=01&wait=20",
  ]);
});

test("transport that takes the request and holds the stream back is followed by the next", async (t) => {
  const silent = { "content-type": "text/event-stream" };
  const server = await FakeServer.start(t, {
    stream: (answer) => answer.writeHead(200, silent).flushHeaders(),
    poll: idle("01"),
  });
  const connection = listen(t, server.url, { transports: ["sse", "poll"], openMs: 200 });
  await turned(connection, "open");
  assert.equal(connection.transport, "poll");
});

test("stream that falls silent is left and resumed", async (t) => {
  const server = await FakeServer.start(t, { stream: stream(message("02")) });
  const connection = listen(t, server.url, { ...SSE, silenceMs: 1000 });
  await turned(connection, "open");
  assert.match(String(await turned(connection, "waiting")), /silent/);
  await turned(connection, "open");
  assert.equal(server.asked[1], "sse /stream/bob?last_event_id=02");
});

test("login and logout open the stream again with the ids and the cursor", async (t) => {
  const server = await FakeServer.start(t, { stream: stream(cursor("01"), message("02")) });
  const connection = listen(t, server.url, SSE);
  await next(connection, "event");
  assert.equal(await connection.login("ann", 7), true);
  assert.equal(await connection.login("bob"), true, "that is known");
  assert.equal(await connection.logout("bob", "ann"), true);
  assert.deepEqual(server.asked.slice(1), [
    "sse /stream/bob?last_event_id=02&id=ann&id=7",
    "sse /stream/7?last_event_id=02",
  ]);
  assert.equal(await connection.logout(7), false);
  assert.equal(connection.state, "closed", "nobody is left");
});

test("poll goes on at the cursor, says gaps, and hears events once", async (t) => {
  const server = await FakeServer.start(t, {
    poll: inTurn(
      answers([], "01"),
      answers(["02", "03"], "03"),
      answers(["03", "04"], "04"),
      answers(["06"], "06", { "encke-gap": "true" }),
      idle("06"),
    ),
  });
  const connection = listen(t, server.url, { transports: ["poll"] });
  const ids = heard(connection);
  const gap = next(connection, "gap");
  await next(connection, "event", ({ id }) => id === "06");
  await gap;
  assert.deepEqual(ids, ["02", "03", "04", "06"]);
  assert.deepEqual(server.asked.slice(0, 3), [
    "poll /poll/bob?wait=0",
    "poll /poll/bob?after=01&wait=20",
    "poll /poll/bob?after=03&wait=20",
  ]);
});

test("poll that is answered at once with nothing is not repeated at full speed", async (t) => {
  const server = await FakeServer.start(t, { poll: answers([], "01") });
  const connection = listen(t, server.url, { transports: ["poll"] });
  assert.match(String(await turned(connection, "waiting")), /server ended it/);
  assert.equal(server.asked.length, 2);
});

test("poll that waits and is told of a gap goes on at once behind it", async (t) => {
  const gap = answers([], "09", { "encke-gap": "true" });
  const polls = [answers([], "01"), gap, answers(["0a"], "0a"), idle("0a")];
  const server = await FakeServer.start(t, { poll: inTurn(...polls) });
  const connection = listen(t, server.url, { transports: ["poll"] });
  const states: string[] = [];
  connection.on("state", (state) => states.push(state));
  const said = next(connection, "gap");
  await next(connection, "event");
  await said;
  assert.deepEqual(server.asked.slice(0, 3), [
    "poll /poll/bob?wait=0",
    "poll /poll/bob?after=01&wait=20",
    "poll /poll/bob?after=09&wait=20",
  ]);
  assert.deepEqual(states, ["open"]);
});

test("gap in the middle of a stream is said, and the place behind it counts", async (t) => {
  const gap = "event: gap\ndata: {}\n\n";
  const all = stream(cursor("01"), message("02"), gap, cursor("09"), message("0a"));
  const server = await FakeServer.start(t, { stream: all });
  const connection = listen(t, server.url, SSE);
  const [ids, said] = [heard(connection), next(connection, "gap")];
  await next(connection, "event", ({ id }) => id === "0a");
  await said;
  assert.deepEqual([ids, connection.cursor], [["02", "0a"], "0a"]);
});

test("loop over a connection gets what comes meanwhile and ends with it", async (t) => {
  const events = [message("02"), message("03"), message("04")];
  const server = await FakeServer.start(t, { stream: stream(cursor("01"), ...events) });
  const connection = listen(t, server.url, SSE);
  const ids: string[] = [];
  for await (const { id } of connection) {
    ids.push(id);
    if (id === "04") {
      connection.close();
    }
  }
  assert.deepEqual(ids, ["02", "03", "04"]);
});

test("loop over a refused connection throws what to do", async (t) => {
  const server = await FakeServer.start(t, { stream: refuse(400, "Give another id.") });
  const connection = listen(t, server.url, SSE);
  await assert.rejects(async () => {
    for await (const event of connection) {
      assert.fail(`heard ${event.id}`);
    }
  }, /Give another id/);
});

test("loop that begins after a refusal throws what to do", async (t) => {
  const server = await FakeServer.start(t, { stream: refuse(400, "Give another id.") });
  const connection = listen(t, server.url, SSE);
  await turned(connection, "closed");
  for (let times = 0; times < 2; times++) {
    await assert.rejects(connection[Symbol.asyncIterator]().next(), /Give another id/);
  }
});

test("loop that begins after close ends at once", async (t) => {
  const server = await FakeServer.start(t, { stream: stream(cursor("01")) });
  const connection = listen(t, server.url, SSE);
  await turned(connection, "open");
  connection.close();
  assert.equal((await connection[Symbol.asyncIterator]().next()).done, true);
});

test("login by a listener loses nothing that came in the same read", async (t) => {
  const server = await FakeServer.start(t, {
    stream: inTurn(
      stream(cursor("01"), message("02"), message("03")),
      stream(cursor("02"), message("03")),
    ),
    poll: inTurn(answers([], "01"), answers(["02", "03"], "03"), answers(["03"], "03"), idle("03")),
  });
  for (const transport of ["sse", "poll"] as const) {
    const connection = listen(t, server.url, { transports: [transport] });
    const ids = heard(connection);
    const third = next(connection, "event", ({ id }) => id === "03");
    await next(connection, "event", () => {
      void connection.login("ann");
      return true;
    });
    await third;
    assert.deepEqual(ids, ["02", "03"], transport);
  }
  assert.equal(server.asked[1], "sse /stream/bob?last_event_id=02&id=ann");
});

test("listener that is taken away hears nothing more", async (t) => {
  const server = await FakeServer.start(t, {
    stream: stream(cursor("01"), message("02"), message("03")),
  });
  const connection = listen(t, server.url, SSE);
  const ids: string[] = [];
  const off = connection.on("event", ({ id }) => {
    ids.push(id);
    off();
  });
  await next(connection, "event", ({ id }) => id === "03");
  assert.deepEqual(ids, ["02"]);
});

test("closed connection asks no more and lets the process end", async (t) => {
  const server = await FakeServer.start(t, { stream: stream(cursor("01")) });
  const connection = listen(t, server.url, SSE);
  await turned(connection, "open");
  connection.close();
  connection.close();
  assert.equal(connection.state, "closed");
  assert.equal(await connection.login("ann"), false);
  assert.equal(server.asked.length, 1);
});

test("connection needs an id, and a transport that is there", () => {
  assert.throws(() => connect("http://server.test", { ids: [] }), /Give an id/);
  assert.throws(() => connect("http://server.test", { ids: 1, transports: [] }), /transport/);
});
