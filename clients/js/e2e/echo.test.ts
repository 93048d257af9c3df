/** `examples/echo`: two talk over Laravel Echo, and see each other come, type and go. */

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { promisify } from "node:util";
import type { Page } from "playwright-core";
import { openContext, openPage } from "./browser.js";
import { atEnd } from "./ends.js";
import { leave } from "./leave.js";
import { PROGRAM, Program, root } from "./program.js";
import { Encke } from "./server.js";

/** What `cargo xtask programs` has fetched, at the versions of the example. */
const PACKAGES = join(root(), "target/tools/compat/pusher-node/node_modules");

/** The example in a folder of its own, with its packages and an app. */
async function copy(t: TestContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "encke-echo-"));
  atEnd(t, () => rm(folder, { recursive: true, force: true }));
  await cp(join(root(), "examples/echo"), folder, { recursive: true });
  await symlink(PACKAGES, join(folder, "node_modules"));
  const args = ["pusher", "app", "new", "--client-events", "--json", "--file"];
  const made = await promisify(execFile)(PROGRAM, [...args, join(folder, "apps.json")]);
  await writeFile(join(folder, "app.json"), made.stdout);
  return folder;
}

/** Comes in under a name, in a browser of its own. */
async function comeIn(t: TestContext, url: string, name: string, server: Encke): Promise<Page> {
  const page = await openPage(t, await openContext(t), url, { hosts: [server.listen] });
  await page.getByLabel("Your name").fill(name);
  await page.getByRole("button", { name: "Come in" }).click();
  await page.locator("#here", { hasText: name }).waitFor();
  return page;
}

test("echo: two talk, and see each other come, type and go", async (t) => {
  const folder = await copy(t);
  const path = join(folder, "backend.mjs");
  const lines = (await readFile(path, "utf8")).trimEnd().split("\n").length;
  assert.ok(lines < 40, `${lines} lines`);
  const apps = `--pusher-apps=${join(folder, "apps.json")}`;
  const server = await Encke.start(t, apps, "--allow-origin=*", "--presence-grace=0");
  const env = { APP: join(folder, "app.json"), API: server.api, WS: server.listen, PORT: "0" };
  const backend = await Program.startIn(env, process.execPath, t, "http://", path);
  const url = `http://${backend.told("http://")}/`;
  const ann = await comeIn(t, url, "ann", server);
  const bob = await comeIn(t, url, "bob", server);
  await ann.locator("#here", { hasText: "ann, bob" }).waitFor();
  // It is shown for a moment only, so bob's page is looked at meanwhile.
  const typing = bob.locator("#typing", { hasText: "ann is typing" }).waitFor();
  await ann.getByLabel("Message", { exact: true }).pressSequentially("Hello, <b>Bob</b>!");
  await typing;
  await ann.getByRole("button", { name: "Send" }).click();
  for (const page of [ann, bob]) {
    await page.locator("#messages li").first().waitFor();
    const said = await page.locator("#messages li").allTextContents();
    assert.deepEqual(said, ["ann: Hello, <b>Bob</b>!"]);
  }
  await bob.close();
  await ann.locator("#here", { hasText: /^ann$/ }).waitFor();
  // What nobody's page asks ends it for nobody.
  assert.equal((await fetch(`${url}/`)).status, 404);
  await leave(`${url}say?name=a`);
  for (const path of ["say?name=a", "broadcasting/auth?name=a"]) {
    await fetch(url + path, { method: "POST" });
  }
  await ann.close();
  await server.kill();
  const body = new URLSearchParams({ text: "anybody?" });
  assert.equal((await fetch(`${url}say?name=a`, { method: "POST", body })).status, 502);
  assert.equal((await fetch(url)).status, 200, "it serves its page still");
});
