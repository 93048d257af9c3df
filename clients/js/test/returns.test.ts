/** A machine that is back in its network, and a page that is back before somebody's eyes. */

import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import type { Connection } from "../src/index.js";
import { connect } from "../src/only-sse.js";
import { turned } from "./hear.js";
import { cursor, FakeServer, type Handler, inTurn, stream } from "./server.js";

/** What a page has and Node has not: its events, and whether it is seen. */
class Page extends EventTarget {
  hidden = false;
  /** How many listen to it. */
  listeners = 0;
  /** So much later than it is. */
  #aheadMs = 0;

  constructor(test: TestContext) {
    super();
    const now = Date.now;
    test.mock.method(Date, "now", () => now() + this.#aheadMs);
    Object.assign(globalThis, {
      document: this,
      addEventListener: this.addEventListener.bind(this),
      removeEventListener: this.removeEventListener.bind(this),
    });
    test.after(() => {
      for (const name of ["document", "addEventListener", "removeEventListener"]) {
        delete (globalThis as any)[name];
      }
    });
  }

  override addEventListener(...words: Parameters<EventTarget["addEventListener"]>): void {
    this.listeners++;
    super.addEventListener(...words);
  }

  override removeEventListener(...words: Parameters<EventTarget["removeEventListener"]>): void {
    this.listeners--;
    super.removeEventListener(...words);
  }

  say(type: string, more = {}): void {
    this.dispatchEvent(Object.assign(new Event(type), more));
  }

  /** It is hidden for so long, and then seen. */
  hide(ms: number): void {
    this.hidden = true;
    this.say("visibilitychange");
    this.#aheadMs += ms;
    this.hidden = false;
    this.say("visibilitychange");
  }
}

/** A server that answers by `handlers`, and a connection with waits of an hour. */
async function open(t: TestContext, ...handlers: Handler[]) {
  const page = new Page(t);
  const server = await FakeServer.start(t, { stream: inTurn(...handlers) });
  const connection = connect(server.url, { ids: "bob", retryMs: 36e5, retryMaxMs: 36e5 });
  t.after(() => connection.close());
  t.mock.method(Math, "random", () => 0.9);
  return { page, server, connection: connection as Connection };
}

const breaks: Handler = (answer) => answer.destroy();

const BACK: [string, (page: Page) => void][] = [
  ["online", (page) => page.say("online")],
  ["pageshow from the cache", (page) => page.say("pageshow", { persisted: true })],
  ["seen after long", (page) => page.hide(60_000)],
];

for (const [name, back] of BACK) {
  test(`wait ends at once: ${name}`, async (t) => {
    const { page, connection } = await open(t, breaks, stream(cursor("01")));
    await turned(connection, "waiting");
    back(page);
    await turned(connection, "open");
  });

  test(`open stream that may be dead is resumed at once: ${name}`, async (t) => {
    const { page, server, connection } = await open(t, stream(cursor("01")), stream(cursor("02")));
    await turned(connection, "open");
    const states: string[] = [];
    connection.on("state", (state) => states.push(state));
    back(page);
    await turned(connection, "connecting");
    await turned(connection, "open");
    assert.deepEqual(states, ["connecting", "open"], "without a wait");
    assert.equal(server.asked[1], "sse /stream/bob?last_event_id=01");
  });
}

const STAYS: [string, (page: Page) => void][] = [
  ["pageshow of a page that is new", (page) => page.say("pageshow", { persisted: false })],
  ["seen after a moment", (page) => page.hide(10_000)],
];

for (const [name, back] of STAYS) {
  test(`open stream goes on: ${name}`, async (t) => {
    const { page, server, connection } = await open(t, stream(cursor("01")));
    await turned(connection, "open");
    back(page);
    await new Promise(setImmediate);
    assert.equal(connection.state, "open");
    assert.equal(server.asked.length, 1);
  });
}

test("closed connection listens for nothing", async (t) => {
  const { page, server, connection } = await open(t, stream(cursor("01")));
  await turned(connection, "open");
  assert.equal(page.listeners, 3);
  connection.close();
  assert.equal(page.listeners, 0);
  BACK.forEach(([, back]) => back(page));
  assert.equal(connection.state, "closed");
  assert.equal(server.asked.length, 1);
});
