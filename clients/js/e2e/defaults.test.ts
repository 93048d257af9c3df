/** The defaults of client and server fit each other, with a margin: the sum that docs tell of. */

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { OPEN_MS, RETRY_MAX_MS, SILENCE_MS } from "../src/connection.js";
import { WAIT_S } from "../src/poll.js";
import { FILES } from "./front.js";
import { PROGRAM } from "./program.js";

/** A network that vanishes without a word is noticed within this time. */
const NOTICED_MS = 38_000;

/** How long it may be gone without an event lost. */
const CUT_MS = 90_000;

/** By how much a keep-alive may be late: a tick of the server, and segments sent again. */
const LATE_MS = 5_000;

/** The default of an option of `encke serve`, by the program itself. */
async function serverDefault(option: string): Promise<number> {
  const { stdout } = await promisify(execFile)(PROGRAM, ["serve", "--help"]);
  const [, found] = new RegExp(`^ +--${option} <.*?\\[default: (\\d+)\\]`, "ms").exec(stdout) ?? [];
  assert.ok(found, `no default of --${option}: ${stdout}`);
  return Number(found);
}

test("silence is longer than keep-alives and polls may take, and noticed in time", async () => {
  const keepaliveMs = 1000 * (await serverDefault("keepalive"));
  assert.ok(keepaliveMs + LATE_MS < SILENCE_MS, `${keepaliveMs} ms between keep-alives`);
  assert.ok(1000 * WAIT_S + LATE_MS < SILENCE_MS, "an empty poll is answered before");
  assert.ok(SILENCE_MS / 3 > LATE_MS, "a ping of a WebSocket has time to be answered");
  assert.ok(SILENCE_MS + 1000 < NOTICED_MS, "timers may be late");
});

test("history lasts for a cut, its noticing, an attempt in vain and the longest wait", async () => {
  const historyMs = 1000 * (await serverDefault("history-seconds"));
  const awayMs = CUT_MS + NOTICED_MS + OPEN_MS + RETRY_MAX_MS;
  assert.ok(awayMs + 10_000 < historyMs, `${awayMs} ms away, ${historyMs} ms remembered`);
});

test("README says by which field each transport is told how long the first wait is", async () => {
  const readme = await readFile(join(FILES, "README.md"), "utf8");
  assert.match(readme, /`retry`, over long poll `Encke-Retry`/);
  assert.match(await readFile(join(FILES, "src/poll.ts"), "utf8"), /encke-retry/);
});
