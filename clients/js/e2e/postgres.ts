/** A PostgreSQL for a test, at a socket in a folder of its own. */

import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { chown, mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir, userInfo } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { promisify } from "node:util";
import { atEnd } from "./ends.js";
import { until } from "./server.js";

const run = promisify(execFile);

/** Where Debian keeps a folder for each version. */
const VERSIONS = "/usr/lib/postgresql";

/** The folder of its programs, or `null`. */
async function programs(): Promise<string | null> {
  if (process.env.ENCKE_POSTGRES_BIN) return process.env.ENCKE_POSTGRES_BIN;
  const versions = await readdir(VERSIONS).catch(() => []);
  const newest = versions.sort((a, b) => Number(b) - Number(a))[0];
  return newest ? join(VERSIONS, newest, "bin") : null;
}

/** It does not run as root, so there it runs as the user `postgres`, whom its packages make. */
async function user(): Promise<{ uid?: number; gid?: number }> {
  if (userInfo().uid !== 0) return {};
  const id = async (what: string) => Number((await run("id", [what, "postgres"])).stdout);
  return { uid: await id("-u"), gid: await id("-g") };
}

/**
 * What `PGHOST` and its kind are for its database; `null`, and the test is skipped, where none is
 * installed.
 */
export async function startPostgres(test: TestContext): Promise<Record<string, string> | null> {
  const bin = await programs();
  if (!bin) {
    if (process.env.CI) throw new Error("PostgreSQL is missing");
    test.skip("PostgreSQL is not installed");
    return null;
  }
  const folder = await mkdtemp(join(tmpdir(), "encke-postgres-"));
  const as = await user();
  if (as.uid !== undefined && as.gid !== undefined) await chown(folder, as.uid, as.gid);
  const data = join(folder, "data");
  const init = ["-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync"];
  await run(join(bin, "initdb"), init, { ...as, cwd: "/" });
  const args = ["-D", data, "-k", folder, "-c", "listen_addresses=", "-c", "fsync=off"];
  const server = spawn(join(bin, "postgres"), args, { ...as, cwd: "/", stdio: "ignore" });
  const ended = once(server, "exit");
  atEnd(test, async () => {
    server.kill("SIGQUIT");
    await ended;
    await rm(folder, { recursive: true, force: true });
  });
  const variables = { PGHOST: folder, PGUSER: "postgres", PGDATABASE: "postgres" };
  await until("PostgreSQL takes connections", () =>
    psql(variables, "SELECT 1").then(
      () => true,
      () => false,
    ),
  );
  return variables;
}

/** Has `psql` do what `sql` says; what it prints. */
export async function psql(variables: Record<string, string>, sql: string): Promise<string> {
  const args = ["-v", "ON_ERROR_STOP=1", "-q", "-t", "-A", "-c", sql];
  const { stdout } = await run("psql", args, { env: { ...process.env, ...variables } });
  return stdout.trim();
}
