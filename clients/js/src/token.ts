/**
 * The token that a stream is opened with, asked for before each.
 *
 * `tokens.ts` has the one that keeps a token as long as it lasts, and renews it in time. Nothing
 * here checks a token, and no message shows one.
 */

import type { Attempt } from "./attempt.js";
import type { Failure, Options } from "./types.js";

/** So many refusals in a row count. */
const REFUSALS_MAX = 3;

/** The tokens of one connection. */
export class Token {
  /** When the next one is asked for, by the clock; 0 or no number is before the next stream. */
  dueAt = 0;
  /** How many were refused since one was taken. */
  refusals = 0;

  constructor(readonly source: NonNullable<Options["token"]> = "") {}

  /** The next one; empty where there is none. */
  async get(): Promise<string> {
    const { source } = this;
    const token = typeof source === "string" ? source : await source();
    // The platform's own words about a wrong header or sub-protocol would show it.
    if (/[^\w.-]/.test(token)) {
      throw new Error("The token is no JWT");
    }
    return token;
  }

  /** The server refuses it; whether another one may do better. */
  refused(): boolean {
    this.dueAt = 0;
    return ++this.refusals < REFUSALS_MAX;
  }

  /** It opened `stream`; or goes on with it, after the next one failed. */
  taken(_stream: Attempt, _failure?: Failure): void {
    this.refusals = 0;
  }
}
