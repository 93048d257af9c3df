/**
 * How long to wait before the next attempt: exponential, with full jitter.
 *
 * A random time below a ceiling that doubles spreads a crowd that lost its server at one moment
 * evenly, where a fixed time plus a little noise would bring it back in waves. What the server asks
 * for comes on top, and spreads at least over as long again: it tells a whole crowd the same.
 */

/** As many failed attempts as it takes for the longest ceiling. */
export const MOST_TRIES = 99;

/** A time for the attempt after `tries` failed ones, of which the server asked for `askedMs`. */
export function backoffMs(tries: number, firstMs: number, mostMs: number, askedMs = 0): number {
  return askedMs + Math.random() * Math.min(mostMs, Math.max(askedMs, firstMs * 2 ** tries));
}
