/**
 * The program as a person starts it: a child that prints what a test waits for, and ends with it.
 *
 * It is what `ENCKE` names, else the debug build of this repository.
 */

import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import { atEnd } from "./ends.js";

/** The repository's root. */
export function root(): string {
  return fileURLToPath(new URL("../../..", import.meta.url));
}

export const PROGRAM = process.env.ENCKE ?? join(root(), "target/debug/encke");

export class Program {
  #text = "";
  readonly #child: ChildProcess;

  private constructor(path: string, args: string[], env: Record<string, string> = {}) {
    const further = { env: { ...process.env, ...env } };
    this.#child = spawn(path, args, { stdio: ["ignore", "pipe", "pipe"], ...further });
  }

  /** Starts it with `args`, and waits until it prints `words`. */
  static start(test: TestContext, words: string, ...args: string[]): Promise<Program> {
    return Program.startOf(PROGRAM, test, words, ...args);
  }

  /** Does so with another program than the server. */
  static async startOf(
    path: string,
    test: TestContext,
    words: string,
    ...args: string[]
  ): Promise<Program> {
    return Program.startIn({}, path, test, words, ...args);
  }

  /** Does so with further variables in its environment. */
  static async startIn(
    env: Record<string, string>,
    path: string,
    test: TestContext,
    words: string,
    ...args: string[]
  ): Promise<Program> {
    const program = new Program(path, args, env);
    atEnd(test, () => program.end("SIGTERM"));
    await program.#prints(words);
    return program;
  }

  #prints(words: string): Promise<void> {
    return new Promise((resolve, reject) => {
      const said = (text: Buffer) => {
        this.#text += text;
        if (this.#text.includes(words)) {
          resolve();
        }
      };
      this.#child.stdout?.on("data", said);
      this.#child.stderr?.on("data", said);
      this.#child.once("error", reject);
      this.#child.once("exit", () => reject(new Error(`it ended without ${words}: ${this.#text}`)));
    });
  }

  /** What follows `words` up to the next space. */
  told(words: string): string {
    const [, value] = this.#text.split(words);
    assert.ok(value, `no ${words} in ${this.#text}`);
    return value.split(/\s/)[0];
  }

  async end(signal: NodeJS.Signals): Promise<void> {
    if (this.#child.exitCode === null && this.#child.signalCode === null) {
      this.#child.kill(signal);
      await once(this.#child, "exit");
    }
  }
}

/** A demo on free ports that sends already: where its page is, and its API. */
export async function startDemo(
  test: TestContext,
  ...args: string[]
): Promise<{ url: string; api: string }> {
  const free = ["--listen=127.0.0.1:0", "--api=127.0.0.1:0"];
  const demo = await Program.start(test, "sending", "demo", ...free, ...args);
  return { url: demo.told("look     "), api: demo.told("API      http://").split("/")[0] };
}
