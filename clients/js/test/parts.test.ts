/** The parts that need no server: waits, cursors, ids, and SSE split at every byte. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { backoffMs, MOST_TRIES } from "../src/backoff.js";
import { Cursor } from "../src/cursor.js";
import { refusal } from "../src/failure.js";
import type { Link } from "../src/link.js";
import { SpokenIds } from "../src/spoken.js";
import { sse } from "../src/sse.js";

test("wait is random below a ceiling that doubles up to the most", (t) => {
  t.mock.method(Math, "random", () => 0.5);
  const waits = [0, 1, 2, 3, 10, 2000].map((tries) => backoffMs(tries, 1000, 30_000));
  assert.deepEqual(waits, [500, 1000, 2000, 4000, 15_000, 15_000]);
  t.mock.method(Math, "random", () => 0);
  assert.equal(backoffMs(5, 1000, 30_000), 0, "full jitter begins at nothing");
  assert.equal(backoffMs(5, 1000, 30_000, 5000), 5000, "what the server asks for is the least");
});

test("wait that the server asked a whole crowd for spreads it over as long again", (t) => {
  t.mock.method(Math, "random", () => 0.5);
  assert.equal(backoffMs(0, 1000, 30_000, 5000), 7500);
  assert.equal(backoffMs(9, 1000, 30_000, 5000), 20_000, "failures spread it further");
  assert.equal(backoffMs(0, 1000, 30_000, 3_600_000), 3_615_000, "an hour is not two");
  assert.equal(backoffMs(MOST_TRIES, 1000, 30_000), 15_000);
});

test("retry-after is read in seconds, and bounded by what a timer holds", async () => {
  const asked = async (status: number, after?: string) => {
    const headers: HeadersInit = after ? { "retry-after": after } : {};
    return (await refusal(new Response("", { status, headers }))).retryAfterMs;
  };
  assert.equal(await asked(503, "7"), 7000);
  assert.equal(await asked(503, "99999999"), 86_400_000);
  assert.equal(await asked(503), 5000, "one that says nothing is full all the same");
  assert.equal(await asked(503, "-7"), 5000, "no wait ends before it has begun");
  assert.equal(await asked(429, "Fri, 31 Dec 1999 23:59:59 GMT"), 5000);
  assert.equal(await asked(502), 0);
});

test("cursor passes each id once and after a gap any", () => {
  const cursor = new Cursor("0005");
  assert.deepEqual(["0004", "0005", "0006", "0006", ""].map((id) => cursor.pass(id)), [
    false,
    false,
    true,
    false,
    false,
  ]);
  cursor.gap();
  assert.equal(cursor.at, "0006", "the old one stays until another comes");
  assert.equal(cursor.pass("0001"), true, "another server counts from elsewhere");
  assert.equal(cursor.pass("0001"), false);
});

test("ids said to the stream are answered in order, refused ones are forgotten", async () => {
  const ids = new SpokenIds(["a", 7]);
  const said: object[] = [];
  ids.speak((words) => said.push(words));
  const reopen = () => assert.fail("the stream can be told");
  const taken = [
    ids.change("login", ["b"], reopen),
    ids.change("login", ["c", "a"], reopen),
    ids.change("logout", ["7"], reopen),
    ids.change("login", ["a"], reopen),
  ];
  assert.deepEqual(said, [{ login: ["b"] }, { login: ["c"] }, { logout: ["7"] }]);
  ids.answered();
  ids.answered(new Error("no"));
  ids.answered();
  assert.deepEqual(await Promise.all(taken), [true, false, true, true]);
  assert.deepEqual(ids.all, ["a", "b"]);
});

/** What the reader of SSE tells, as lines, when the body comes in these pieces. */
async function told(t: { mock: typeof test.mock }, pieces: Uint8Array[]): Promise<string[]> {
  const body = new ReadableStream({
    start(controller) {
      pieces.forEach((piece) => controller.enqueue(piece));
      controller.close();
    },
  });
  const headers = { "content-type": "text/event-stream" };
  t.mock.method(globalThis, "fetch", async () => new Response(body, { headers }));
  const lines: string[] = [];
  const link = {
    shared: { openMs: 0, silenceMs: 0 },
    url: () => new URL("http://server.test"),
    watch() {},
    opened() {},
    event: (event: object) => lines.push(`event ${JSON.stringify(event)}`),
    gap: () => lines.push("gap"),
    parsed: JSON.parse,
    heard: (id?: string | null) => id && lines.push(`heard ${id}`),
  };
  await sse(link as unknown as Link);
  return lines;
}

test("sse is read the same wherever its bytes are split", async (t) => {
  const text = [
    "id: 01\n\n",
    ":\n\n",
    "event: gap\ndata: {}\n\n",
    'id: 02\ndata: {"id":"02","about":"bob","data":"ä: 🚀"}\n\n',
    'id: 03\ndata: {"id":"03","about":"b:o","data":null}\n\n',
    "id: 04\ndata: broken off",
  ].join("");
  const bytes = new TextEncoder().encode(text);
  const expected = [
    "heard 01",
    "gap",
    'event {"id":"02","about":"bob","data":"ä: 🚀"}',
    "heard 02",
    'event {"id":"03","about":"b:o","data":null}',
    "heard 03",
  ];
  for (let at = 0; at <= bytes.length; at++) {
    const pieces = [bytes.slice(0, at), bytes.slice(at)];
    assert.deepEqual(await told(t, pieces), expected, `split at ${at}`);
  }
  assert.deepEqual(await told(t, [...bytes].map((byte) => Uint8Array.of(byte))), expected);
});
