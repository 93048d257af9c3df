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
import { Secret } from "./sign.js";

/** The entries of the package, as they are built. */
const ENTRIES = { encke: "encke.js", "encke/sse": "only-sse.js" };

/** The blocks of JavaScript, or of another kind, in a document of the repository. */
async function snippets(path: string, kind = "js"): Promise<string[]> {
  const text = await readFile(join(root(), path), "utf8");
  return [...text.matchAll(/^```(\w+)\n(.*?)^```/gms)]
    .filter(([, of]) => of === kind)
    .map(([, , code]) => code);
}

/** Opens a page with that HTML, of the server's own origin; what it prints grows in `printed`. */
async function show(t: TestContext, front: Front, html: string, printed: string[] = []) {
  const context = await openContext(t);
  const url = `${front.origin}/shown.html`;
  // Without a picture of its own a page asks for one, which is not there.
  const body = `<!doctype html><link rel="icon" href="data:," />${html}`.replaceAll(
    "http://127.0.0.1:8000",
    front.origin,
  );
  await context.route(url, (route) => route.fulfill({ contentType: "text/html", body }));
  context.on("console", (message) => printed.push(message.text()));
  return openPage(t, context, url);
}

/** Runs a snippet as a program of Node; what it prints grows in the result. */
async function run(t: TestContext, server: Encke, snippet: string, env = {}) {
  const folder = await mkdtemp(join(tmpdir(), "encke-example-"));
  const file = join(folder, "example.mjs");
  let code = snippet.replace("127.0.0.1:8000", server.listen);
  for (const [entry, built] of Object.entries(ENTRIES)) {
    const { href } = new URL(`../dist/${built}`, import.meta.url);
    code = code.replace(`"${entry}"`, JSON.stringify(href));
  }
  assert.ok(!code.includes("from \"encke"), code);
  await writeFile(file, code);
  const child = spawn(process.execPath, [file], {
    env: { ...process.env, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
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

test("the page of docs/tutorial.md shows what is sent", async (t) => {
  const server = await Encke.start(t);
  const front = await Front.start(t, server);
  const [html] = await snippets("docs/tutorial.md", "html");
  const page = await show(t, front, html);
  await until("the page hears", async () => (await server.send("bob", { photo: 789 })) === 1);
  await page.waitForFunction(() => document.querySelector("#events li"));
  assert.match((await page.textContent("#events li"))!, /"data":\{"photo":789\}/);
});

test("the page of docs/backends.md hears what is sent", async (t) => {
  const server = await Encke.start(t);
  const front = await Front.start(t, server);
  const [html] = await snippets("docs/backends.md", "html");
  const heard: string[] = [];
  await show(t, front, html, heard);
  await until("the page hears", async () => (await server.send("bob", { text: "hi" })) === 1);
  await until("it prints that", async () => heard.length > 0);
});

test("what docs/moving.md shows for Encke runs", async (t) => {
  const server = await Encke.start(t);
  const shown = await snippets("docs/moving.md");
  const after = shown
    .filter((code) => code.startsWith("// after"))
    .map((code) => code.replace("https://push.example.org", "http://127.0.0.1:8000"));
  assert.equal(after.length, 4, "say how a new one is run");
  // Those between are of a program that `socketio.test.ts` runs.
  const [pusher, , , mercure] = after;
  const given = "const token = undefined, show = (data) => console.log(data.text);\n";
  const program = await run(t, server, `${given}${pusher}`);
  await until("it shows what it hears", async () => {
    await server.call("/send", { about: "chat:7", event: "message", data: { text: "hello" } });
    return /hello/.test(program.printed);
  });
  const front = await Front.start(t, server);
  await show(t, front, `<script>${mercure}</script>`);
  await until("the page listens", async () => (await server.connections("book:1")) === 1);
});

test("what docs/api-examples.md shows in JavaScript runs", async (t) => {
  const secret = await Secret.make();
  atEnd(t, () => secret.remove());
  const server = await Encke.start(t, `--token-key=${secret.file}`);
  const code = (await snippets("docs/api-examples.md")).join("\n");
  const program = await run(t, server, code, { ENCKE_API: `http://${server.api}` });
  assert.deepEqual(await program.ended, [0, null], program.printed);
  const id = "[0-9A-Za-z]{16}";
  const said = [
    "\\{ added: 1 \\}",
    `0 ${id}`,
    `\\{ delivered: 0, id: '${id}' \\}`,
    "\\[ 'bob' \\]\n0\n\\[\\]",
    "\\[[^]*event: 'typing'[^]*\\]",
    "1\npresence: ",
    "0",
    "true",
    "errors#bad-id: .+",
  ];
  assert.match(program.printed, new RegExp(`^${said.join("\n")}\n$`));
});
