/**
 * The token that streams are opened with: whom to ask for it, and when for the next one.
 *
 * A JSON Web Token (RFC 7519) says when it ends. A clock that is wrong must not make it look over,
 * or never over, so where the page's clock says that it is not good now, its whole life counts from
 * when it came.
 */

import type { Attempt } from "./attempt.js";
import type { SpokenIds } from "./spoken.js";
import { Token } from "./token.js";
import type { Failure } from "./types.js";

/** A timer holds 24 days at most, and a token that is asked for each day is known to be had. */
const DAY_MS = 86_400_000;

/** The tokens of one connection, each kept as long as it lasts. */
export class Tokens extends Token {
  #token = "";

  /** The one that lasts, else another one. */
  override async get(): Promise<string> {
    if (!(Date.now() < this.dueAt)) {
      this.#token = await super.get();
      this.dueAt = Date.now() + lastsMs(this.#token);
    }
    return this.#token;
  }

  override taken(stream: Attempt, failure?: Failure): void {
    super.taken(stream);
    if (failure) {
      const { ears, openMs } = stream.shared;
      // The stream goes on as long as the one is good that it has.
      this.dueAt = Date.now() + (openMs || 10_000);
      ears.complain(failure);
    }
    if (this.dueAt) {
      stream.renewal = setTimeout(() => this.#renew(stream), this.dueAt - Date.now());
    }
  }

  /** Shows the next token: over the open stream, or by another one that goes on where it is. */
  async #renew(stream: Attempt): Promise<void> {
    const token = await this.get().catch((why: Failure) => why);
    if (stream.signal.aborted) {
      return;
    }
    if (typeof token !== "string") {
      this.taken(stream, token);
    } else if (token === stream.token) {
      this.taken(stream);
    } else if ((stream.shared.ids as SpokenIds).say({ token })) {
      stream.token = token;
    } else {
      stream.shared.again();
    }
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
