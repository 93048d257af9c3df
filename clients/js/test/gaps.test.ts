/** A gap is told once, also to a listener that changes the ids when it hears of something. */

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
    const places = server.asked.map((line) => /(?:after|last_event_id)=(\w+)/.exec(line)?.[1]);
    assert.deepEqual(places.slice(0, 2), ["01", "09"]);
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
