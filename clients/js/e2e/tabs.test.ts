/** Two tabs of one browser that talk through the server. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { openContext } from "./browser.js";
import { openTab, type Tab } from "./client.js";
import { Front } from "./front.js";
import { Encke } from "./server.js";

test("two tabs talk", async (t) => {
  const server = await Encke.start(t);
  const front = await Front.start(t, server);
  const context = openContext(t);
  // The application behind the pages: it takes what they say and sends it.
  const tabs = await Promise.all(
    ["ann", "bob"].map(async (id) => {
      const tab = await openTab(t, front.origin, {}, context);
      await tab.page.exposeFunction("say", (words: string) => server.send(id, `${id}: ${words}`));
      await tab.listen({ ids: id });
      await tab.turned("open");
      return tab;
    }),
  );
  await server.subscribe("ann", "bob");
  await server.subscribe("bob", "ann");
  const [ann, bob] = tabs;
  const say = (tab: Tab, words: string) =>
    tab.page.evaluate((words) => (window as any).say(words), words);
  assert.equal(await say(ann, "hello"), 2, "both tabs hear it");
  assert.deepEqual(await bob.heard(1), ["ann: hello"]);
  assert.equal(await say(bob, "hello yourself"), 2);
  const talk = ["ann: hello", "bob: hello yourself"];
  assert.deepEqual(await ann.heard(2), talk);
  assert.deepEqual(await bob.heard(2), talk);
});
