/** The dashboard of a node of a cluster: all nodes in one table. */

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import type { Page } from "playwright-core";
import { triedAgain } from "./attempts.js";
import { openContext, openPage } from "./browser.js";
import { look } from "./look.js";
import { startNats } from "./nats.js";
import { Encke, until } from "./server.js";

/** Nodes with these names that know each other; `null` where there is no NATS. */
async function nodes(t: TestContext, ...names: string[]): Promise<Encke[] | null> {
  const nats = await startNats(t);
  if (nats === null) return null;
  const start = (name: string) =>
    Encke.start(t, "--cluster=push", `--nats=${nats}`, `--node=${name}`, "--drain=60", "--grace=120");
  const all: Encke[] = [];
  for (const name of names) all.push(await start(name));
  const known = async (one: Encke) => (await one.call("/cluster")).members === names.length;
  for (const one of all) await until("all are members", () => known(one));
  return all;
}

async function dashboard(t: TestContext, server: Encke): Promise<Page> {
  const context = await openContext(t);
  const page = await openPage(t, context, `http://${server.api}/`, { hosts: [server.listen] });
  await page.locator('#state[data-state="live"]').waitFor();
  return page;
}

const cell = (page: Page, row: number, column: number) =>
  page.locator(`#nodes-table tbody tr:nth-child(${row}) > :nth-child(${column})`);

test("all nodes are in one table, with what each does, until one goes", async (t) => {
  const all = await nodes(t, "a", "b", "c");
  if (!all) return;
  const [a, b, c] = all;
  const page = await dashboard(t, a);
  const rows = page.locator("#nodes-table tbody tr");
  await rows.nth(2).waitFor();
  assert.deepEqual(await page.locator("#nodes-table tbody th").allTextContents(), [
    "a (this one)",
    "b",
    "c",
  ]);
  for (const row of [1, 2, 3]) {
    await cell(page, row, 2).filter({ hasText: /^member$/ }).waitFor();
  }
  await page.locator("#nodes-link").waitFor();
  assert.match((await page.locator("#nodes-note").textContent())!, /^Cluster push: 3 nodes, /);
  // Somebody listens at b, and c sends to him.
  const line = await fetch(`http://${b.listen}/stream/bob`);
  t.after(() => line.body?.cancel().catch(() => {}));
  await cell(page, 2, 3).filter({ hasText: /^1$/ }).waitFor();
  // Where the machine stands still a node counts too late, which is forgiven and told.
  let late = 0;
  for (let n = 0; n < 20; n++) {
    const answer = await c.call("/send", { about: "bob", data: n });
    if (answer.at_least) late += 1;
    else assert.equal(answer.delivered, 1);
  }
  await cell(page, 3, 5).filter({ hasText: /^[1-9]/ }).waitFor();
  assert.ok(late <= 10, `${late} of 20 counts were not whole`);
  if (late > 0) triedAgain(t, `${late} of 20 counts were not whole`);
  else assert.equal(await cell(page, 3, 6).textContent(), "0", "each count was whole");
  await page.fill("#lookup-id", "bob");
  await page.press("#lookup-id", "Enter");
  await page.locator("#lookup-online", { hasText: "Online, 1 connection" }).waitFor();
  await look(page, "nodes");
  await c.kill();
  await page.locator("#nodes-note", { hasText: "2 nodes" }).waitFor();
  assert.equal(await rows.count(), 2);
});

test("a node that ends says so until its clients are elsewhere", async (t) => {
  const all = await nodes(t, "a", "b");
  if (!all) return;
  const [a, b] = all;
  const page = await dashboard(t, a);
  await page.locator("#nodes-table tbody tr").nth(1).waitFor();
  const line = await fetch(`http://${b.listen}/stream/bob`);
  t.after(() => line.body?.cancel().catch(() => {}));
  await until("bob is online", async () => (await a.connections("bob")) === 1);
  b.end();
  await page.locator("#nodes-table tr.ending", { hasText: "ending" }).waitFor();
  // Its last client.
  await line.body?.cancel();
  await page.locator("#nodes-note", { hasText: "1 node," }).waitFor();
});

test("a server that is alone shows no nodes, and is not asked again", async (t) => {
  const server = await Encke.start(t);
  const context = await openContext(t);
  let asked = 0;
  await context.route(/\/cluster$/, (route) => {
    asked += 1;
    return route.continue();
  });
  const page = await openPage(t, context, `http://${server.api}/`, { hosts: [server.listen] });
  await page.locator("#figures-details summary").click();
  // Of seconds that are live, so some have passed.
  await page.locator("#figures-table tbody tr").nth(4).waitFor();
  assert.equal(asked, 1);
  assert.equal(await page.locator("#nodes").isVisible(), false);
  assert.equal(await page.locator("#nodes-link").isVisible(), false);
});
