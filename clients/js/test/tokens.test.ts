/** Tokens: how long each is kept, how it is shown, renewed and refused. */

import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { WebSocket as Outside } from "ws";
import { lastsMs, Tokens } from "../src/tokens.js";
import { listen, next, turned } from "./hear.js";
import { cursor, FakeServer, idle, inTurn, refuse, type SocketHandler, stream } from "./server.js";

globalThis.WebSocket ??= Outside as unknown as typeof WebSocket;

const SSE = { transports: ["sse"] as const };
const WEBSOCKET = { transports: ["websocket"] as const };

/** A token with these claims, whose signature nobody looks at. */
function jwt(claims: object): string {
  const part = (json: object) => Buffer.from(JSON.stringify(json)).toString("base64url");
  return `${part({ alg: "none" })}.${part(claims)}.c2lnbmF0dXJl`;
}

/** One that is good for so many seconds from now on. */
function lasting(seconds: number, more = {}): string {
  return jwt({ exp: Date.now() / 1000 + seconds, ...more });
}

/** Gives one token after the other, and counts. */
function source(...tokens: string[]) {
  const asked = { count: 0, token: () => tokens[Math.min(asked.count++, tokens.length - 1)] };
  return asked;
}

/** What a server was shown, request by request. */
async function watched(t: TestContext, ...handlers: Parameters<typeof inTurn>) {
  const shown: (string | undefined)[] = [];
  const answer = inTurn(...handlers);
  const server = await FakeServer.start(t, {
    stream: (response, url, request) => {
      shown.push(request.headers.authorization);
      answer(response, url, request);
    },
  });
  return { server, shown };
}

test("token is renewed when 10 % of its time is left, or 10 s", (t) => {
  t.mock.timers.enable({ apis: ["Date"], now: 1_000_000_000_000 });
  const random = t.mock.method(Math, "random", () => 0);
  const now = 1_000_000_000;
  const seconds = (claims: object) => lastsMs(jwt(claims)) / 1000;
  assert.equal(seconds({ exp: now + 600 }), 540);
  assert.equal(seconds({ iat: now - 300, exp: now + 300 }), 270);
  assert.equal(seconds({ exp: now + 40 }), 30);
  assert.equal(seconds({ exp: now + 4 }), 3, "a short one is not all margin");
  assert.equal(seconds({ exp: now + 1 }), 1, "nor asked for at every moment");
  assert.equal(seconds({ exp: now + 1e9 }), 86_400, "more than a timer holds");
  assert.equal(seconds({ iat: now + 7200, exp: now + 7800 }), 540, "the clock here is behind");
  assert.equal(seconds({ iat: now - 7800, exp: now - 7200 }), 540, "it is ahead");
  assert.equal(seconds({ exp: now + 600, name: "Zoë ¿ÿ>?" }), 540, "base64url of UTF-8");
  for (const token of ["opaque", "a.b.c", jwt({}), jwt({ exp: now - 1 }), jwt({ exp: "soon" })]) {
    assert.ok(Number.isNaN(lastsMs(token)), token);
  }
  random.mock.mockImplementation(() => 1);
  assert.equal(seconds({ exp: now + 600 }), 480, "a crowd is spread");
});

test("token that lasts is not asked for again, any other one is", async () => {
  const long = source(lasting(600));
  const tokens = new Tokens(long.token);
  assert.equal(await tokens.get(), await tokens.get());
  assert.equal(long.count, 1);
  tokens.refused();
  await tokens.get();
  assert.equal(long.count, 2);
  const opaque = source("one", "two");
  const others = new Tokens(opaque.token);
  assert.deepEqual([await others.get(), await others.get()], ["one", "two"]);
  assert.equal(await new Tokens().get(), "");
});

test("what is no token is said without showing it", async () => {
  for (const token of ["se cret", "secret\n", "secret,"]) {
    await assert.rejects(new Tokens(token).get(), (error: Error) => {
      assert.equal(error.message, "The token is no JWT");
      return true;
    });
  }
});

