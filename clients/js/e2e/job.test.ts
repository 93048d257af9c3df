/**
 * `examples/job`: what a job prints is whole in a page with a bare `EventSource`, over a reload, a
 * kill and an upgrade in the middle of it, and the page knows when it has ended.
 */

import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import type { Page } from "playwright-core";
import { openContext, openPage } from "./browser.js";
import { files } from "./files.js";
import { look } from "./look.js";
import { Program, root } from "./program.js";
import { Encke } from "./server.js";

const LINES = 150;

/** A job that prints its lines one by one. */
const JOB = `
import time
for n in range(${LINES}):
    print(f"line {n}.", flush=True)
    time.sleep(0.04)
`;

const LOG = `${Array.from({ length: LINES }, (_, n) => `line ${n}.\n`).join("")}The exit code is 0.\n`;

const shows = (page: Page, n: number) =>
  page.locator("#log", { hasText: `line ${n}.` }).waitFor();

test("a job's log is whole over a reload, kill -9 and an upgrade, and it ends", async (t) => {
  const origin = await files(t);
  const server = await Encke.start(t, "--streams", `--allow-origin=${origin}`);
  const env = { ENCKE_API: `http://${server.api}`, PAGE: `${origin}/examples/job/index.html` };
  const command = [join(root(), "examples/job/job.py"), "python3", "-c", JOB];
  const job = await Program.startIn(env, "python3", t, "job=", ...command);
  const query = new URLSearchParams({ server: `http://${server.listen}`, job: job.told("job=") });
  // The line that breaks.
  const expected = { hosts: [server.listen], console: /net::ERR/ };
  const page = await openPage(t, await openContext(t), `${env.PAGE}?${query}`, expected);
  await shows(page, 20);
  await page.reload();
  await shows(page, 40);
  await server.kill();
  await server.start(server.listen, server.api);
  await shows(page, 70);
  await server.upgrade();
  await page.getByText("The job has ended.").waitFor();
  assert.equal(await page.textContent("#log"), LOG);
  // Who comes when all is over has it too.
  await page.reload();
  await page.getByText("The job has ended.").waitFor();
  assert.equal(await page.textContent("#log"), LOG);
  await look(page, "job");
});
