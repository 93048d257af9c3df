/** What the READMEs and `examples/` show, run against the real server. */

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { openContext, openPage } from "./browser.js";
import { atEnd } from "./ends.js";
import { Front } from "./front.js";
import { root } from "./program.js";
import { Encke, until } from "./server.js";

/** The entries of the package, as they are built. */
const ENTRIES = { encke: "encke.js", "encke/sse": "only-sse.js" };

/** The blocks of JavaScript in a document of the repository. */
async function snippets(path: string): Promise<string[]> {
  const text = await readFile(join(root(), path), "utf8");
  return [...text.matchAll(/^```js\n(.*?)^```/gms)].map(([, code]) => code);
}

/** Runs a snippet as a program of Node; what it prints grows in the result. */
async function run(t: TestContext, server: Encke, snippet: string) {
  const folder = await mkdtemp(join(tmpdir(), "encke-example-"));
  const file = join(folder, "example.mjs");
  let code = snippet.replace("127.0.0.1:8000", server.listen);
  for (const [entry, built] of Object.entries(ENTRIES)) {
    const { href } = new URL(`../dist/${built}`, import.meta.url);
    code = code.replace(`"${entry}"`, JSON.stringify(href));
  }
  assert.ok(!code.includes("from \"encke"), code);
  await writeFile(file, code);
  const child = spawn(process.execPath, [file], { stdio: ["ignore", "pipe", "pipe"] });
  const ended = once(child, "exit");
  const program = { printed: "", ended };
  child.stdout.on("data", (text) => (program.printed += text));
  child.stderr.on("data", (text) => (program.printed += text));
  atEnd(t, async () => {
    child.kill();
    await ended;
    await rm(folder, { recursive: true });
  });
  return program;
}

for (const path of ["README.md", "clients/js/README.md"]) {
  test(`every snippet of ${path} runs`, async (t) => {
    const server = await Encke.start(t);
    const codes = await snippets(path);
    assert.ok(codes.length > 0);
    for (const code of codes) {
      const program = await run(t, server, code);
      if (code.includes("close()")) {
        assert.deepEqual(await program.ended, [0, null], program.printed);
        continue;
      }
      await until("it prints what was sent", async () => {
        await server.send("bob", "hello");
        return /bob hello/.test(program.printed);
      });
    }
  });
}

test("example page shows its state and what it hears", async (t) => {
  const server = await Encke.start(t);
  const front = await Front.start(t, server);
  const context = await openContext(t);
  const url = `${front.origin}/e2e/examples/index.html?id=bob&server=${front.origin}`;
  const page = await openPage(t, context, url);
  await page.waitForFunction(() => document.querySelector("#state")?.textContent?.match(/open/));
  await server.send("bob", { hello: "page" });
  await page.waitForFunction(() => document.querySelector("#events li"));
  assert.equal(await page.textContent("#events li"), 'bob: {"hello":"page"}');
});
