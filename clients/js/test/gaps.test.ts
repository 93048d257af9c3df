/**
 * A gap is told once, also to a listener that changes the ids when it hears of something; and which
 * interleavings of a poll, a restart and a cut are two gaps for one end of a server.
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Connection } from "../src/index.js";
import { listen, next } from "./hear.js";
import {
  answers,
  FakeServer,
  type Handler,
  idle,
  inTurn,
  message,
  type Script,
  stream,
} from "./server.js";

/** Knows the places from `09` on; who comes with an earlier one has missed something. */
function after09(told: Handler, goesOn: Handler): Handler {
  return (answer, url, request) => {
    const place = url.searchParams.get("after") ?? url.searchParams.get("last_event_id") ?? "";
    (place < "09" ? told : goesOn)(answer, url, request);
  };
}

const GAP = "event: gap\nid: 09\ndata: {}\n\n";

/** A server of which something is missed before `09`, and that has `0a`. */
function script(): Script {
  const behind = inTurn(answers(["0a"], "0a"), idle("0a"));
  return {
    stream: after09(stream(GAP, message("0a")), stream(message("0a"))),
    poll: after09(answers([], "09", { "encke-gap": "true" }), behind),
  };
}

/** How often a gap was told until the event behind it came. */
async function gapsUntilEvent(connection: Connection): Promise<number> {
  let gaps = 0;
  connection.on("gap", () => gaps++);
  await next(connection, "event", ({ id }) => id === "0a");
  return gaps;
}

for (const transport of ["sse", "poll"] as const) {
  const options = { transports: [transport], after: "01" };

  test(`who logs in on hearing that ${transport} is open is told of a gap once`, async (t) => {
    const server = await FakeServer.start(t, script());
    const connection = listen(t, server.url, options);
    const off = connection.on("state", (state) => {
      if (state === "open") {
        off();
        void connection.login("further");
      }
    });
    assert.equal(await gapsUntilEvent(connection), 1);
  });

  test(`who logs in on hearing of a gap over ${transport} goes on behind it`, async (t) => {
    const server = await FakeServer.start(t, script());
    const connection = listen(t, server.url, options);
    connection.on("gap", () => void connection.login("further"));
    assert.equal(await gapsUntilEvent(connection), 1);
    assert.deepEqual(places(server).slice(0, 2), ["01", "09"]);
  });
}

test("gap in an answer with events is told once to who logs in when it comes", async (t) => {
  // What stands between the gap and the first event has no name: the place of before is asked for
  // again, and the server's second word is the one that is heard.
  const events = answers(["0a"], "0a", { "encke-gap": "true" });
  const server = await FakeServer.start(t, { poll: after09(events, idle("0a")) });
  const connection = listen(t, server.url, { transports: ["poll"], after: "01" });
  const off = connection.on("state", () => {
    off();
    void connection.login("further");
  });
  assert.equal(await gapsUntilEvent(connection), 1);
});

const TOLD = { "encke-gap": "true" };

/** The places with which the server was asked. */
function places(server: FakeServer): (string | undefined)[] {
  return server.asked.map((line) => /(?:after|last_event_id)=(\w+)/.exec(line)?.[1]);
}

/** The head of an answer and the first byte of its body; then the connection is gone. */
function cutBehindHead(next: string): Handler {
  return (answer) => {
    const head = { "content-type": "application/json", "content-length": "100" };
    answer.writeHead(200, { ...head, "encke-next": next, ...TOLD });
    answer.write("[", () => answer.destroy());
  };
}

const gone: Handler = (answer) => answer.destroy();

test("gap in an answer that is cut is told once, by the answer that is whole", async (t) => {
  const told = inTurn(cutBehindHead("09"), gone, answers([], "09", TOLD));
  const behind = inTurn(answers(["0a"], "0a"), idle("0a"));
  const server = await FakeServer.start(t, { poll: after09(told, behind) });
  const connection = listen(t, server.url, { transports: ["poll"], after: "01" });
  assert.equal(await gapsUntilEvent(connection), 1);
  assert.deepEqual(places(server).slice(0, 4), ["01", "01", "01", "09"]);
});

test("server that ends behind the answer with a gap is asked from behind it", async (t) => {
  const behind = inTurn(gone, cutBehindHead("0a"), answers(["0a"], "0a"), idle("0a"));
  const server = await FakeServer.start(t, { poll: after09(answers([], "09", TOLD), behind) });
  const connection = listen(t, server.url, { transports: ["poll"], after: "01" });
  assert.equal(await gapsUntilEvent(connection), 1);
  assert.deepEqual(places(server).slice(0, 4), ["01", "09", "09", "09"]);
});

test("two ends of a server before anything is heard are two gaps", async (t) => {
  const told: { [place: string]: Handler } = {
    "01": answers([], "09", TOLD),
    "09": answers([], "19", TOLD),
    "19": answers(["1a"], "1a"),
    "1a": idle("1a"),
  };
  const poll: Handler = (...request) => told[request[1].searchParams.get("after")!](...request);
  const server = await FakeServer.start(t, { poll });
  const connection = listen(t, server.url, { transports: ["poll"], after: "01" });
  let gaps = 0;
  connection.on("gap", () => gaps++);
  await next(connection, "event", ({ id }) => id === "1a");
  assert.equal(gaps, 2);
});

test("client that falls behind what is remembered is told so, without an end of the server", async (t) => {
  const behind = inTurn(answers(["0a"], "0a"), answers(["99"], "99", TOLD), idle("99"));
  const server = await FakeServer.start(t, { poll: after09(answers([], "09", TOLD), behind) });
  const connection = listen(t, server.url, { transports: ["poll"], after: "01" });
  const heard: unknown[] = [];
  connection.on("gap", () => heard.push("gap"));
  connection.on("event", ({ id }) => heard.push(id));
  await next(connection, "event", ({ id }) => id === "99");
  assert.deepEqual(heard, ["gap", "0a", "gap", "99"]);
});

for (const transport of ["sse", "poll"] as const) {
  test(`who logs in on a gap with events behind it over ${transport} is told once more`, async (t) => {
    // The place between both has no name, so the one of before is asked for again; whether more is
    // missing by then nobody knows but the server.
    const told = stream("event: gap\ndata: {}\n\n", message("0a"));
    const server = await FakeServer.start(t, {
      stream: after09(told, stream()),
      poll: after09(answers(["0a"], "0a", TOLD), idle("0a")),
    });
    const connection = listen(t, server.url, { transports: [transport], after: "01" });
    const off = connection.on("gap", () => {
      off();
      void connection.login("further");
    });
    assert.equal(await gapsUntilEvent(connection), 2);
    assert.deepEqual(places(server).slice(0, 2), ["01", "01"]);
  });
}
