/**
 * How long to wait before the next attempt: exponential, with full jitter.
 *
 * A random time below a ceiling that doubles spreads a crowd that lost its server at one moment
 * evenly, where a fixed time plus a little noise would bring it back in waves.
 */

/** A time for the attempt after `tries` failed ones; what the server asked for comes on top. */
export function backoffMs(tries: number, firstMs: number, mostMs: number, askedMs = 0): number {
  return askedMs + Math.random() * Math.min(mostMs, firstMs * 2 ** tries);
}
