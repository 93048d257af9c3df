/** The past of an id in pages, against a scripted server. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { history, type HistoryOptions, type HistoryPage } from "../src/history.js";
import { FakeServer, type Handler, refuse } from "./server.js";

/** Events `from` to `to`, as pages have them. */
const events = (from: number, to: number) =>
  Array.from({ length: to - from + 1 }, (_, n) => ({ id: `0${from + n}`, about: "a", data: n }));

const page = (of: object): Handler => (answer) => answer.end(JSON.stringify(of));

/** All pages, in their order. */
async function all(url: string, id: string | number, options?: HistoryOptions) {
  const pages: HistoryPage[] = [];
  for await (const page of history(url, id, options)) {
    pages.push(page);
  }
  return pages;
}

test("pages follow one another in the order that is asked for, up to the last", async (t) => {
  const answers = [
    { events: events(1, 2), next: "02" },
    { events: events(3, 3), next: null, gap: true },
  ];
  for (const newestFirst of [false, true]) {
    const left = [...answers];
    const stream: Handler = (answer, ...rest) => page(left.shift()!)(answer, ...rest);
    const server = await FakeServer.start(t, { stream });
    const pages = await all(server.url, "room:7", { limit: 2, after: "00", newestFirst });
    assert.deepEqual(
      pages.map(({ events, gap }) => [events.map(({ id }) => id), gap]),
      [[["01", "02"], false], [["03"], true]],
    );
    const path = "/events/room%3A7?after=00&limit=2";
    assert.deepEqual(
      server.asked.map((asked) => asked.replace("sse ", "")),
      newestFirst
        ? [`${path}&order=desc`, `${path}&order=desc&before=02`]
        : [path, "/events/room%3A7?after=02&limit=2"],
    );
  }
});

test("page that nobody wants is not asked for", async (t) => {
  const server = await FakeServer.start(t, { stream: page({ events: events(1, 1), next: "01" }) });
  for await (const { events } of history(server.url, 7)) {
    assert.equal(events[0].id, "01");
    break;
  }
  assert.deepEqual(server.asked, ["sse /events/7"]);
});

test("busy server is asked again when it says so, and not for ever", async (t) => {
  let busy = 2;
  const stream: Handler = (answer, ...rest) =>
    busy-- > 0
      ? answer.writeHead(busy ? 429 : 503, { "retry-after": "0.001" }).end()
      : page({ events: [], next: null })(answer, ...rest);
  const server = await FakeServer.start(t, { stream });
  assert.deepEqual(await all(server.url, "a"), [{ events: [], gap: false }]);
  assert.equal(server.asked.length, 3);
  busy = Infinity;
  await assert.rejects(all(server.url, "a"), { status: 429 });
  assert.equal(server.asked.length, 8);
});

test("token is shown, and another one is asked for when it has ended", async (t) => {
  const shown: unknown[] = [];
  const stream: Handler = (answer, url, request) => {
    shown.push(request.headers.authorization);
    const isGood = shown.at(-1) === "Bearer t2";
    const handler = isGood ? page({ events: [], next: null }) : refuse(401, "It has ended.");
    handler(answer, url, request);
  };
  const server = await FakeServer.start(t, { stream });
  let tokens = 0;
  await all(server.url, "a", { token: () => `t${++tokens}` });
  assert.deepEqual(shown, ["Bearer t1", "Bearer t2"]);
  // One that does better is not there: what the server says is heard after the second.
  await assert.rejects(all(server.url, "a", { token: () => `t${++tokens}` }), { status: 401 });
  assert.deepEqual(shown.slice(2), ["Bearer t3", "Bearer t4"]);
  await assert.rejects(all(server.url, "a", { token: "t9" }), { status: 401 });
  assert.equal(shown.length, 5);
});

test("refusal is told in the server's words, at once", async (t) => {
  const server = await FakeServer.start(t, { stream: refuse(403, "Not your room.") });
  await assert.rejects(all(server.url, "a"), { status: 403, message: /Not your room/ });
  assert.equal(server.asked.length, 1);
});
