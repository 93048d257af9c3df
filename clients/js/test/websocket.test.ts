/** WebSocket against a scripted server, by the platform's class, or `ws` where it has none. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { WebSocket as Outside } from "ws";
import { heard, listen, next, turned } from "./hear.js";
import { cursor, FakeServer, inTurn, refuse, type SocketHandler, stream } from "./server.js";

globalThis.WebSocket ??= Outside as unknown as typeof WebSocket;

const WEBSOCKET = { transports: ["websocket"] as const };

/** Answers commands as the server does, but for those that `special` takes. */
function serve(
  now: string,
  special: (command: { [name: string]: string[] }) => object | void = () => {},
): SocketHandler {
  return (socket) => {
    socket.on("message", (text) => {
      const command = JSON.parse(String(text));
      const usual = command.ping ? { ok: { ping: 1, next: now } } : { ok: command };
      socket.send(JSON.stringify(special(command) ?? usual));
    });
  };
}

test("stream is open when a ping is answered, and resumes after that", async (t) => {
  const server = await FakeServer.start(t, { websocket: serve("04") });
  const connection = listen(t, server.url, WEBSOCKET);
  await turned(connection, "open");
  assert.equal(connection.cursor, "04");
  server.cut();
  await turned(connection, "waiting");
  await turned(connection, "open");
  assert.deepEqual(server.asked, [
    "websocket /stream/bob",
    "websocket /stream/bob?last_event_id=04",
  ]);
});

test("events and gaps are heard, doubles are not", async (t) => {
  const event = (id: string) => JSON.stringify({ id, about: "bob", data: { gap: true } });
  const server = await FakeServer.start(t, {
    websocket: (socket, ...asked) => {
      serve("04")(socket, ...asked);
      socket.send(event("05"));
      socket.send(event("05"));
      socket.send('{"gap":true}');
      socket.send(event("02"));
      socket.send(event("03"));
    },
  });
  const connection = listen(t, server.url, WEBSOCKET);
  const ids = heard(connection);
  const gap = next(connection, "gap");
  await next(connection, "event", ({ id }) => id === "03");
  await gap;
  assert.deepEqual(ids, ["05", "02", "03"]);
});

test("login and logout go over the open stream", async (t) => {
  const refused = { title: "Bad id", status: 400, detail: "Write it without a slash." };
  const server = await FakeServer.start(t, {
    websocket: serve("04", ({ login }) =>
      login?.includes("a/b") ? { error: refused } : undefined,
    ),
  });
  const connection = listen(t, server.url, WEBSOCKET);
  await turned(connection, "open");
  assert.equal(await connection.login("ann"), true);
  const error = next(connection, "error");
  assert.equal(await connection.login("a/b"), false);
  assert.equal((await error)[0].message, "Bad id: Write it without a slash.");
  assert.equal(await connection.logout("bob"), true);
  assert.equal(connection.state, "open");
  server.cut();
  await turned(connection, "waiting");
  await turned(connection, "open");
  assert.deepEqual(server.asked.slice(1), ["websocket /stream/ann?last_event_id=04"]);
});

test("login before the stream is open goes with its address", async (t) => {
  const server = await FakeServer.start(t, { websocket: serve("04") });
  const connection = listen(t, server.url, WEBSOCKET);
  assert.equal(await connection.login("ann"), true);
  assert.equal(server.asked.at(-1), "websocket /stream/bob?id=ann");
});

test("silent stream is asked, and left when it does not answer", async (t) => {
  let most = 0;
  const server = await FakeServer.start(t, {
    websocket: (socket) => {
      let pings = 0;
      socket.on("message", () => {
        // The first two of a connection are answered, so silence alone ends nothing.
        most = Math.max(most, pings + 1);
        if (++pings < 3) {
          socket.send('{"ok":{"ping":1,"next":"04"}}');
        }
      });
    },
  });
  const connection = listen(t, server.url, { ...WEBSOCKET, silenceMs: 3000 });
  await turned(connection, "open");
  assert.match(String(await turned(connection, "waiting")), /silent/);
  assert.equal(most, 3);
});

test("blocked WebSocket is followed by SSE", async (t) => {
  const server = await FakeServer.start(t, { stream: stream(cursor("01")) });
  const connection = listen(t, server.url, { transports: ["websocket", "sse"] });
  await turned(connection, "open");
  assert.equal(connection.transport, "sse");
  assert.deepEqual(server.asked, ["websocket /stream/bob", "sse /stream/bob"]);
});

test("WebSocket whose frames are swallowed is followed by SSE", async (t) => {
  const server = await FakeServer.start(t, { websocket: () => {}, stream: stream(cursor("01")) });
  const connection = listen(t, server.url, { transports: ["websocket", "sse"], openMs: 300 });
  await turned(connection, "open");
  assert.equal(connection.transport, "sse");
});

test("reason of a refused handshake is heard by SSE", async (t) => {
  const server = await FakeServer.start(t, { stream: inTurn(refuse(403, "List the origin.")) });
  const connection = listen(t, server.url, { transports: ["websocket", "sse"] });
  assert.match(String(await turned(connection, "closed")), /List the origin/);
});

test("client that the application logged out does not come back", async (t) => {
  const server = await FakeServer.start(t, {
    websocket: (socket, ...asked) => {
      serve("04", ({ login }) => {
        if (login) {
          socket.close(1000, "logged_out");
        }
      })(socket, ...asked);
    },
  });
  const connection = listen(t, server.url, WEBSOCKET);
  await turned(connection, "open");
  void connection.login("ann");
  assert.match(String(await turned(connection, "closed")), /1000 logged_out/);
});
