/** `examples/notifications`: rows of a table appear in a page, also those of a time without Encke. */

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { cp, mkdtemp, readFile, rm, symlink } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { openContext, openPage } from "./browser.js";
import { atEnd } from "./ends.js";
import { FILES } from "./front.js";
import { look } from "./look.js";
import { psql, startPostgres } from "./postgres.js";
import { root } from "./program.js";
import { Encke, until } from "./server.js";

const EXAMPLE = join(root(), "examples/notifications");

/** The backend as its README starts it; `pg` is what the tests have. */
async function startBackend(t: TestContext, variables: Record<string, string>) {
  const folder = await mkdtemp(join(tmpdir(), "encke-notifications-"));
  await cp(join(EXAMPLE, "backend.mjs"), join(folder, "backend.mjs"));
  await symlink(join(FILES, "node_modules"), join(folder, "node_modules"));
  const env = { ...process.env, ...variables };
  const child = spawn(process.execPath, ["backend.mjs"], { cwd: folder, env });
  const ended = once(child, "exit");
  let printed = "";
  child.stdout.on("data", (text) => (printed += text));
  child.stderr.on("data", (text) => (printed += text));
  atEnd(t, async () => {
    child.kill();
    await ended;
    await rm(folder, { recursive: true });
  });
  await until("it runs", async () => printed.includes("sending what the table has"));
}

/** The page from an origin of its own. */
async function servePage(t: TestContext): Promise<string> {
  const html = await readFile(join(EXAMPLE, "index.html"));
  const server = createServer((_, response) =>
    response.writeHead(200, { "Content-Type": "text/html" }).end(html),
  );
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  atEnd(t, () => server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

test("rows of a table appear in the page of their account, once and in order", async (t) => {
  const variables = await startPostgres(t);
  if (!variables) return;
  await psql(variables, await readFile(join(EXAMPLE, "schema.sql"), "utf8"));
  const insert = (account: string, message: string) =>
    psql(
      variables,
      `INSERT INTO notifications (account, message) VALUES ('${account}', '${message}')`,
    );
  const origin = await servePage(t);
  const server = await Encke.start(t, `--allow-origin=${origin}`);
  await startBackend(t, { ...variables, ENCKE_API: `http://${server.api}` });
  const context = await openContext(t);
  const url = `${origin}/?account=bob&server=http://${server.listen}`;
  // The server ends in the middle.
  const console = /net::ERR_/;
  const page = await openPage(t, context, url, { console, hosts: [server.listen] });
  await page.getByText("new notifications of bob appear here").waitFor();

  // No id has a space, so this one is refused for good.
  await insert("b b", "to nobody");
  await insert("bob", "first");
  await insert("eve", "not for bob");
  await insert("bob", "second");
  await page.getByText("second").waitFor();
  await look(page, "notifications");

  // Encke is away: the row waits in the table, and comes when it is back.
  const { listen, api } = server;
  await server.kill();
  await insert("bob", "third");
  assert.equal(await psql(variables, "SELECT count(*) FROM notifications WHERE NOT sent"), "1");
  await server.start(listen, api);
  await until("all rows are sent", async () => {
    return (await psql(variables, "SELECT count(*) FROM notifications WHERE NOT sent")) === "0";
  });
  assert.equal(await psql(variables, "SELECT count(*) FROM notifications WHERE sent"), "5");
});
