/**
 * The client of Encke: events pushed to browsers and Node over WebSocket, SSE or long poll.
 *
 * The protocol stands in the project's `docs/protocol.md`. `only-sse.ts` and `shared.ts` are the
 * package's other entries.
 */

import { Live, type Parts } from "./connection.js";
import { iterate } from "./iterate.js";
import type { Transport } from "./link.js";
import { poll } from "./poll.js";
import { SpokenIds } from "./spoken.js";
import { sse } from "./sse.js";
import { Tokens } from "./tokens.js";
import type { Connection, EnckeEvent, Failure, Options } from "./types.js";
import { Ways } from "./ways.js";
import { websocket } from "./websocket.js";

const PARTS: Parts = {
  kinds: { websocket: websocket as Transport, sse, poll },
  ids: SpokenIds,
  tokens: Tokens,
  way: Ways,
};

/** Connects to the server at `url`: its public port, or the path that a proxy gives it. */
export function connect<T = unknown>(url: string | URL, options: Options): Connection<T> {
  return new Loop<T>(url, options);
}

/** A connection that can be looped over. */
class Loop<T> extends Live<T> implements Connection<T> {
  #refusal?: Failure;

  constructor(url: string | URL, options: Options) {
    super(PARTS, url, options);
    this.on("state", (state, why) => {
      this.#refusal = state === "closed" ? why : undefined;
    });
  }

  [Symbol.asyncIterator](): AsyncGenerator<EnckeEvent<T>, void> {
    return iterate<T>(this, () => this.#refusal);
  }
}

export type * from "./types.js";
