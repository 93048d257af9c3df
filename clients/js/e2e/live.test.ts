/** `examples/dashboard`: figures of a backend move in a page that nginx serves. */

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { copyFile, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { openContext, openPage } from "./browser.js";
import { atEnd } from "./ends.js";
import { look } from "./look.js";
import { root } from "./program.js";
import { Encke, freeAddress, until } from "./server.js";

const EXAMPLE = join(root(), "examples/dashboard");

const NGINX = ["/usr/sbin/nginx", "/usr/bin/nginx"];

/** nginx with the example's settings, at a free port and before `server`; its origin. */
async function startNginx(t: TestContext, server: Encke): Promise<string | null> {
  const program = NGINX.find((path) => existsSync(path));
  if (!program) {
    if (process.env.CI) throw new Error("nginx is missing");
    t.skip("nginx is not installed");
    return null;
  }
  const folder = await mkdtemp(join(tmpdir(), "encke-nginx-"));
  await copyFile(join(EXAMPLE, "index.html"), join(folder, "index.html"));
  const settings = await readFile(join(EXAMPLE, "nginx.conf"), "utf8");
  const address = await freeAddress();
  const here = settings
    .replaceAll("127.0.0.1:8080", address)
    .replace("127.0.0.1:8000", server.listen)
    // Workers of root's nginx are another user's, who may not enter a private folder.
    .replace("events {}", `events {} ${process.getuid?.() === 0 ? "user root;" : ""}`);
  await writeFile(join(folder, "nginx.conf"), here);
  const child = spawn(program, ["-p", folder, "-c", "nginx.conf"], { stdio: "ignore" });
  const ended = once(child, "exit");
  atEnd(t, async () => {
    child.kill("SIGTERM");
    await ended;
    await rm(folder, { recursive: true });
  });
  const origin = `http://${address}`;
  await until("nginx answers", () =>
    fetch(origin).then(
      (answer) => answer.ok,
      () => false,
    ),
  );
  return origin;
}

function startBackend(t: TestContext, server: Encke) {
  const env = { ...process.env, ENCKE_API: `http://${server.api}` };
  const child = spawn(process.execPath, ["backend.mjs"], { cwd: EXAMPLE, env, stdio: "ignore" });
  const ended = once(child, "exit");
  atEnd(t, async () => {
    child.kill();
    await ended;
  });
}

test("figures move in the page of the dashboard, also after Encke was away", async (t) => {
  const server = await Encke.start(t, "--trust=127.0.0.1");
  const origin = await startNginx(t, server);
  if (!origin) return;
  startBackend(t, server);
  const context = await openContext(t);
  const page = await openPage(t, context, `${origin}/`, { console: /net::ERR_|502/ });
  const points = async () =>
    (await page.getAttribute('polyline[data-of="busy"]', "points"))?.split(" ").length ?? 0;
  await until("a line is drawn", async () => (await points()) >= 3);
  assert.match((await page.textContent("#memory")) ?? "", /^\d+ %$/);
  await look(page, "dashboard-example");
  const { listen, api } = server;
  const before = await points();
  await server.kill();
  await server.start(listen, api);
  await until("the line grows again", async () => (await points()) > before + 1);
});
