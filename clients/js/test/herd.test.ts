/** What keeps a crowd from coming back at one moment, and from asking a full server twice. */

import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { WebSocket as Outside } from "ws";
import { connect, type Connection, type Failure, type Options, type State } from "../src/index.js";
import { listen, turned } from "./hear.js";
import {
  answers,
  cursor,
  FakeServer,
  type Handler,
  idle,
  inTurn,
  refuse,
  type SocketHandler,
  stream,
} from "./server.js";

globalThis.WebSocket ??= Outside as unknown as typeof WebSocket;

/** Connects with the waits that pages have, by a clock that the test moves. */
function watched(t: TestContext, url: string, options: Partial<Options>): Connection {
  t.mock.method(Math, "random", () => 0.5);
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const connection = connect(url, { ids: "bob", ...options });
  t.after(() => connection.close());
  return connection;
}

/** The next time that it comes to that state; by no clock, since the test holds that. */
function comes(connection: Connection, wanted: State): Promise<Failure | undefined> {
  return new Promise((resolve) => {
    const off = connection.on("state", (state, why) => {
      if (state === wanted) {
        off();
        // The wait begins when the listeners have been told.
        setImmediate(() => resolve(why));
      }
    });
  });
}

/** It waits for so long from now on, and not a millisecond less. */
async function waits(t: TestContext, connection: Connection, ms: number): Promise<void> {
  t.mock.timers.tick(ms - 1);
  await new Promise(setImmediate);
  assert.equal(connection.state, "waiting", `before ${ms} ms`);
  const connecting = comes(connection, "connecting");
  t.mock.timers.tick(1);
  await connecting;
}

/** Once it is open its stream is cut again and again, and it is open again after these times. */
async function comesBackAfter(
  t: TestContext,
  server: FakeServer,
  connection: Connection,
  times: number[],
): Promise<void> {
  await comes(connection, "open");
  for (const ms of times) {
    const lost = comes(connection, "waiting");
    server.cut();
    await lost;
    const open = comes(connection, "open");
    await waits(t, connection, ms);
    await open;
  }
}

/** Tells when to come back, and may close a moment after the stream is open. */
function telling(retry: number, code?: number): SocketHandler {
  return (socket) => {
    socket.send(JSON.stringify({ next: "01", connection: "c1", retry }));
    socket.on("message", () => socket.send('{"ok":{"ping":1,"next":"01"}}'));
    if (code) {
      socket.once("message", () => setImmediate(() => socket.close(code)));
    }
  };
}

/** Takes the stream and ends it in good order. */
const brief: Handler = (answer) => {
  answer.writeHead(200, { "content-type": "text/event-stream" });
  answer.end(cursor("01"));
};

test("full server is asked once more after what it said and as long again", async (t) => {
  const server = await FakeServer.start(t, {
    stream: inTurn(refuse(503, "Full.", { "retry-after": "7" }), stream(cursor("01"))),
    poll: refuse(500, "It is not to be asked."),
  });
  const connection = watched(t, server.url, { transports: ["sse", "poll"] });
  const open = comes(connection, "open");
  assert.equal((await comes(connection, "waiting"))?.retryAfterMs, 7000);
  await waits(t, connection, 7000 + 3500);
  await open;
  assert.deepEqual(server.asked, ["sse /stream/bob", "sse /stream/bob"]);
});

test("full server that says nothing is asked by one transport and left alone", async (t) => {
  const server = await FakeServer.start(t, {
    stream: inTurn(refuse(503, "Full."), refuse(429, "Too often."), stream(cursor("01"))),
    poll: refuse(500, "It is not to be asked."),
  });
  const connection = watched(t, server.url, { transports: ["sse", "poll"] });
  const open = comes(connection, "open");
  await comes(connection, "waiting");
  for (const ms of [5000 + 2500, 5000 + 2500]) {
    const again = comes(connection, "waiting");
    await waits(t, connection, ms);
    await Promise.race([again, open]);
  }
  await open;
  assert.deepEqual(server.asked, Array(3).fill("sse /stream/bob"));
});

test("connection that is closed when it says that it waits leaves no timer", async (t) => {
  const server = await FakeServer.start(t, {
    stream: refuse(503, "Full.", { "retry-after": "86400" }),
  });
  const timers = () => process.getActiveResourcesInfo().filter((name) => name === "Timeout").length;
  const connection = listen(t, server.url, { transports: ["sse"] });
  const left = new Promise<number>((resolve) => {
    connection.on("state", (state) => {
      if (state === "waiting") {
        connection.close();
        const before = timers();
        setImmediate(() => resolve(timers() - before));
      }
    });
  });
  assert.equal(await left, 0);
  assert.equal(connection.state, "closed");
});

