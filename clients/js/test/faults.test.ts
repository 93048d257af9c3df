/** Servers and proxies that break the rules: words that are no JSON, ends that are none. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { WebSocket as Outside } from "ws";
import { heard, listen, next, turned } from "./hear.js";
import {
  answers,
  cursor,
  FakeServer,
  type Handler,
  idle,
  inTurn,
  message,
  stream,
} from "./server.js";

globalThis.WebSocket ??= Outside as unknown as typeof WebSocket;

const BAD = "{broken";

/** A poll's answer that is no JSON. */
const badPoll: Handler = (answer) => {
  answer.writeHead(200, { "content-type": "application/json", "encke-next": "04" });
  answer.end(BAD);
};

/** The first stream says something that is no JSON between two events; the next is whole. */
const SCRIPT = {
  stream: inTurn(
    stream(cursor("01"), message("02"), `id: 03\ndata: ${BAD}\n\n`, message("04")),
    stream(cursor("02"), message("03"), message("04")),
  ),
  poll: inTurn(
    answers([], "01"),
    answers(["02"], "02"),
    badPoll,
    answers(["03", "04"], "04"),
    idle("04"),
  ),
};

for (const transport of ["websocket", "sse", "poll"] as const) {
  test(`${transport} that brings no JSON is an error, and nothing is lost by it`, async (t) => {
    let times = 0;
    const server = await FakeServer.start(t, {
      ...SCRIPT,
      websocket: (socket) => {
        const event = (id: string) => JSON.stringify({ id, about: "bob", data: null });
        const all = times++ ? [event("03"), event("04")] : [event("02"), BAD, event("04")];
        socket.on("message", () => {
          socket.send('{"ok":{"ping":1,"next":"01"}}');
          all.forEach((text) => socket.send(text));
        });
      },
    });
    const connection = listen(t, server.url, { transports: [transport] });
    const ids = heard(connection);
    const errors: Error[] = [];
    connection.on("error", (error) => errors.push(error));
    await next(connection, "event", ({ id }) => id === "04");
    assert.deepEqual(ids, ["02", "03", "04"]);
    assert.equal(errors.length, 1);
    assert.match(errors[0].message, /JSON/);
    assert.equal(connection.state, "open", "it goes on");
    assert.match(server.asked.at(-1)!, /(last_event_id|after)=0[24]/);
  });
}

test("WebSocket that brings what nobody knows is none the worse for it", async (t) => {
  const server = await FakeServer.start(t, {
    websocket: (socket) => {
      socket.on("message", (text) => {
        const { ping, login } = JSON.parse(String(text));
        socket.send('{"news":"of a later version"}');
        const ok = ping ? { ping, next: "01" } : { login };
        socket.send(JSON.stringify(login?.[0] === "eve" ? { error: {} } : { ok }));
      });
    },
  });
  const connection = listen(t, server.url, { transports: ["websocket"] });
  await turned(connection, "open");
  assert.equal(await connection.login("ann"), true);
  assert.equal(await connection.login("eve"), false, "news are no answer");
});

test("close code 1000 without the server's own word is a lost stream", async (t) => {
  const server = await FakeServer.start(t, {
    websocket: (socket, url) => {
      socket.on("message", () => {
        socket.send('{"ok":{"ping":1,"next":"04"}}');
        if (!url.searchParams.get("last_event_id")) {
          socket.close(1000, "idle timeout");
        }
      });
    },
  });
  const connection = listen(t, server.url, { transports: ["websocket"] });
  assert.match(String(await turned(connection, "waiting")), /1000 idle timeout/);
  await turned(connection, "open");
  assert.equal(server.asked[1], "websocket /stream/bob?last_event_id=04");
});
