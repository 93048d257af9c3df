/** A NATS server for a test, on a free port: what `ENCKE_NATS_SERVER` names, or what there is. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { TestContext } from "node:test";
import { atEnd } from "./ends.js";
import { root } from "./program.js";

const PLACES = [
  process.env.ENCKE_NATS_SERVER,
  join(root(), "target/tools/bin/nats-server"),
  "/usr/sbin/nats-server",
  "/usr/bin/nats-server",
];

/** Where it is; `null`, and the test is skipped, where none is installed. */
export async function startNats(test: TestContext): Promise<string | null> {
  const program = PLACES.find((place) => place && existsSync(place));
  if (!program) {
    if (process.env.CI) throw new Error("nats-server is missing");
    test.skip("nats-server is not installed");
    return null;
  }
  const store = await mkdtemp(join(tmpdir(), "encke-nats-"));
  const args = ["-js", "-sd", store, "-a", "127.0.0.1", "-p", "-1"];
  const child = spawn(program, args, { stdio: ["ignore", "ignore", "pipe"] });
  atEnd(test, async () => {
    child.kill("SIGKILL");
    await once(child, "exit");
    await rm(store, { recursive: true, force: true });
  });
  let address: string | undefined;
  for await (const line of createInterface(child.stderr)) {
    address ??= /client connections on (\S+)/.exec(line)?.[1];
    if (address && line.includes("Server is ready")) break;
  }
  child.stderr.resume();
  if (!address) throw new Error("nats-server ended");
  return `nats://${address}`;
}
