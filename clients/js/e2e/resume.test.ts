/** What a page hears of a network or a server that goes and comes back. */

import assert from "node:assert/strict";
import { test } from "node:test";
import type { TransportName } from "../src/index.js";
import { openContext, openPage, Tab } from "./browser.js";
import { Front } from "./front.js";
import { Encke, until } from "./server.js";

/** What Chromium says by itself of connections that break. */
const BROKEN = { console: /Failed to load resource|WebSocket connection to/ };

for (const transport of ["websocket", "sse", "poll"] satisfies TransportName[]) {
  test(`${transport} after a cut network hears what came in between, once`, async (t) => {
    const server = await Encke.start(t);
    const front = await Front.start(t, server);
    const context = await openContext(t);
    const page = await openPage(t, context, `${front.origin}/e2e/e2e/page.html`, BROKEN);
    const tab = new Tab(page);
    await server.subscribe("bob", "rj");
    await tab.listen({ ids: "bob", transports: [transport] });
    await tab.turned("open");
    let n = 0;
    for (let round = 0; round < 3; round++) {
      await server.send("bob", n++);
      front.cut();
      await tab.turned("waiting");
      await until("the server has seen it", async () => (await server.connections("bob")) === 0);
      await server.send("rj", n++);
      await server.send("bob", n++);
      front.mend();
      await tab.turned("open");
      await server.send("rj", n++);
    }
    const heard = await tab.heard(n);
    assert.deepEqual(heard, Array.from({ length: n }, (_, n) => n));
    assert.equal((await tab.told()).gaps, 0);
  });

  test(`${transport} after the server was killed says the gap and goes on`, async (t) => {
    const server = await Encke.start(t);
    const front = await Front.start(t, server);
    const context = await openContext(t);
    const page = await openPage(t, context, `${front.origin}/e2e/e2e/page.html`, BROKEN);
    const tab = new Tab(page);
    await tab.listen({ ids: "bob", transports: [transport] });
    await tab.turned("open");
    await server.send("bob", "before");
    await tab.heard(1);
    await server.kill();
    await tab.turned("waiting");
    await server.start();
    await tab.turned("open");
    await page.waitForFunction(() => window.told.gaps > 0);
    await server.send("bob", "after");
    assert.deepEqual(await tab.heard(2), ["before", "after"]);
    assert.equal((await tab.told()).gaps, 1);
  });
}

for (const transport of ["websocket", "sse"] satisfies TransportName[]) {
  test(`${transport} that freezes is noticed and resumed`, async (t) => {
    const server = await Encke.start(t);
    const front = await Front.start(t, server);
    const context = await openContext(t);
    const page = await openPage(t, context, `${front.origin}/e2e/e2e/page.html`, BROKEN);
    const tab = new Tab(page);
    await tab.listen({ ids: "bob", transports: [transport], silenceMs: 500, openMs: 2000 });
    await tab.turned("open");
    front.freeze();
    await server.send("bob", "into the void");
    await tab.turned("waiting");
    front.mend();
    assert.deepEqual(await tab.heard(1), ["into the void"]);
    assert.equal((await tab.told()).gaps, 0);
  });
}
