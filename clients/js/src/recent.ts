/**
 * The newest events of a connection, as a list for what draws a page.
 */

import type { AnyEvent, Hears, Name, NamedEvent } from "./types.js";

/** Which events, and how many. */
export interface RecentOptions<N extends string = string> {
  /** Those of this name alone. */
  event?: N;
  /** So many, the newest. 100. */
  max?: number;
}

/** Events in a list, oldest first: those of one name if `N` is one. */
export type Recent<E, N extends string> = readonly (string extends N
  ? AnyEvent<E>
  : NamedEvent<E, N>)[];

/** Calls `turn` with another list whenever an event comes; what it returns ends that. */
export function recent<E, N extends Name<E>>(
  connection: Hears<E>,
  { event, max = 100 }: RecentOptions<N>,
  turn: (events: Recent<E, N>) => void,
): () => void {
  let events: unknown[] = [];
  const listener = (one: unknown) => {
    events = [...events, one].slice(-max);
    turn(events as never);
  };
  return event === undefined
    ? connection.on("event", listener)
    : connection.on(`event:${event}`, listener);
}

/** Who is in a room, as a page draws it. */
export interface Present<I = unknown> {
  readonly list: readonly { readonly id: string; readonly info?: I }[];
  readonly count: number;
}

/** No event, and nobody. */
export const NONE: readonly never[] = [];

export const NOBODY: Present<never> = { list: NONE, count: 0 };
