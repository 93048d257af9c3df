/**
 * The real daemon for a test, on free ports and with folders of its own, and a person's calls of it.
 *
 * It is what `PLAYDAR` names, else the debug build of this repository.
 */

import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import { openPage, type Expected } from "../../../clients/js/e2e/browser.js";
import { atEnd } from "../../../clients/js/e2e/ends.js";
import { Program, root } from "../../../clients/js/e2e/program.js";
import { until } from "../../../clients/js/e2e/server.js";

const PLAYDAR = process.env.PLAYDAR ?? join(root(), "target/debug/playdar");

/** The resolver that answers in pieces. */
export const TAIL = fileURLToPath(new URL("tail.mjs", import.meta.url));

/** A tab with the page, as the helpers of `clients/js` open it. */
export type Page = Awaited<ReturnType<typeof openPage>>;

export class Daemon {
  private constructor(
    /** `http://127.0.0.1:PORT`, which is its page too. */
    readonly origin: string,
    /** The base address of its streams. */
    readonly streams: string,
  ) {}

  /** Starts one with further `options`; it ends with the test. */
  static async start(test: TestContext, ...options: string[]): Promise<Daemon> {
    const data = await mkdtemp(join(tmpdir(), "playdar-e2e-"));
    atEnd(test, () => rm(data, { recursive: true, force: true }));
    const args = ["--listen=127.0.0.1:0", `--data=${data}`, ...options];
    const program = await Program.startOf(PLAYDAR, test, "ready", ...args);
    const origin = new URL(program.told("page     ")).origin;
    let streams = "";
    // A question goes to those alone who have said what they are.
    await until("its scripts are asked", async () => {
      const stat = await (await fetch(`${origin}/api/?method=stat`)).json();
      ({ streams } = stat);
      const names: string[] = stat.resolvers.map(({ name }: { name: string }) => name);
      return !options.includes(TAIL) || names.includes("tail");
    });
    assert.match(streams, /^http:\/\/127\.0\.0\.1:\d+$/);
    return new Daemon(origin, streams);
  }

  /** Opens its page; an error on the console, the policy's too, fails the test. */
  open(test: TestContext, context: Parameters<typeof openPage>[1], hash = "", expected: Expected = {}): Promise<Page> {
    const hosts = [new URL(this.streams).host, ...(expected.hosts ?? [])];
    return openPage(test, context, `${this.origin}/${hash}`, { ...expected, hosts });
  }

  /** Lets a page in as a person does who allows it; its token. */
  async letIn(name: string, website: string): Promise<string> {
    const asked = new URLSearchParams({ website, name, json: "1" });
    const form = await this.json(`/auth_1/?${asked}`);
    asked.set("formtoken", form.formtoken);
    const { authtoken } = await this.json("/auth_2/", { method: "POST", body: asked });
    return authtoken;
  }

  /** The answer to a call, which must be one. */
  async json(path: string, init?: RequestInit): Promise<any> {
    const answer = await fetch(this.origin + path, init);
    assert.ok(answer.ok, `${path}: ${answer.status} ${await answer.clone().text()}`);
    return answer.json();
  }
}

/** Fills in the question and asks it. */
export async function search(page: Page, artist: string, track: string): Promise<void> {
  await page.fill("#artist", artist);
  await page.fill("#track", track);
  await page.press("#track", "Enter");
}

/** Waits until there are so many answers. */
export async function answers(page: Page, count: number): Promise<void> {
  await page.locator("#results li").nth(count - 1).waitFor();
}

/** Waits for what the page says of its connection. */
export async function state(page: Page, words: string): Promise<void> {
  await page.locator("#state-words", { hasText: words }).waitFor();
}
