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
import { Talk } from "./talk.js";
import { sse } from "./sse.js";
import { Tokens } from "./tokens.js";
import type {
  AnyEvent,
  Connection,
  Failure,
  Id,
  Members,
  Options,
  SendOptions,
  Sent,
} from "./types.js";
import { Ways } from "./ways.js";
import { websocket } from "./websocket.js";

const PARTS: Parts = {
  kinds: { websocket: websocket as Transport, sse, poll },
  ids: SpokenIds,
  tokens: Tokens,
  way: Ways,
  talk: Talk,
};

/**
 * Connects to the server at `url`: its public port, or the path that a proxy gives it. `E` are the
 * application's events: their names, and the types of their data.
 */
export function connect<E = unknown>(url: string | URL, options: Options): Connection<E> {
  return new Loop<E>(url, options);
}

/** A connection that can be looped over, and talked to. */
class Loop<E> extends Live<E> implements Connection<E> {
  #refusal?: Failure;

  constructor(url: string | URL, options: Options) {
    super(PARTS, url, options);
    this.on("state", (state, why) => {
      this.#refusal = state === "closed" ? why : undefined;
    });
  }

  send(about: Id | readonly Id[], data: unknown, options?: SendOptions): Promise<Sent> {
    return this.talk.sends.send(about, data, options);
  }

  members<I>(id: Id): Members<I> {
    return this.talk.rooms.look(String(id)) as Members<I>;
  }

  [Symbol.asyncIterator](): AsyncGenerator<AnyEvent<E>, void> {
    return iterate<E>(this, () => this.#refusal);
  }
}

export type * from "./types.js";