test("SSE and poll show the token as a header", async (t) => {
  const shown: string[] = [];
  const server = await FakeServer.start(t, {
    poll: (answer, url, request) => {
      shown.push(request.headers.authorization!);
      idle("04")(answer, url, request);
    },
  });
  const connection = listen(t, server.url, { token: "a.b.c", transports: ["poll"] });
  await turned(connection, "open");
  assert.equal(shown[0], "Bearer a.b.c");
  const { server: other, shown: header } = await watched(t, stream(cursor("04")));
  await turned(listen(t, other.url, { ...SSE, token: async () => "d.e.f" }), "open");
  assert.deepEqual(header, ["Bearer d.e.f"]);
  assert.ok(![...server.asked, ...other.asked].join().includes("token"), "not in the address");
});

test("refused token leads back to the first transport, not on to the last", async (t) => {
  const server = await FakeServer.start(t, {
    stream: inTurn(refuse(401, "It has expired."), stream(cursor("04"))),
  });
  const connection = listen(t, server.url, { token: source("a", "b").token });
  await turned(connection, "open");
  const ways = server.asked.map((asked) => asked.split(" ")[0]);
  assert.deepEqual(ways, ["websocket", "sse", "websocket", "sse"]);
});

test("source that fails or hangs is asked again", async (t) => {
  const { server, shown } = await watched(t, stream(cursor("04")));
  const answers = [
    () => Promise.reject(new Error("logged out here")),
    () => new Promise<string>(() => {}),
    async () => "a.b.c",
  ];
  const token = () => answers.shift()!();
  const connection = listen(t, server.url, { ...SSE, token, openMs: 1000 });
  assert.equal((await turned(connection, "waiting"))?.message, "logged out here");
  await turned(connection, "connecting");
  assert.equal((await turned(connection, "waiting"))?.message, "The server is silent");
  await turned(connection, "open");
  assert.deepEqual(shown, ["Bearer a.b.c"]);
});

test("source that fails while a stream is open is asked again, and the stream goes on", async (t) => {
  const { server, shown } = await watched(t, stream(cursor("04")));
  const [first, last] = [lasting(2), lasting(600)];
  const answers = [() => first, () => Promise.reject(new Error("not now")), () => last];
  const token = () => answers.shift()!();
  const connection = listen(t, server.url, { ...SSE, token, openMs: 1000 });
  const [error] = await next(connection, "error");
  assert.equal(error.message, "not now");
  assert.equal(connection.state, "open");
  await next(connection, "state", (state) => state === "open");
  assert.deepEqual(shown, [`Bearer ${first}`, `Bearer ${last}`]);
});

test("SSE is opened anew with the next token, where it is, before the last one ends", async (t) => {
  const { server, shown } = await watched(t, stream(cursor("04")));
  const tokens = [lasting(2), lasting(600)];
  const connection = listen(t, server.url, { ...SSE, token: source(...tokens).token });
  await turned(connection, "open");
  await turned(connection, "connecting");
  await turned(connection, "open");
  assert.deepEqual(shown, tokens.map((token) => `Bearer ${token}`));
  assert.equal(server.asked[1], "sse /stream/bob?last_event_id=04");
});

test("stream is not opened anew for the token that it has", async (t) => {
  const { server, shown } = await watched(t, stream(cursor("04")));
  const [first, last] = [lasting(3), lasting(600)];
  const asked = source(first, first, last);
  const connection = listen(t, server.url, { ...SSE, token: asked.token });
  await next(connection, "state", (state) => state === "open" && shown.length === 2);
  assert.deepEqual(shown, [`Bearer ${first}`, `Bearer ${last}`]);
  assert.equal(asked.count, 3);
});

