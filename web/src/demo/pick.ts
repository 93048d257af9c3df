// Whom to be: somebody who hears enough to see something at once.

import type { Api, Facts } from "./api";

/** News a second that is pleasant to look at. */
const PLEASANT_PER_SECOND = 1.5;

const TRIES = 6;

/** News a second that somebody hears who follows so many. */
export function expectedRate(facts: Facts, following: number): number {
  return (facts.events_per_second / facts.users) * (1 + following);
}

/** Somebody at random, but one with a pleasant number of friends if a few tries find one. */
export async function anybody(facts: Facts, api: Api): Promise<string> {
  const each = facts.events_per_second / facts.users;
  const wanted = Math.min(800, Math.max(12, PLEASANT_PER_SECOND / each));
  // In a graph that grew by preferential attachment the user `i` of `n` has friends by the square
  // root of n/i; its first ones have most of all.
  const share = Math.min(1, (15 / (15 + wanted)) ** 2);
  const among = Math.min(facts.users, Math.max(24, Math.round(facts.users * share)));
  let best = { id: "0", off: Infinity };
  for (let round = 0; round < TRIES; round++) {
    const id = String(Math.floor(Math.random() * among));
    try {
      const { ids } = await api.following(id);
      const off = Math.abs(Math.log((ids.length + 1) / (wanted + 1)));
      if (off < best.off) best = { id, off };
      if (off < 0.5) break;
    } catch {
      return id;
    }
  }
  return best.id;
}
