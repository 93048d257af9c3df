/**
 * `examples/assistant`: what `useChat` of the AI SDK shows is whole, though the page is loaded
 * again, the server is killed and upgraded, and a second tab comes, all in the middle of an answer.
 */

import { cp, mkdtemp, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { isDeepStrictEqual } from "node:util";
import type { Page } from "playwright-core";
import { openContext, openPage } from "./browser.js";
import { atEnd } from "./ends.js";
import { Gate } from "./gate.js";
import { look } from "./look.js";
import { Program, root } from "./program.js";
import { Encke, until } from "./server.js";

/** The answer begins with them. */
const WORDS = Array.from({ length: 200 }, (_, n) => `w${n}.`);
const ANSWER = `You asked: ${WORDS.join(" ")} Here is an answer that comes word by word. `;

/** A copy of the example with the libraries that its lock names. */
async function copy(t: TestContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "encke-assistant-"));
  atEnd(t, () => rm(folder, { recursive: true, force: true }));
  for (const file of ["backend.mjs", "index.html", "page.jsx", "package.json"]) {
    await cp(join(root(), "examples/assistant", file), join(folder, file));
  }
  const libraries = join(root(), "target/tools/examples/assistant/node_modules");
  await symlink(libraries, join(folder, "node_modules"));
  return folder;
}

const shows = (page: Page, n: number) => page.locator(".assistant", { hasText: `w${n}.` }).waitFor();

test("an answer is whole over a reload, kill -9, an upgrade and a second tab", async (t) => {
  const server = await Encke.start(t, "--streams", "--allow-origin=*");
  const gate = await Gate.make(t, server);
  const url = `http://${server.listen}`;
  const env = { ENCKE_API: gate.url, ENCKE_URL: url, PORT: "0", PAUSE_MS: "1" };
  const path = join(await copy(t), "backend.mjs");
  const backend = await Program.startIn(env, process.execPath, t, "http://", path);
  // The line that breaks.
  const expected = { hosts: [server.listen], console: /net::ERR/, throws: /network error/ };
  const context = await openContext(t);
  const page = await openPage(t, context, `http://${backend.told("http://")}`, expected);
  await page.getByLabel("Your question").fill(WORDS.join(" "));
  await page.getByRole("button", { name: "Ask" }).click();
  // Before the first word there are four calls.
  gate.pass(40);
  await shows(page, 20);
  await page.reload();
  gate.pass(40);
  await shows(page, 60);
  await server.kill();
  await server.start(server.listen, server.api);
  gate.pass(40);
  await shows(page, 100);
  await server.upgrade();
  gate.pass(40);
  await shows(page, 140);
  const tab = await openPage(t, context, page.url(), expected);
  await shows(tab, 140);
  gate.pass(Infinity);
  const isWhole = async (page: Page) => {
    const told = await page.locator("#messages span").allTextContents();
    const state = await page.textContent("#state");
    return state === "ready" && isDeepStrictEqual(told, [WORDS.join(" "), ANSWER]);
  };
  await until("it is whole", () => isWhole(page));
  await until("it is whole in the other tab", () => isWhole(tab));
  // Who comes when all is over has it too.
  await page.reload();
  await until("it is whole again", () => isWhole(page));
  await look(page, "assistant");
});