/** A server that says what it hears, and answers tokens by `answer`. */
function sockets(said: unknown[], answer: (n: number) => object): SocketHandler {
  let renewals = 0;
  return (socket, _, request) => {
    said.push(request.headers["sec-websocket-protocol"]?.split(/, */).join(" "));
    socket.on("message", (text) => {
      const command = JSON.parse(String(text));
      if (command.token) {
        said.push(command.token);
        socket.send(JSON.stringify(answer(renewals++)));
      } else {
        socket.send(JSON.stringify({ ok: command.ping ? { ping: 1, next: "04" } : command }));
      }
    });
  };
}

test("WebSocket offers the token beside its protocol, and renews it in place", async (t) => {
  const said: unknown[] = [];
  const websocket = sockets(said, () => ({ ok: { token: true } }));
  const server = await FakeServer.start(t, { websocket });
  const tokens = [lasting(2), lasting(3), lasting(600)];
  const connection = listen(t, server.url, { ...WEBSOCKET, token: source(...tokens).token });
  const states: string[] = [];
  connection.on("state", (state) => states.push(state));
  await turned(connection, "open");
  while (said.length < 3) {
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  assert.deepEqual(said, [`encke encke.bearer.${tokens[0]}`, tokens[1], tokens[2]]);
  assert.deepEqual(states, ["open"]);
  assert.equal(await connection.login("ann"), true, "answers are told apart");
});

test("refused renewal is told and tried again while the stream goes on", async (t) => {
  const said: unknown[] = [];
  const problem = { title: "Unauthorized", status: 401, detail: "Its signature is wrong." };
  const websocket = sockets(said, (n) =>
    n ? { ok: { token: true } } : { error: problem, token: true },
  );
  const server = await FakeServer.start(t, { websocket });
  const tokens = [lasting(2), lasting(600), lasting(700)];
  const options = { ...WEBSOCKET, token: source(...tokens).token, openMs: 1000 };
  const connection = listen(t, server.url, options);
  const [error] = await next(connection, "error");
  assert.equal(error.message, "Unauthorized: Its signature is wrong.");
  assert.equal(connection.state, "open");
  const login = connection.login("ann");
  while (said.length < 3) {
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  assert.deepEqual(said.slice(1), tokens.slice(1));
  assert.equal(connection.state, "open");
  assert.equal(await login, true);
});

test("WebSocket that ends with its token comes back with another one", async (t) => {
  const said: unknown[] = [];
  const usual = sockets(said, () => ({}));
  const server = await FakeServer.start(t, {
    websocket: (socket, url, request) => {
      usual(socket, url, request);
      if (said.length === 1) {
        socket.on("message", () => socket.close(3000, "token_expired"));
      }
    },
  });
  const connection = listen(t, server.url, { ...WEBSOCKET, token: source("a.a.a", "b.b.b").token });
  const why = await turned(connection, "waiting");
  assert.equal(why?.message, "WebSocket closed: 3000 token_expired");
  assert.equal(why?.status, 401);
  await next(connection, "state", (state) => state === "open");
  assert.deepEqual(said.slice(0, 2), ["encke encke.bearer.a.a.a", "encke encke.bearer.b.b.b"]);
});

test("WebSocket alone that is refused asks for another token, since it cannot hear why", async (t) => {
  const server = await FakeServer.start(t, {});
  const asked = source(lasting(600));
  const connection = listen(t, server.url, { ...WEBSOCKET, token: asked.token });
  for (let n = 1; n < 4; n++) {
    await next(connection, "state", (state) => state === "waiting");
    assert.equal(asked.count, n);
  }
  assert.equal(connection.state, "waiting");
});

test("no error shows a token", async (t) => {
  const { server } = await watched(t, refuse(401, "It has expired."));
  const token = lasting(600, { sub: "bob" });
  const words: string[] = [];
  const connection = listen(t, server.url, { token, retryMaxMs: 1 });
  connection.on("state", (_, why) => words.push(`${why} ${JSON.stringify(why)} ${why?.stack}`));
  connection.on("error", (why) => words.push(`${why} ${JSON.stringify(why)} ${why.stack}`));
  await turned(connection, "closed");
  assert.ok(words.length > 2 && !words.join().includes(token.slice(0, 12)), words.join());
});
