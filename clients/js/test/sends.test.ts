/** What a client sends, against a scripted server: once, in order, and answered. */

import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { type WebSocket as Socket, WebSocket as Outside } from "ws";
import { heard, listen, next, turned } from "./hear.js";
import { cursor, FakeServer, idle, refuse, stream } from "./server.js";

globalThis.WebSocket ??= Outside as unknown as typeof WebSocket;

const WEBSOCKET = { transports: ["websocket"] as const };
const SSE = { transports: ["sse"] as const };

/** Takes one `send` of a WebSocket, with the number that its answer repeats. */
type Take = (body: any, answer: (words: object) => void, socket: Socket) => void;

/** A server whose WebSockets take sends; `told` are those that came, in order. */
async function taking(t: TestContext, take: Take) {
  const told: any[] = [];
  const server = await FakeServer.start(t, {
    websocket: (socket, url) => {
      if (url.searchParams.get("next") === "1") {
        socket.send('{"next":"01","connection":"c1"}');
      }
      socket.on("message", (text) => {
        const { ping, send, ref } = JSON.parse(String(text));
        if (ping) {
          socket.send('{"ok":{"ping":1,"next":"01"}}');
        } else {
          told.push(send);
          take(send, (words) => socket.send(JSON.stringify({ ...words, ref })), socket);
        }
      });
    },
  });
  return { server, told };
}

/** Posts all; each is delivered to as many as its payload says. */
const posts: Take = ({ data }, answer) => answer({ ok: { id: `0${data}`, delivered: data } });

/** An event as the server tells it to its own sender. */
const event = (id: string, data: unknown) =>
  JSON.stringify({ id, about: "room:7", event: "said", from: "bob", data });

test("sends over an open WebSocket are said in order, and each is answered", async (t) => {
  const { server, told } = await taking(t, posts);
  const connection = listen(t, server.url, WEBSOCKET);
  await turned(connection, "open");
  assert.equal(connection.id, "c1");
  const sent = await Promise.all([
    connection.send("room:7", 2, { event: "said" }),
    connection.send(["room:7", 9, "9"], 3, { echo: true, key: "mine" }),
  ]);
  assert.deepEqual(sent, [{ id: "02", delivered: 2 }, { id: "03", delivered: 3 }]);
  const { key, ...first } = told[0];
  assert.ok(key);
  assert.deepEqual(first, { about: ["room:7"], event: "said", data: 2 });
  assert.deepEqual(told[1], { about: ["room:7", "9"], data: 3, key: "mine", echo: true });
});

test("payload is as it was when it was sent, and nothing is null", async (t) => {
  const { server, told } = await taking(t, (_, answer) => answer({ ok: { id: "02", delivered: 0 } }));
  const connection = listen(t, server.url, WEBSOCKET);
  const data = { at: 1 };
  const sent = [connection.send("a", data), connection.send("a", undefined)];
  data.at = 2;
  await Promise.all(sent);
  assert.deepEqual(told.map(({ data }) => data), [{ at: 1 }, null]);
});

test("refused send rejects with the problem, and the stream stays", async (t) => {
  const error = { title: "Forbidden", status: 403, detail: "Have it granted." };
  const { server } = await taking(t, ({ about }, answer) =>
    answer(about[0] === "no" ? { error } : { ok: { id: "02", delivered: 1 } }),
  );
  const connection = listen(t, server.url, WEBSOCKET);
  await turned(connection, "open");
  await assert.rejects(connection.send("no", 1), { status: 403, message: /Have it granted/ });
  assert.equal((await connection.send("yes", 1)).delivered, 1);
  assert.equal(server.asked.length, 1);
});

test("rate limit refuses who sends now, and paces what waited", async (t) => {
  const error = { title: "Too Many Requests", status: 429, detail: "Later.", retry_after: 0.01 };
  let refusals = 0;
  const { server, told } = await taking(t, ({ data }, answer) =>
    answer(data > 0 && ++refusals % 2 ? { error } : { ok: { id: "02", delivered: data } }),
  );
  const connection = listen(t, server.url, WEBSOCKET);
  const waited = [connection.send("a", 1), connection.send("a", 2)];
  assert.deepEqual((await Promise.all(waited)).map(({ delivered }) => delivered), [1, 2]);
  assert.ok(told.length > 2, "one was said again");
  refusals = 0;
  await assert.rejects(connection.send("a", 3), { status: 429, retryAfterMs: 10 });
});

