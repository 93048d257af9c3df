/**
 * Which transport a connection takes, and which after that.
 *
 * A transport that fails before it has opened is followed by the next one at once, and after the
 * last by a wait. One that opened is begun with for some time, by later connections of the page to
 * the same address too, so a blocked one is not tried at each turn, and not forgotten for good.
 *
 * A server that is full or gone is spared the other transports: what says that it is full is asked
 * again alone, and what has opened before is tried once more after a wait.
 */

import type { Token } from "./token.js";
import type { Failure, TransportName } from "./types.js";
import { Way } from "./way.js";

/** From the best to the most widely let through. */
const ALL = ["websocket", "sse", "poll"] as const;

/** How long a transport that opened is begun with. */
const PROVEN_MS = 600_000;

/** By address, which transport opened last and when. */
const proven = new Map<string, { name: TransportName; at: number }>();

/** The choice of one connection. */
export class Ways extends Way {
  #order: TransportName[];
  #missed = 0;

  constructor(
    names: readonly TransportName[] = ALL,
    readonly base: string,
  ) {
    super(names, base);
    this.#order = names.filter((name) => name !== "websocket" || globalThis.WebSocket);
    this.begin(false);
  }

  override proven(isWhole: boolean): void {
    if (isWhole) {
      proven.set(this.base, { name: this.name, at: performance.now() });
    }
    this.#missed = 0;
  }

  override begin(isOther: boolean): void {
    const { name, at } = proven.get(this.base) ?? { at: 0 };
    const isFit = !isOther && performance.now() - at < PROVEN_MS;
    this.name = (isFit && this.#order.find((one) => one === name)) || this.#order[0];
  }

  override failed(why: Failure, tokens: Token): boolean {
    const order = this.#order;
    if (this.name === "websocket" && !order[1]) {
      // Why it was refused nobody will hear.
      tokens.dueAt = 0;
    }
    if (why.status === 401) {
      this.name = order[0];
    } else if (proven.get(this.base)?.name === this.name) {
      // It is the server that is not there, more likely than the way.
      proven.delete(this.base);
    } else if (!why.retryAfterMs) {
      this.name = order[(order.indexOf(this.name) + 1) % order.length];
      return !!(++this.#missed % order.length);
    }
    return false;
  }
}
