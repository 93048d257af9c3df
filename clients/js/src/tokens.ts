/**
 * The token that streams are opened with: whom to ask for it, and when for the next one.
 *
 * A JSON Web Token (RFC 7519) says when it ends. A clock that is wrong must not make it look over,
 * or never over, so where the page's clock says that it is not good now, its whole life counts from
 * when it came. Nothing here checks a token, and no message shows one.
 */

import type { Options } from "./types.js";

/** So many refusals in a row count. */
const REFUSALS_MAX = 3;

/** A timer holds 24 days at most, and a token that is asked for each day is known to be had. */
const DAY_MS = 86_400_000;

/** The tokens of one connection. */
export class Tokens {
  #token = "";
  /** When the next one is asked for, by the clock; 0 or no number is before the next stream. */
  dueAt = 0;
  /** How many were refused since one was taken. */
  refusals = 0;

  constructor(readonly source: NonNullable<Options["token"]> = "") {}

  /** The one that lasts, else another one; empty where there is none. */
  async get(): Promise<string> {
    const { source } = this;
    if (!(Date.now() < this.dueAt)) {
      this.#token = typeof source === "string" ? source : await source();
      this.dueAt = Date.now() + lastsMs(this.#token);
    }
    // The platform's own words about a wrong header or sub-protocol would show it.
    if (/[^\w.-]/.test(this.#token)) {
      throw new Error("The token is no JWT");
    }
    return this.#token;
  }

  /** The server refuses it; whether another one may do better. */
  refused(): boolean {
    this.dueAt = 0;
    return ++this.refusals < REFUSALS_MAX;
  }
}

/**
 * How long to go on with a token that has just come: until 10 % of its time is left or 10 s, and,
 * lest a crowd come at one moment, up to twice that. NaN where it does not say.
 */
export function lastsMs(token: string): number {
  try {
    const claims = token.split(".")[1].replace(/-/g, "+").replace(/_/g, "/");
    const { iat, exp } = JSON.parse(atob(claims));
    const now = Date.now() / 1000;
    const left = exp - (now < exp && !(now < iat) ? now : iat);
    const early = Math.min(left / 4, Math.max(left / 10, 10)) * (1 + Math.random());
    // One that is given out until its very end is not asked for ever faster.
    return 1000 * Math.max(1, Math.min(DAY_MS / 1000, left - early));
  } catch {
    return NaN;
  }
}