test("what was not answered is said again with its key, and then what waited", async (t) => {
  let isMute = true;
  const { server, told } = await taking(t, (body, answer, socket) =>
    isMute ? socket.terminate() : posts(body, answer, socket),
  );
  const connection = listen(t, server.url, WEBSOCKET);
  await turned(connection, "open");
  const first = connection.send("a", 1);
  await turned(connection, "waiting");
  isMute = false;
  const second = connection.send("a", 2);
  assert.deepEqual([(await first).delivered, (await second).delivered], [1, 2]);
  assert.deepEqual(told.map(({ data }) => data), [1, 1, 2]);
  assert.equal(told[0].key, told[1].key);
  assert.notEqual(told[1].key, told[2].key);
});

test("stream that does not answer a send is left, however much is sent", async (t) => {
  const isDead = (socket: Socket) => socket === first;
  let first: Socket | undefined;
  const { server, told } = await taking(t, (body, answer, socket) => {
    first ??= socket;
    if (!isDead(socket)) {
      posts(body, answer, socket);
    }
  });
  const connection = listen(t, server.url, { ...WEBSOCKET, openMs: 1000, queueMs: 0 });
  await turned(connection, "open");
  const sent = [connection.send("a", 1)];
  const timer = setInterval(() => sent.length < 90 && sent.push(connection.send("a", 1)), 50);
  const why = await turned(connection, "waiting");
  clearInterval(timer);
  assert.match(String(why), /silent/);
  assert.ok(sent.length < 90);
  await Promise.all(sent);
  assert.equal(new Set(told.map(({ key }) => key)).size, sent.length);
});

test("send that a server which stops cannot take is said again to it", async (t) => {
  let tries = 0;
  const error = { title: "Service Unavailable", status: 503, detail: "Again.", retry_after: 0 };
  const { server, told } = await taking(t, (body, answer, socket) =>
    ++tries < 3 ? answer({ error }) : posts(body, answer, socket),
  );
  const connection = listen(t, server.url, WEBSOCKET);
  assert.equal((await connection.send("a", 1)).delivered, 1);
  assert.deepEqual(new Set(told.map(({ key }) => key)).size, 1);
});

test("queue has a bound and an age, and ends with the connection", async (t) => {
  const server = await FakeServer.start(t, { websocket: () => {} });
  const connection = listen(t, server.url, { ...WEBSOCKET, queueMax: 3, queueMs: 50 });
  const old = connection.send("a", 1);
  const young = connection.send("a", 2, { queueMs: 0 });
  const own = connection.send("a", 3, { queueMs: 20 });
  await assert.rejects(connection.send("a", 4), /3 sends wait/);
  await assert.rejects(own, /No answer within 20 ms/);
  await assert.rejects(old, /No answer within 50 ms/);
  connection.close();
  await assert.rejects(young, /closed/);
  await assert.rejects(connection.send("a", 5), /closed/);
});

test("what is late tells why it was refused before", async (t) => {
  const error = { title: "Service Unavailable", status: 503, detail: "It is full.", retry_after: 60 };
  const { server } = await taking(t, (_, answer) => answer({ error }));
  const connection = listen(t, server.url, { ...WEBSOCKET, queueMs: 100 });
  await assert.rejects(connection.send("a", 1), { status: 503, message: /It is full/ });
});

