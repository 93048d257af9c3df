/**
 * Composables for Vue 3: the events of a connection, and who is in a room.
 *
 * Each listens until the scope in which it was called ends: a component's, mostly.
 */

import { onScopeDispose, type ShallowRef, shallowRef } from "vue";
import { NOBODY, NONE, type Present, type Recent, recent, type RecentOptions } from "./recent.js";
import type { Connection, Hears, Id, Name } from "./types.js";

/** The newest events that came since the call, oldest first. */
export function useEvents<E, N extends Name<E> = Name<E>>(
  connection: Hears<E>,
  options: RecentOptions<N> = {},
): Readonly<ShallowRef<Recent<E, N>>> {
  const events = shallowRef<Recent<E, N>>(NONE);
  onScopeDispose(recent(connection, options, (list) => (events.value = list)));
  return events;
}

/** Who is in the room `id`; nobody until the server has said it. */
export function useMembers<I = unknown>(
  connection: Pick<Connection, "members">,
  id: Id,
): Readonly<ShallowRef<Present<I>>> {
  const members = connection.members<I>(id);
  const present = shallowRef<Present<I>>(NOBODY);
  const tell = () => (present.value = { list: members.list, count: members.count });
  if (members.isKnown) {
    tell();
  }
  members.on("change", tell);
  onScopeDispose(() => members.stop());
  return present;
}

export type { Present, Recent, RecentOptions } from "./recent.js";
