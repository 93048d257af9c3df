/** The examples of a chat room and of shared cursors, as their READMEs start them. */

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, test, type TestContext } from "node:test";
import type { Page } from "playwright-core";
import { openContext, openPage } from "./browser.js";
import { files } from "./files.js";
import { look } from "./look.js";
import { Program, root } from "./program.js";
import { Encke, until } from "./server.js";
import { Secret } from "./sign.js";

/** The backends of the chat room: how each is started. */
const BACKENDS = [
  [process.execPath, "backend.mjs"],
  ["python3", "backend.py"],
];

/** So many pages show each other's pointers. */
const PAGES = 20;

let secret: Secret;

before(async () => {
  secret = await Secret.make();
});

after(() => secret.remove());

/** Comes in under a name, in a browser of its own. */
async function comeIn(t: TestContext, url: string, name: string, server: Encke): Promise<Page> {
  const page = await openPage(t, await openContext(t), url, { hosts: [server.listen] });
  await page.getByLabel("Your name").fill(name);
  await page.getByRole("button", { name: "Come in" }).click();
  await page.locator("#members li", { hasText: `${name} (you)` }).waitFor();
  return page;
}

/** What a page shows as said, each with who said it. */
async function said(page: Page, count: number): Promise<string[]> {
  await page.locator("#messages li").nth(count - 1).waitFor();
  return page.locator("#messages li").evaluateAll((lines) =>
    lines.map((line) => {
      const [who, what] = ["b", "span"].map((part) => line.querySelector(part)!.textContent);
      return `${who}: ${what}`;
    }),
  );
}

async function say(page: Page, text: string): Promise<void> {
  await page.getByLabel("Message", { exact: true }).fill(text);
  await page.getByRole("button", { name: "Send" }).click();
}

for (const [program, file] of BACKENDS) {
  test(`chat of ${file}: two talk, see each other, find what was said before`, async (t) => {
    const path = join(root(), "examples/chat", file);
    const lines = (await readFile(path, "utf8")).trimEnd().split("\n").length;
    assert.ok(lines < 40, `${lines} lines`);
    // The backend's own origin is known when it has started, and the server's address before.
    const server = await Encke.start(t, `--token-key=${secret.file}`, "--allow-origin=*");
    const env = { SECRET: secret.file, ENCKE_URL: `http://${server.listen}`, PORT: "0" };
    const backend = await Program.startIn(env, program, t, "http://", path);
    const url = `http://${backend.told("http://")}/`;
    const ann = await comeIn(t, url, "ann", server);
    const bob = await comeIn(t, url, "bob", server);
    await ann.locator("#members li", { hasText: "bob" }).waitFor();
    assert.deepEqual(await ann.locator("#members li").allTextContents(), ["ann (you)", "bob"]);
    // It is shown for a moment only, so bob's page is looked at meanwhile.
    const typing = bob.locator("#typing", { hasText: "ann is typing" }).waitFor();
    await ann.getByLabel("Message", { exact: true }).pressSequentially("Hel");
    await typing;
    await say(ann, "Hello, Bob!");
    await say(bob, "Hello, <b>Ann</b>!");
    const both = ["ann: Hello, Bob!", "bob: Hello, <b>Ann</b>!"];
    for (const page of [ann, bob]) {
      assert.deepEqual((await said(page, 2)).toSorted(), both);
    }
    const order = await said(ann, 2);
    await bob.reload();
    assert.deepEqual(await said(bob, 2), order);
    await bob.getByRole("link", { name: "#music" }).click();
    await bob.locator("#room", { hasText: "#music" }).waitFor();
    await ann.locator("#members li", { hasText: "bob" }).waitFor({ state: "detached" });
    await say(bob, "Anybody here?");
    assert.deepEqual(await said(bob, 1), ["bob: Anybody here?"]);
    assert.deepEqual(await said(ann, 2), order);
    // Who goes through the rooms in a hurry is in the last one, once.
    await bob.evaluate(() => {
      location.hash = "lobby";
      location.hash = "code";
    });
    await bob.locator("#room", { hasText: "#code" }).waitFor();
    await bob.locator("#members li", { hasText: "bob (you)" }).waitFor();
    await until("it has left", async () => !(await server.connections("room:music")));
    assert.equal(await server.connections("room:code"), 1);
    // An address that is none of its own ends it for nobody.
    await fetch(`${url}/`);
    assert.equal((await fetch(url)).status, 200);
    await look(ann, `chat-${file.split(".")[1]}`);
  });
}

test(`cursors: ${PAGES} pages show where the pointers of all others are`, async (t) => {
  const origin = await files(t);
  const options = ["--client-send", "--client-send-rate=60", `--allow-origin=${origin}`];
  const server = await Encke.start(t, ...options);
  const context = await openContext(t, { viewport: { width: 800, height: 600 } });
  const pages: Page[] = [];
  for (let n = 0; n < PAGES; n++) {
    const query = new URLSearchParams({ server: `http://${server.listen}`, name: `page ${n}` });
    const url = `${origin}/examples/cursors/?${query}`;
    const page = await openPage(t, context, url, { hosts: [server.listen] });
    await page.locator("#state", { hasText: "open" }).waitFor();
    pages.push(page);
  }
  // Each moves 30 times a second on a circle of its own, and ends at its own height.
  const move = (n: number) =>
    new Promise<void>((done) => {
      let step = 0;
      const timer = setInterval(() => {
        const angle = step / 10;
        const [x, y] = [400 + 300 * Math.cos(angle), 300 + 250 * Math.sin(angle)];
        const isLast = ++step > 90;
        const place = isLast ? { clientX: 400, clientY: 20 * (n + 1) } : { clientX: x, clientY: y };
        dispatchEvent(new PointerEvent("pointermove", place));
        if (isLast) {
          clearInterval(timer);
          done();
        }
      }, 1000 / 30);
    });
  await Promise.all(pages.map((page, n) => page.evaluate(move, n)));
  /** In a page: whether each of the others is where it ended. */
  const isThere = ([own, count]: readonly [number, number]) => {
    const heights = Array.from({ length: count }, (_, n) => n)
      .filter((n) => n !== own)
      .map((n) => `page ${n} ${20 * (n + 1)}`);
    const shown = [...document.querySelectorAll<HTMLElement>(".cursor")].map((cursor) => {
      const [, y] = /, (.*)px/.exec(cursor.style.transform)!;
      return `${cursor.textContent!.trim()} ${Math.round(+y)}`;
    });
    return shown.toSorted().join() === heights.toSorted().join();
  };
  for (const [n, page] of pages.entries()) {
    await page.waitForFunction(isThere, [n, PAGES] as const);
  }
  const stats = await server.call("/stats");
  t.diagnostic(`${stats.events} events, ${stats.deliveries} deliveries`);
  if (process.env.PICTURES) {
    await pages[0].screenshot({ path: join(process.env.PICTURES, "cursors.png") });
  }
  await pages[1].close();
  await pages[0].locator(".cursor").filter({ hasText: /page 1$/ }).waitFor({ state: "detached" });
});