test("beside SSE each send is a request, one at a time, without its own stream", async (t) => {
  const told: any[] = [];
  const shown: (string | undefined)[] = [];
  let open = 0;
  const server = await FakeServer.start(t, {
    stream: (answer) => {
      answer.writeHead(200, { "content-type": "text/event-stream", "encke-connection": "c2" });
      answer.write(cursor("01"));
    },
    send: (answer, body, { headers }) => {
      assert.equal(++open, 1, "the one before was answered");
      told.push(body);
      shown.push(headers.authorization);
      setImmediate(() => {
        open--;
        answer.writeHead(200, { "content-type": "application/json" });
        answer.end(JSON.stringify({ id: `0${told.length}`, delivered: told.length }));
      });
    },
  });
  const connection = listen(t, server.url, { ...SSE, token: "a.b.c" });
  const sent = [
    connection.send("a", 1, { event: "said" }),
    connection.send("a", 2, { echo: true }),
    connection.send("a", 3),
  ];
  assert.deepEqual((await Promise.all(sent)).map(({ delivered }) => delivered), [1, 2, 3]);
  assert.equal(connection.id, "c2");
  assert.deepEqual(told.map(({ key, ...body }) => (assert.ok(key), body)), [
    { about: ["a"], event: "said", data: 1, except: "c2" },
    { about: ["a"], data: 2 },
    { about: ["a"], data: 3, except: "c2" },
  ]);
  assert.deepEqual(shown, Array(3).fill("Bearer a.b.c"));
});

test("refused and failed requests reject and are repeated as frames are", async (t) => {
  const keys: string[] = [];
  const server = await FakeServer.start(t, {
    stream: stream(cursor("01")),
    send: (answer, { key, data }, request) => {
      keys.push(key);
      if (data === "long") {
        refuse(413, "Send less.")(answer, new URL("http://server.test"), request);
      } else if (keys.length < 2) {
        answer.destroy();
      } else if (keys.length < 3) {
        refuse(503, "Stopping.", { "retry-after": "0.001" })(answer, new URL("http://s.test"), request);
      } else {
        answer.writeHead(200, { "content-type": "application/json" }).end('{"id":"02","delivered":1}');
      }
    },
  });
  const connection = listen(t, server.url, SSE);
  await turned(connection, "open");
  assert.equal((await connection.send("a", "short")).delivered, 1);
  assert.deepEqual([keys.length, new Set(keys).size], [3, 1]);
  await assert.rejects(connection.send("a", "long"), { status: 413, message: /Send less/ });
});

test("long payload beside a WebSocket goes by a request, which can refuse it in words", async (t) => {
  let size = 0;
  const server = await FakeServer.start(t, {
    websocket: (socket) => {
      socket.on("message", () => socket.send('{"ok":{"ping":1,"next":"01"}}'));
    },
    send: (answer, { data }) => {
      size = data.length;
      answer.writeHead(200, { "content-type": "application/json" }).end('{"id":"02","delivered":1}');
    },
  });
  const connection = listen(t, server.url, WEBSOCKET);
  await connection.send("a", "x".repeat(20_000));
  assert.equal(size, 20_000);
});

test("own event that comes back is not heard, before its answer or behind it", async (t) => {
  const { server } = await taking(t, ({ data }, answer, socket) => {
    const sent = { id: data.late ? "02" : "05", delivered: 1 };
    if (data.late) {
      answer({ ok: sent });
      socket.send(event("02", data));
      socket.send(event("03", "of another"));
    } else {
      // One of somebody else's that reads like it comes first.
      socket.send(event("04", data));
      socket.send(event("05", data));
      answer({ ok: sent });
      socket.send(event("06", data));
    }
  });
  const connection = listen(t, server.url, WEBSOCKET);
  const ids = heard(connection);
  const last = next(connection, "event", ({ id }) => id === "06");
  await connection.send("room:7", { late: true }, { event: "said" });
  await connection.send("room:7", { late: false }, { event: "said" });
  await last;
  assert.deepEqual(ids, ["03", "04", "06"]);
});

