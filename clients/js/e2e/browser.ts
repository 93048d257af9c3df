/**
 * Chromium for tests: one process per test file, a fresh context per page.
 *
 * The program is what `CHROMIUM` names, else Debian's: the one without a screen, which takes three
 * fifths of the processor time of the whole browser, where it is installed. Each page is watched:
 * an error on its console that the test did not announce, or a request to another host, fails the
 * test.
 */

import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { after, type TestContext } from "node:test";
import {
  type Browser,
  type BrowserContext,
  type BrowserContextOptions,
  chromium,
  type Page,
} from "playwright-core";
import { atEnd } from "./ends.js";
import { DEADLINE_MS } from "./server.js";

const HEADLESS = "/usr/bin/chromium-headless-shell";

const PROGRAM =
  process.env.CHROMIUM ?? (existsSync(HEADLESS) ? HEADLESS : "/usr/bin/chromium");

/** No sandbox, since tests run as root in containers; and nothing that calls home. */
const FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

let browser: Promise<Browser> | undefined;

after(async () => (await browser)?.close());

/** A context, a browser's profile of its own, that ends with the test. */
export async function openContext(
  test: TestContext,
  options: BrowserContextOptions = {},
): Promise<BrowserContext> {
  const start = { executablePath: PROGRAM, args: FLAGS, timeout: DEADLINE_MS };
  browser ??= chromium.launch(start);
  // Without a graphics card what moves takes all that a busy machine has.
  const context = await (await browser).newContext({ reducedMotion: "reduce", ...options });
  // The runner's compiler calls it in each function that has functions of its own.
  await context.addInitScript("globalThis.__name = (of) => of");
  context.setDefaultTimeout(DEADLINE_MS);
  atEnd(test, () => context.close());
  return context;
}

/** What a test announces. */
export interface Expected {
  /** Errors that belong to what the test does, such as a broken connection. */
  console?: RegExp;
  /** What a library of others throws and nobody catches then. */
  throws?: RegExp;
  /** Hosts that the page may ask besides its own. */
  hosts?: string[];
  /** What is waited for, if not all that the page loads. */
  until?: "commit";
}

/** Opens `url` in a tab of `context`, watched until the test ends. */
export async function openPage(
  test: TestContext,
  context: BrowserContext,
  url: string,
  expected: Expected = {},
): Promise<Page> {
  const page = await context.newPage();
  const faults: string[] = [];
  const hosts = [new URL(url).host, ...(expected.hosts ?? [])];
  const ask = (what: string) => {
    const { protocol, host } = new URL(what);
    if (!["data:", "blob:"].includes(protocol) && !hosts.includes(host)) {
      faults.push(`asks another host: ${what}`);
    }
  };
  page.on("request", (request) => ask(request.url()));
  page.on("websocket", (socket) => ask(socket.url()));
  page.on("pageerror", (error) => {
    if (!expected.throws?.test(`${error}`)) {
      faults.push(`throws: ${error}`);
    }
  });
  page.on("console", (line) => {
    if (line.type() === "error" && !expected.console?.test(line.text())) {
      faults.push(`console: ${line.text()}`);
    }
  });
  atEnd(test, async () => {
    // What the end of its server makes it say is not the page's fault.
    await page.close();
    assert.deepEqual(faults, []);
  });
  await page.goto(url, { waitUntil: expected.until ?? "load" });
  return page;
}

/** What each of the server's pages may load over the wire: both together at most 300 KB. */
export const PAGE_BYTES_MAX = 150_000;

/**
 * Counts what the pages of `context` load from now on, heads and bodies as they are sent. What a
 * stream brings is counted when it has ended, what a WebSocket brings is not.
 */
export function countBytes(context: BrowserContext): () => Promise<number> {
  const counts: Promise<number>[] = [];
  context.on("requestfinished", (request) => {
    const sizes = request.sizes();
    counts.push(sizes.then((sizes) => sizes.responseHeadersSize + sizes.responseBodySize));
  });
  return async () => (await Promise.all(counts)).reduce((sum, count) => sum + count, 0);
}

/** Goes on with the Tab key until the element that `selector` names has the focus. */
export async function tabTo(page: Page, selector: string): Promise<void> {
  for (let steps = 0; steps < 60; steps += 1) {
    await page.keyboard.press("Tab");
    const isThere = (selector: string) => document.activeElement?.matches(selector);
    if (await page.evaluate(isThere, selector)) {
      return;
    }
  }
  assert.fail(`Tab does not lead to ${selector}`);
}
