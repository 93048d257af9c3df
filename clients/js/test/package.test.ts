/** What is published: its files, and that it is found and typed by its name. */

import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { before, after, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { FakeServer, message, stream } from "./server.js";

const run = promisify(execFile);
const PACKAGE = fileURLToPath(new URL("..", import.meta.url));

/** A project that has the package installed, and what the package is made of. */
let project = "";
let files: string[] = [];

before(async () => {
  project = await mkdtemp(join(tmpdir(), "encke-package-"));
  const installed = join(project, "node_modules/encke");
  await mkdir(installed, { recursive: true });
  // `npm test` has built it. A script would print beside the JSON.
  const pack = ["pack", "--json", "--ignore-scripts", "--pack-destination", project];
  const [packed] = JSON.parse((await run("npm", pack, { cwd: PACKAGE })).stdout);
  files = packed.files.map(({ path }: { path: string }) => path);
  const archive = join(project, packed.filename);
  await run("tar", ["-xzf", archive, "--strip-components=1", "-C", installed]);
  await writeFile(join(project, "package.json"), '{"type":"module"}');
  // What some of its entries are for is the application's own.
  await mkdir(join(project, "node_modules/@types"));
  for (const name of ["react", "@types/react", "vue"]) {
    await symlink(join(PACKAGE, "node_modules", name), join(project, "node_modules", name));
  }
});

after(() => rm(project, { recursive: true, force: true }));

test("package has what its users take, and nothing else", () => {
  assert.deepEqual(files.sort(), [
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "dist/encke.js",
    "dist/encke.js.map",
    "dist/history.d.ts",
    "dist/history.js",
    "dist/history.js.map",
    "dist/index.d.ts",
    "dist/only-sse.d.ts",
    "dist/only-sse.js",
    "dist/only-sse.js.map",
    "dist/pusher.d.ts",
    "dist/pusher.js",
    "dist/pusher.js.map",
    "dist/react.d.ts",
    "dist/react.js",
    "dist/react.js.map",
    "dist/recent.d.ts",
    "dist/shared.d.ts",
    "dist/shared.js",
    "dist/shared.js.map",
    "dist/types.d.ts",
    "dist/vue.d.ts",
    "dist/vue.js",
    "dist/vue.js.map",
    "dist/worker.js",
    "dist/worker.js.map",
    "package.json",
  ]);
});

test("package is found by its name", async () => {
  const program = 'import { connect } from "encke"; console.log(typeof connect);';
  const flags = ["--input-type=module", "--eval", program];
  assert.equal((await run(process.execPath, flags, { cwd: project })).stdout, "function\n");
});

test("types are right for what the README shows, by each way of finding them", async () => {
  const readme = await readFile(join(PACKAGE, "README.md"), "utf8");
  const snippets = [...readme.matchAll(/^```(?:js|ts)\n(.*?)^```/gms)].map(([, code]) => code);
  assert.ok(snippets.length > 3);
  const names = snippets.map((_, at) => `snippet${at}.ts`);
  await Promise.all(names.map((name, at) => writeFile(join(project, name), snippets[at])));
  const compiler = join(PACKAGE, "node_modules/typescript/bin/tsc");
  const flags = ["--noEmit", "--strict", "--target", "es2022", "--lib", "es2023,dom"];
  for (const way of [["nodenext", "nodenext"], ["esnext", "bundler"]]) {
    const how = ["--module", way[0], "--moduleResolution", way[1]];
    const compile = run(process.execPath, [compiler, ...flags, ...how, ...names], { cwd: project });
    await compile.catch(({ stdout }) => assert.fail(stdout));
  }
});

/** What each block in JavaScript does with a server that has one event for `bob`. */
const SHOWN: [name: string, does: RegExp][] = [
  ["the first one", /^bob hello$/],
  ["listeners of all kinds", /^02 bob hello$/],
  ["a loop", /^bob hello$/],
  ["the small entry", /^bob hello$/],
  ["login, logout and close", /^ended: 0$/],
];

test("what the README shows runs", async (t) => {
  const readme = await readFile(join(PACKAGE, "README.md"), "utf8");
  const blocks = [...readme.matchAll(/^```js\n(.*?)^```/gms)].map(([, code]) => code);
  const runnable = blocks.filter((code) => /from "encke(\/sse)?"/.test(code));
  assert.equal(runnable.length, SHOWN.length, "say what a new block does");
  for (const [at, [name, does]] of SHOWN.entries()) {
    await t.test(name, async (t) => {
      const server = await FakeServer.start(t, { stream: stream(message("02", "hello")) });
      const program = join(project, `block${at}.mjs`);
      await writeFile(program, runnable[at].replace("http://127.0.0.1:8000", server.url));
      const child = spawn(process.execPath, [program], { stdio: ["ignore", "pipe", "inherit"] });
      t.after(() => child.kill());
      // Streams go on until the program ends; that is when the first thing is heard.
      const said = new Promise<string>((resolve) => {
        createInterface(child.stdout).once("line", resolve);
        child.once("close", (code) => resolve(`ended: ${code}`));
      });
      assert.match(await said, does);
      assert.notEqual(server.asked.length, 0);
    });
  }
});
