/**
 * The past of an id in pages, as the server answers it to clients (`GET /events/{id}`).
 *
 * An entry of its own: a page that shows no past loads nothing of it. It needs no connection, since
 * what a page shows first is often the past.
 */

import { baseOf } from "./base.js";
import { refusal } from "./failure.js";
import { Token } from "./token.js";
import type { AnyEvent, Failure, Id, Options } from "./types.js";

/** Which events, and how many at once. */
export interface HistoryOptions {
  /** The token of this client, as for a connection. It must grant the id in `encke.history`. */
  token?: Options["token"];
  /** Only events after this one, by its id. */
  after?: string;
  /** Only events before this one, by its id. */
  before?: string;
  /** So many events in a page at most: 1 to 1,000. Long events make pages shorter. 100. */
  limit?: number;
  /** Begins with the newest event and goes back, in place of the other way. `false`. */
  newestFirst?: boolean;
}

/** Some of the events, in the order that was asked for. */
export interface HistoryPage<E = unknown> {
  readonly events: readonly AnyEvent<E>[];
  /** Events between these and what was asked for may be forgotten. */
  readonly gap: boolean;
}

/** So many times in a row a page is asked for, where the server is busy or one asks too often. */
const TRIES_MAX = 5;

/**
 * The events about `id` at the server at `url`, a page at a time. The next page is asked for when
 * the loop wants it. Rejects with what the server says if it refuses one.
 */
export async function* history<E = unknown>(
  url: string | URL,
  id: Id,
  { token, after, before, limit, newestFirst }: HistoryOptions = {},
): AsyncGenerator<HistoryPage<E>, void> {
  const tokens = new Token(token);
  const at = baseOf(url);
  at.pathname += `events/${encodeURIComponent(id)}`;
  const query = { after, before, limit, order: newestFirst && "desc" };
  Object.entries(query).forEach(([name, value]) => value && at.searchParams.set(name, `${value}`));
  let bearer = await tokens.get();
  for (let tries = 1; ; tries++) {
    const headers: HeadersInit = bearer ? { authorization: `Bearer ${bearer}` } : {};
    const response = await fetch(at, { headers });
    if (response.ok) {
      const { events, next, gap = false } = await response.json();
      yield { events, gap };
      if (!next) {
        return;
      }
      at.searchParams.set(newestFirst ? "before" : "after", next);
      tries = 0;
      continue;
    }
    const why: Failure = await refusal(response);
    const another = why.status === 401 && typeof token === "function";
    if (tries === TRIES_MAX || !(why.retryAfterMs || another)) {
      throw why;
    }
    if (another) {
      // A token may end between two pages.
      tries = TRIES_MAX - 1;
      bearer = await tokens.get();
    } else {
      await new Promise((resolve) => setTimeout(resolve, why.retryAfterMs));
    }
  }
}

export type { AnyEvent, EnckeEvent, Failure, Id } from "./types.js";
