/**
 * Chromium for tests: one process per test file, a fresh context per page.
 *
 * The program is what `CHROMIUM` names, else Debian's. Each page is watched: an error on its
 * console that the test did not announce, or a request to another host, fails the test.
 */

import assert from "node:assert/strict";
import { after, type TestContext } from "node:test";
import { type Browser, type BrowserContext, chromium, type Page } from "playwright-core";
import type { EnckeEvent, Options } from "../src/index.js";
import { atEnd } from "./ends.js";

const PROGRAM = process.env.CHROMIUM ?? "/usr/bin/chromium";

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
export async function openContext(test: TestContext): Promise<BrowserContext> {
  browser ??= chromium.launch({ executablePath: PROGRAM, args: FLAGS });
  const context = await (await browser).newContext();
  atEnd(test, () => context.close());
  return context;
}

/** What a test announces. */
export interface Expected {
  /** Errors that belong to what the test does, such as a broken connection. */
  console?: RegExp;
  /** Hosts that the page may ask besides its own. */
  hosts?: string[];
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
  page.on("pageerror", (error) => faults.push(`throws: ${error}`));
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
  await page.goto(url);
  return page;
}

/** What `e2e/page.html` leaves in its window. */
interface Told {
  events: EnckeEvent[];
  gaps: number;
  states: string[];
  errors: string[];
}

declare global {
  interface Window {
    listen(url: string, options: Options): void;
    connection: import("../src/index.js").Connection;
    told: Told;
  }
}

/** A tab with `e2e/page.html` whose connection a test drives. */
export class Tab {
  constructor(readonly page: Page) {}

  /** Connects to the page's own origin, or to `url`, with short waits. */
  async listen(options: Options, url = "/"): Promise<void> {
    const quick = { retryMs: 10, retryMaxMs: 200, ...options };
    await this.page.waitForFunction(() => window.listen);
    await this.page.evaluate(([url, quick]) => window.listen(url, quick), [url, quick] as const);
  }

  /** Waits until the connection is in that state, over that transport if one is named. */
  async turned(state: string, transport = ""): Promise<void> {
    await this.page.waitForFunction(
      ([state, transport]) =>
        window.connection.state === state &&
        (!transport || window.connection.transport === transport),
      [state, transport] as const,
    );
  }

  /** Waits for so many events; returns the payloads of all. */
  async heard(count: number): Promise<unknown[]> {
    await this.page.waitForFunction((count) => window.told.events.length >= count, count);
    return (await this.told()).events.map(({ data }) => data);
  }

  told(): Promise<Told> {
    return this.page.evaluate(() => window.told);
  }
}