test("transport that has worked is tried again after a wait before others are", async (t) => {
  let up = true;
  const server = await FakeServer.start(t, {
    stream: (...request) => (up ? stream(cursor("01")) : refuse(502, "Gone."))(...request),
    poll: idle("01"),
  });
  const connection = listen(t, server.url, { transports: ["sse", "poll"] });
  await turned(connection, "open");
  const states: string[] = [];
  connection.on("state", (state) => states.push(`${state} ${connection.transport}`));
  up = false;
  server.cut();
  await turned(connection, "waiting");
  await turned(connection, "open");
  assert.deepEqual(states, [
    "waiting sse",
    "connecting sse",
    "waiting sse",
    "connecting sse",
    "open poll",
  ]);
});

test("crowd whose server shut down comes back over the longest wait", async (t) => {
  const server = await FakeServer.start(t, {
    stream: brief,
    poll: answers([], "01"),
    websocket: (socket) => {
      socket.on("message", () => socket.send('{"ok":{"ping":1,"next":"01"}}'));
      socket.once("message", () => setImmediate(() => socket.close(1001, "shutdown")));
    },
  });
  for (const transport of ["websocket", "sse", "poll"] as const) {
    await t.test(transport, async (t) => {
      const connection = watched(t, server.url, { transports: [transport] });
      await comes(connection, "waiting");
      await waits(t, connection, 15_000);
    });
  }
});

test("crowd comes back as its server has told, and then over times that double", async (t) => {
  const told = `retry: 1234\n${cursor("01")}`;
  const server = await FakeServer.start(t, { stream: stream(told) });
  const connection = watched(t, server.url, { transports: ["sse"], openMs: 1e9, silenceMs: 0 });
  // One that ends at once again and again is not what was told for.
  await comesBackAfter(t, server, connection, [1234, 1000]);
});

test("crowd that polls comes back as its server has told, however that ends", async (t) => {
  const told = { "encke-retry": "1234" };
  const ends: [string, Handler][] = [
    // A poll that waits is answered empty before its time.
    ["in order", answers([], "01", told)],
    ["by a loss", (answer) => answer.destroy()],
  ];
  for (const [how, end] of ends) {
    await t.test(how, async (t) => {
      const server = await FakeServer.start(t, { poll: inTurn(answers([], "01", told), end) });
      const connection = watched(t, server.url, { transports: ["poll"] });
      await comes(connection, "waiting");
      await waits(t, connection, 1234);
    });
  }
});

/** Far beyond what a test lasts. */
const NEVER_MS = 1e9;

test("crowd over WebSocket comes back when its server has told, however it ends", async (t) => {
  for (const code of [undefined, 1001]) {
    const server = await FakeServer.start(t, { websocket: telling(5, code) });
    const waits = { retryMs: NEVER_MS, retryMaxMs: NEVER_MS };
    const connection = listen(t, server.url, { transports: ["websocket"], ...waits });
    await turned(connection, "open");
    if (!code) {
      server.cut();
    }
    await turned(connection, "waiting");
    await turned(connection, "open");
    connection.close();
  }
});

test("who is sent to another node comes at once, whatever it was told before", async (t) => {
  const server = await FakeServer.start(t, { websocket: telling(NEVER_MS / 2, 1012) });
  const connection = listen(t, server.url, { transports: ["websocket"], retryMaxMs: NEVER_MS });
  await turned(connection, "waiting");
  await turned(connection, "open");
});

test("wait that is longer than the page allows is a random one below that", async (t) => {
  const sse = stream(`retry: ${NEVER_MS}\n${cursor("01")}`);
  const server = await FakeServer.start(t, { stream: sse, websocket: telling(NEVER_MS) });
  for (const transport of ["websocket", "sse"] as const) {
    const connection = listen(t, server.url, { transports: [transport] });
    await turned(connection, "open");
    server.cut();
    await turned(connection, "waiting");
    await turned(connection, "open");
    connection.close();
  }
});

test("crowd that is told to wait for longer than it may comes back over all it may", async (t) => {
  const told = `retry: 60000\n${cursor("01")}`;
  const server = await FakeServer.start(t, { stream: stream(told) });
  const connection = watched(t, server.url, { transports: ["sse"], openMs: 1e9, silenceMs: 0 });
  await comesBackAfter(t, server, connection, [15_000]);
});

test("crowd whose server died comes back over times that double", async (t) => {
  const server = await FakeServer.start(t, { stream: stream(cursor("01")) });
  const connection = watched(t, server.url, { transports: ["sse"], openMs: 1e9, silenceMs: 0 });
  await comesBackAfter(t, server, connection, [500, 1000, 2000, 4000, 8000, 15_000, 15_000]);
});
