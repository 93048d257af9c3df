/** Every case of `clients/cases` that is about streams, which the other clients run as well. */

import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { backoffMs } from "../src/backoff.js";
import { connect } from "../src/index.js";
import type { BaseConnection, EnckeEvent, Failure, Options } from "../src/index.js";
import { connect as connectSmall } from "../src/only-sse.js";
import { type Answer, eachCase, play, recordWaits, subjects } from "./cases.js";
import { FakeServer } from "./server.js";

/** Those that are run here, and those of the API, which a page does not call. */
const RUN = ["addresses", "lines", "refusals", "resumes", "tokens", "waits"];
const OF_BACKENDS = ["send_streams", "sends"];

/** What is tried, each time with both entries of the package. */
const ENTRIES: [string, (url: string, options: Options) => BaseConnection][] = [
  ["encke", (url, options) => connect(url, { ...options, transports: ["sse"] })],
  ["encke/sse", connectSmall],
];

test("each file of cases is run", () => {
  assert.deepEqual(subjects().sort(), [...RUN, ...OF_BACKENDS].sort());
});

interface WaitCase {
  tries: number;
  first_ms: number;
  most_ms: number;
  asked_ms: number;
  chance: number;
  wait_ms: number;
}

const WAIT = ["tries", "first_ms", "most_ms", "asked_ms", "chance", "wait_ms"] as const;

eachCase<WaitCase>("waits", WAIT, (t, one) => {
  t.mock.method(Math, "random", () => one.chance);
  assert.equal(backoffMs(one.tries, one.first_ms, one.most_ms, one.asked_ms), one.wait_ms);
});

interface LineCase {
  sse: string[];
  ndjson: string[];
  told: (EnckeEvent | "gap")[];
  place: string;
  fails?: string;
}

/** The bytes at each place in two, and byte by byte. */
function* splits(bytes: Uint8Array): Generator<Uint8Array[]> {
  for (let at = 0; at <= bytes.length; at++) {
    yield [bytes.slice(0, at), bytes.slice(at)];
  }
  yield [...bytes].map((byte) => Uint8Array.of(byte));
}

eachCase<LineCase>("lines", ["sse", "ndjson", "told", "place", "fails"], async (t, one) => {
  const headers = { "content-type": "text/event-stream", "encke-next": "01" };
  let body: ReadableStream;
  t.mock.method(globalThis, "fetch", async () => new Response(body, { headers }));
  for (const pieces of splits(new TextEncoder().encode(one.sse.join("\n")))) {
    body = new ReadableStream({
      start(controller) {
        pieces.forEach((piece) => controller.enqueue(piece));
        controller.close();
      },
    });
    const told: LineCase["told"] = [];
    const connection = connectSmall("http://server.test", { ids: "bob", retryMs: 1e9 });
    t.after(() => connection.close());
    connection.on("error", () => {});
    connection.on("event", ({ id, about, also, event, from, data }) => {
      const further = { ...(also && { also }), ...(event && { event }), ...(from && { from }) };
      told.push({ id, about, data, ...further });
    });
    connection.on("gap", () => told.push("gap"));
    const why = await new Promise((resolve) => {
      connection.on("state", (state, why) => state === "waiting" && resolve(why));
    });
    connection.close();
    assert.deepEqual([told, connection.cursor], [one.told, one.place], `${pieces.map(String)}`);
    assert.match(String(why), new RegExp(one.fails ?? "The server ended it"));
  }
});

interface AddressCase {
  base: string;
  ids: string[];
  path: string[];
  query: string[];
}

eachCase<AddressCase>("addresses", ["base", "ids", "path", "query"], async (t, one) => {
  const server = await FakeServer.start(t, { stream: play([{ stream: ["02"] }]) });
  const connection = connectSmall(server.url + one.base.slice(1), { ids: one.ids });
  t.after(() => connection.close());
  await new Promise((resolve) => connection.on("event", resolve));
  const [path, query] = server.asked[0].slice("sse ".length).split("?");
  assert.deepEqual(path.split("/").slice(1).map(decodeURIComponent), one.path);
  assert.deepEqual([...new URLSearchParams(query)], one.query.map((id) => ["id", id]));
});

interface ListenCase {
  after?: string;
  tokens?: (string | null)[];
  answers: Answer[];
  heard?: string[];
  asked?: (string | null)[];
  shown?: (string | null)[];
  waits?: number[];
  place?: string;
  refused?: { status: number; says: string };
}

const LISTEN = [
  "after", "tokens", "answers", "heard", "asked", "shown", "waits", "place", "refused",
] as const;

for (const subject of ["resumes", "refusals", "tokens"]) {
  eachCase<ListenCase>(subject, LISTEN, async (t, one) => {
    for (const [entry, connect] of ENTRIES) {
      await t.test(entry, (t) => listen(t, one, connect));
    }
  });
}

/** Plays a case to a connection, until all is heard that it names, or the refusal. */
async function listen(
  t: TestContext,
  one: ListenCase,
  connect: (url: string, options: Options) => BaseConnection,
): Promise<void> {
  const { waits, isNext } = recordWaits(t);
  const shown: (string | null)[] = [];
  const answer = play(one.answers);
  const server = await FakeServer.start(t, {
    stream: (response, url, request) => {
      shown.push(request.headers.authorization ?? null);
      answer(response, url, request);
    },
  });
  const tokens = [...(one.tokens ?? [])];
  const token = () => tokens.shift() ?? Promise.reject(new Error("not now"));
  const { after } = one;
  const options = { ids: "bob", retryMs: 500, after, token: one.tokens && token };
  const heard: string[] = [];
  const connection = connect(server.url, options);
  t.after(() => connection.close());
  const refused = await new Promise<Failure | undefined>((resolve) => {
    const hear = (what: string) => {
      if (heard.push(what) === one.heard?.length && !one.refused) {
        // The place behind an event counts when that was told to all.
        setImmediate(() => resolve(undefined));
      }
    };
    connection.on("event", ({ id }) => hear(id));
    connection.on("gap", () => hear("gap"));
    connection.on("error", () => {});
    connection.on("state", (state, why) => {
      if (state === "waiting") {
        isNext();
      } else if (state === "closed") {
        resolve(why);
      }
    });
  });
  assert.deepEqual(heard, one.heard ?? []);
  assert.equal(refused?.status, one.refused?.status);
  assert.ok(String(refused?.message).includes(one.refused?.says ?? ""), `${refused}`);
  const places = server.asked.map((line) => /last_event_id=(\w+)/.exec(line)?.[1] ?? null);
  assert.deepEqual(places, one.asked ?? places);
  assert.deepEqual(shown, one.shown ?? shown);
  assert.deepEqual(waits, one.waits ?? waits);
  assert.equal(connection.cursor, one.place ?? connection.cursor);
  assert.equal(server.asked.length, one.answers.length);
}