test("own event that a resume brings before its send is said again is not heard", async (t) => {
  let isBack = false;
  const server = await FakeServer.start(t, {
    websocket: (socket) => {
      if (isBack) {
        socket.send(event("02", 1));
        socket.send(event("03", "of another"));
      }
      socket.on("message", (text) => {
        const { ping, ref } = JSON.parse(String(text));
        if (ping) {
          socket.send('{"ok":{"ping":1,"next":"01"}}');
        } else if (isBack) {
          socket.send(JSON.stringify({ ok: { id: "02", delivered: 1 }, ref }));
        } else {
          isBack = true;
          socket.terminate();
        }
      });
    },
  });
  const connection = listen(t, server.url, WEBSOCKET);
  const ids = heard(connection);
  assert.equal((await connection.send("room:7", 1, { event: "said" })).id, "02");
  assert.deepEqual(ids, ["03"]);
});

test("event that may be its own is heard after all when the send fails", async (t) => {
  const error = { title: "Forbidden", status: 403, detail: "No." };
  const { server } = await taking(t, ({ data }, answer, socket) => {
    socket.send(event("02", data));
    answer({ error });
  });
  const connection = listen(t, server.url, WEBSOCKET);
  const ids = heard(connection);
  await assert.rejects(connection.send("room:7", 1, { event: "said" }), { status: 403 });
  assert.deepEqual(ids, ["02"]);
});

test("poll that brings an own event back does not tell it, with echo it does", async (t) => {
  const waiting: (() => void)[] = [];
  let id = 1;
  const server = await FakeServer.start(t, {
    poll: (answer, url, request) => {
      if (url.searchParams.get("wait") === "0") {
        idle("01")(answer, url, request);
      } else {
        waiting.push(() => {
          const event = { id: `0${id}`, about: "bob", data: null };
          answer.writeHead(200, { "content-type": "application/json", "encke-next": event.id });
          answer.end(JSON.stringify([event]));
        });
      }
    },
    send: async (answer, body) => {
      assert.equal(body.except, undefined);
      id++;
      waiting.shift()?.();
      answer.writeHead(200, { "content-type": "application/json" });
      answer.end(JSON.stringify({ id: `0${id}`, delivered: 1 }));
    },
  });
  const connection = listen(t, server.url, { transports: ["poll"] });
  const ids = heard(connection);
  await turned(connection, "open");
  await connection.send("bob", null);
  const second = next(connection, "event");
  const echoed = async () => {
    while (!waiting.length) {
      await new Promise(setImmediate);
    }
    await connection.send("bob", null, { echo: true });
  };
  await Promise.all([second, echoed()]);
  assert.deepEqual(ids, ["03"]);
});

test("events are heard by their names, and those without one", async (t) => {
  const told: string[] = [];
  const named = (id: string, event?: string) =>
    `id: ${id}\ndata: ${JSON.stringify({ id, about: "bob", event, data: null })}\n\n`;
  const server = await FakeServer.start(t, {
    stream: stream(named("02", "typing"), named("03"), named("04", "said"), named("05", "typing")),
  });
  const connection = listen(t, server.url, SSE);
  connection.on("event:typing", ({ id, event }) => told.push(`${event} ${id}`));
  connection.on("event:", ({ id }) => told.push(id));
  await next(connection, "event", ({ id }) => id === "05");
  await new Promise(setImmediate);
  assert.deepEqual(told, ["typing 02", "03", "typing 05"]);
});

test("first stream begins in the past, and later ones at the cursor", async (t) => {
  for (const [options, asked] of [
    [{ last: 50 }, "last=50"],
    [{ after: "earliest", last: 50 }, "last_event_id=earliest"],
  ] as const) {
    const server = await FakeServer.start(t, {
      stream: (answer, url, request) => {
        const isFirst = !url.searchParams.get("last_event_id")?.startsWith("0");
        stream(...(isFirst ? ["id: 02\ndata: ", event("02", null), "\n\n"] : []))(
          answer,
          url,
          request,
        );
      },
    });
    const connection = listen(t, server.url, { ...SSE, ...options });
    await next(connection, "event", ({ id }) => id === "02");
    server.cut();
    await turned(connection, "waiting");
    assert.equal(connection.cursor, "02");
    while (server.asked.length < 2) {
      await next(connection, "state");
    }
    assert.deepEqual(server.asked.slice(0, 2), [
      `sse /stream/bob?${asked}`,
      "sse /stream/bob?last_event_id=02",
    ]);
  }
});

