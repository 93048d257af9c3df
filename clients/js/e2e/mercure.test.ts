/**
 * `examples/mercure`: pages of htmx, of Turbo and of a bare `EventSource` go on where they were
 * after a cut and a reload, and as their backends have it after the server was killed.
 */

import assert from "node:assert/strict";
import { cp, mkdtemp, readFile, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import type { Page } from "playwright-core";
import { openContext, openPage } from "./browser.js";
import { atEnd } from "./ends.js";
import { Front } from "./front.js";
import { leave } from "./leave.js";
import { Program, root } from "./program.js";
import { Encke, freeAddress } from "./server.js";
import { Secret } from "./sign.js";

/** The example with the libraries that its lock names. */
async function copy(t: TestContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "encke-mercure-"));
  atEnd(t, () => rm(folder, { recursive: true, force: true }));
  for (const part of ["shared.mjs", "package.json", "htmx", "turbo", "plain"]) {
    await cp(join(root(), "examples/mercure", part), join(folder, part), { recursive: true });
  }
  const libraries = join(root(), "target/tools/examples/mercure/node_modules");
  await symlink(libraries, join(folder, "node_modules"));
  return folder;
}

/** A hub, a backend that publishes to it, and the way from pages to the hub. */
class Site {
  private constructor(
    readonly server: Encke,
    readonly front: Front,
    readonly url: string,
  ) {}

  /** Starts the example of that name with further `options` of the server. */
  static async start(t: TestContext, name: string, ...options: string[]): Promise<Site> {
    const secret = await Secret.make();
    atEnd(t, () => secret.remove());
    const address = await freeAddress();
    const allowed = `--allow-origin=http://${address}`;
    const server = await Encke.start(t, `--mercure-key=${secret.file}`, allowed, ...options);
    const front = await Front.start(t, server);
    const path = join(await copy(t), name, "backend.mjs");
    const lines = (await readFile(path, "utf8")).trimEnd().split("\n").length;
    assert.ok(lines <= 40, `${lines} lines`);
    const hub = (origin: string) => `${origin}/.well-known/mercure`;
    const env = {
      HUB: hub(`http://${server.api}`),
      PUBLIC_HUB: hub(front.origin),
      KEY: secret.file,
      PORT: address.split(":")[1],
    };
    await Program.startIn(env, process.execPath, t, "http://", path);
    return new Site(server, front, `http://${address}`);
  }

  /** Opens a page in a browser of its own. A cut is an error there, which htmx calls `Event`. */
  async open(t: TestContext, path = "/"): Promise<Page> {
    const context = await openContext(t);
    await context.addInitScript(listenToo);
    const hosts = [new URL(this.front.origin).host];
    return openPage(t, context, this.url + path, { hosts, console: /net::ERR|^Event$/ });
  }

  /** The way to the hub breaks, `act` is done, and the way is there again. */
  async whileAway(act: () => Promise<void>): Promise<void> {
    this.front.cut();
    await act();
    this.front.mend();
  }

  /** The hub is killed and knows nothing of before, and so do pages until `act` is done. */
  async killWhileAway(act: () => Promise<void>): Promise<void> {
    const { listen, api } = this.server;
    await this.whileAway(async () => {
      await this.server.kill();
      await this.server.start(listen, api);
      await act();
    });
  }
}

declare global {
  interface Window {
    brought: string[];
  }
}

/** In a page: what its streams bring stands in `brought` as well. */
function listenToo(): void {
  window.brought = [];
  const Real = EventSource;
  window.EventSource = class extends Real {
    constructor(...asked: ConstructorParameters<typeof Real>) {
      super(...asked);
      this.addEventListener("gap", () => window.brought.push("gap"));
      for (const type of ["message", "sold"]) {
        this.addEventListener(type, (event) => window.brought.push((event as MessageEvent).data));
      }
    }
  };
}

const heard = (page: Page) => page.evaluate(() => window.brought);

