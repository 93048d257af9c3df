/**
 * The real server for a test: `encke serve` on free ports, with a data folder of its own.
 */

import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { TestContext } from "node:test";
import { setTimeout } from "node:timers/promises";
import { promisify } from "node:util";
import { atEnd } from "./ends.js";
import { PROGRAM } from "./program.js";

/** What is waited for: much longer than it takes on the busiest machine, and less than a test may. */
export const DEADLINE_MS = 120_000;

const ASK_AGAIN_MS = 5;

export class Encke {
  /** Where clients connect, as `127.0.0.1:41234`. */
  listen = "";
  /** Where applications connect. */
  api = "";
  /** Where clients connect by TLS, if they do: the same address after every start. */
  tlsListen = "";
  /** It was not killed: who has its ports otherwise is another one. */
  isUp = false;
  #process?: ChildProcess;
  /** All that it printed to standard error, for a test that fails. */
  #log = "";

  private constructor(
    readonly data: string,
    readonly options: string[],
  ) {}

  /** Starts one with further `options`; it ends with the test. */
  static async start(test: TestContext, ...options: string[]): Promise<Encke> {
    const data = await mkdtemp(join(tmpdir(), "encke-e2e-"));
    const server = new Encke(data, options);
    atEnd(test, async () => {
      await server.kill();
      await rm(data, { recursive: true, force: true });
    });
    await server.start();
    return server;
  }

  /** Starts it, again or for the first time, on other free ports or on these; TLS stays at its own. */
  async start(listen?: string, api?: string): Promise<void> {
    for (;;) {
      const before = this.#log.length;
      try {
        return await this.#startAt(listen ?? (await freeAddress()), api ?? (await freeAddress()));
      } catch (error) {
        // Another test's server may have taken a port that was free a moment ago.
        const isTaken = this.#log.slice(before).includes("Address already in use");
        if (!isTaken || (listen && api)) {
          throw error;
        }
      }
    }
  }

  async #startAt(listen: string, api: string): Promise<void> {
    const fixed = [`--listen=${listen}`, `--api=${api}`, "--json", "--workers=2"];
    const tls = this.tlsListen && [`--tls-listen=${this.tlsListen}`];
    const options = this.options.filter((option) => !tls || !option.startsWith("--tls-listen="));
    const args = ["serve", ...fixed, "--data", this.data, ...options, ...(tls || [])];
    const child = spawn(PROGRAM, args, { stdio: ["ignore", "pipe", "pipe"] });
    this.#process = child;
    child.stderr.on("data", (text) => (this.#log += text));
    const failed = new Promise<never>((_, reject) => {
      child.once("error", reject);
      child.once("exit", () => reject(new Error(`encke serve ended: ${this.#log}`)));
    });
    failed.catch(() => {});
    const [line] = await Promise.race([once(createInterface(child.stdout), "line"), failed]);
    const told = JSON.parse(line);
    this.listen = told.listen;
    this.api = told.api;
    this.tlsListen = told.tls_listen ?? "";
    this.isUp = true;
  }

  /** Asks it to end in order, and does not wait. */
  end(): void {
    this.#process?.kill("SIGTERM");
  }

  /** Waits for the end of the process that runs now. */
  async ended(): Promise<void> {
    await once(this.#process!, "exit");
  }

  /** Another process of the same program inherits all that this one has. */
  async upgrade(): Promise<void> {
    await promisify(execFile)(PROGRAM, ["upgrade", "--data", this.data]);
  }

  /** Ends it as a power failure would. */
  async kill(): Promise<void> {
    const child = this.#process;
    this.isUp = false;
    // Whoever has inherited is no child of ours; its number stands in the lock of the store.
    const owner = Number(await readFile(join(this.data, "lock"), "utf8").catch(() => ""));
    if (owner > 0 && owner !== child?.pid) {
      process.kill(owner, "SIGKILL");
    }
    if (child && child.exitCode === null && child.signalCode === null) {
      child.kill("SIGKILL");
      await once(child, "exit");
    }
  }

  /** Sends an event; returns how many connections heard it. */
  async send(about: string, data: unknown): Promise<number> {
    return (await this.call("/send", { about, data })).delivered;
  }

  async subscribe(subscriber: string, subscribee: string): Promise<void> {
    await this.call("/subscriptions/add", [{ subscriber, subscribee }]);
  }

  /** Makes a key for the API with `scopes`; from then on all calls need one. */
  async newKey(scopes: string): Promise<string> {
    const args = ["key", "new", "--scope", scopes, "--data", this.data];
    return (await promisify(execFile)(PROGRAM, args)).stdout.trim();
  }

  /** How many connections the id has. */
  async connections(id: string): Promise<number> {
    return (await this.call(`/connections/${encodeURIComponent(id)}`)).connections;
  }

  /** One call of the API; a body makes it a POST. */
  async call(path: string, body?: unknown): Promise<any> {
    const headers = { "content-type": "application/json" };
    const post = { method: "POST", headers, body: JSON.stringify(body) };
    const answer = await fetch(`http://${this.api}${path}`, body === undefined ? {} : post);
    if (!answer.ok) {
      throw new Error(`${path}: ${await answer.text()}`);
    }
    return answer.json();
  }
}

/**
 * One to take again after an end: not of those ports that the kernel gives to anybody, nor of those
 * that the tests of the server, of Python and of Go take.
 */
export async function freeAddress(): Promise<string> {
  for (;;) {
    const port = 26_000 + Math.floor(2_000 * Math.random());
    const taken = createServer();
    const isFree = await new Promise<boolean>((resolve) => {
      taken.once("error", () => resolve(false));
      taken.listen(port, "127.0.0.1", () => resolve(true));
    });
    if (isFree) {
      await new Promise((closed) => taken.close(closed));
      return `127.0.0.1:${port}`;
    }
  }
}

/** Waits until `check` holds, by asking again; only a test that fails waits long. */
export async function until(what: string, check: () => Promise<boolean>): Promise<void> {
  const deadline = performance.now() + DEADLINE_MS;
  while (!(await check())) {
    if (performance.now() > deadline) {
      throw new Error(`not in time: ${what}`);
    }
    // One that asks all the time would keep a busy machine from answering.
    await setTimeout(ASK_AGAIN_MS);
  }
}
