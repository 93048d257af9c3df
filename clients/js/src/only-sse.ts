/**
 * The small client: Server-Sent Events alone, resumed without loss.
 *
 * The same connection as that of `index.ts` without WebSocket and long poll, and with a token that
 * is asked for before each stream instead of being kept and renewed; and without `for await`.
 */

import { Live, type Parts } from "./connection.js";
import { Ids } from "./ids.js";
import { sse } from "./sse.js";
import { Token } from "./token.js";
import type { BaseConnection, Options } from "./types.js";
import { Way } from "./way.js";

const PARTS: Parts = { kinds: { sse }, ids: Ids, tokens: Token, way: Way };

/** Connects to the server at `url`: its public port, or the path that a proxy gives it. */
export function connect<E = unknown>(
  url: string | URL,
  options: Omit<Options, "transports" | "queueMax" | "queueMs">,
): BaseConnection<E> {
  return new Live<E>(PARTS, url, options);
}

export type * from "./types.js";