test("htmx: the poll shows each vote, after a cut, a reload and a kill too", async (t) => {
  const site = await Site.start(t, "htmx", "--mercure-open");
  const [one, other] = [await site.open(t), await site.open(t)];
  const shows = async (tea: number, coffee: number) => {
    for (const page of [one, other]) {
      await page.locator("#Tea", { hasText: `${tea}` }).waitFor();
      await page.locator("#Coffee", { hasText: `${coffee}` }).waitFor();
    }
  };
  const vote = async (drink: string) => {
    const answered = one.waitForResponse((answer) => answer.url().endsWith("/votes"));
    await one.getByRole("button", { name: drink }).click();
    assert.equal((await answered).status(), 204);
  };
  await shows(0, 0);
  await vote("Tea");
  await shows(1, 0);
  await site.whileAway(async () => {
    await vote("Coffee");
    await vote("Tea");
  });
  await shows(2, 1);
  // Nobody was told of a gap, and who was away has heard each vote.
  assert.equal((await heard(other)).length, 3);
  // What comes between the page and its subscription.
  await site.whileAway(async () => {
    await other.reload();
    await shows(2, 1);
    await vote("Coffee");
  });
  await shows(2, 2);
  assert.equal((await heard(other)).length, 1, "it goes on behind what the page shows");
  await site.killWhileAway(() => vote("Tea"));
  await shows(3, 2);
  await vote("Tea");
  await shows(4, 2);
  assert.deepEqual((await heard(one)).filter((what) => what === "gap"), ["gap"]);
});

test("turbo: only bob's page shows what is sent to bob, all of it and once", async (t) => {
  const site = await Site.start(t, "turbo");
  const [bob, eve] = [await site.open(t, "/?name=bob"), await site.open(t, "/?name=eve")];
  const send = async (to: string, text: string) => {
    await eve.getByLabel("To").fill(to);
    await eve.getByLabel("Message", { exact: true }).fill(text);
    const answered = eve.waitForResponse((answer) => answer.url().endsWith("/messages"));
    await eve.getByRole("button", { name: "Send" }).click();
    assert.equal((await answered).status(), 200);
  };
  const shows = async (page: Page, ...texts: string[]) => {
    const items = page.locator("#messages li");
    await items.nth(texts.length - 1).waitFor();
    assert.deepEqual(await items.allTextContents(), texts);
  };
  await send("bob", "<b>one</b>");
  await eve.locator("#status", { hasText: "Sent to bob." }).waitFor();
  await shows(bob, "<b>one</b>");
  await site.whileAway(() => send("bob", "two"));
  await shows(bob, "<b>one</b>", "two");
  assert.equal((await heard(bob)).length, 2);
  await site.whileAway(async () => {
    await bob.reload();
    await shows(bob, "<b>one</b>", "two");
    await send("bob", "three");
  });
  await shows(bob, "<b>one</b>", "two", "three");
  assert.equal((await heard(bob)).length, 1);
  await site.killWhileAway(() => send("bob", "four"));
  // Eve's page has heard nothing that could be missing.
  await bob.waitForURL(/after=/);
  await shows(bob, "<b>one</b>", "two", "three", "four");
  await send("bob", "five");
  await shows(bob, "<b>one</b>", "two", "three", "four", "five");
  await send("eve", "six");
  await shows(eve, "six");
});

test("EventSource: the shop hears each sale, and what it missed as a gap", async (t) => {
  const site = await Site.start(t, "plain", "--mercure-open");
  const page = await site.open(t);
  const shows = async (first: number, second: number) => {
    const are = ([first, second]: number[]) =>
      [1, 2].map((n) => document.querySelector(`#left-${n}`)?.textContent).join() ===
      `${first},${second}`;
    await page.waitForFunction(are, [first, second]);
  };
  const sell = async (book: string) => {
    const body = new URLSearchParams({ book });
    assert.equal((await fetch(`${site.url}/sales`, { method: "POST", body })).status, 204);
  };
  await shows(100, 100);
  await page.getByRole("button", { name: "Buy the first" }).click();
  await shows(99, 100);
  await site.whileAway(async () => {
    await sell("1");
    await sell("2");
  });
  await shows(98, 99);
  const sold = [["1", 99], ["1", 98], ["2", 99]].map(([book, left]) => ({ book, left }));
  assert.deepEqual((await heard(page)).map((data) => JSON.parse(data)), sold);
  await site.whileAway(async () => {
    await page.reload();
    await shows(98, 99);
    await sell("2");
  });
  await shows(98, 98);
  assert.equal((await heard(page)).length, 1);
  await site.killWhileAway(() => sell("1"));
  await shows(97, 98);
  await sell("2");
  await shows(97, 97);
  assert.deepEqual((await heard(page)).filter((what) => what === "gap"), ["gap"]);
  // What no page of its own does ends the backend for nobody.
  await leave(`${site.url}/sales`);
  assert.equal((await fetch(`${site.url}//`)).status, 404);
  assert.equal((await fetch(`${site.url}/`)).status, 200);
});
