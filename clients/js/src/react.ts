/**
 * Hooks for React 18 and later: the events of a connection, and who is in a room.
 *
 * A hook listens while its component is mounted. A connection that is not there yet is `null`.
 */

import { useCallback, useEffect, useState } from "react";
import { NOBODY, NONE, type Present, type Recent, recent, type RecentOptions } from "./recent.js";
import type { Connection, Hears, Id, Name } from "./types.js";

/** The newest events that came since the component was mounted, oldest first. */
export function useEvents<E, N extends Name<E> = Name<E>>(
  connection: Hears<E> | null | undefined,
  { event, max }: RecentOptions<N> = {},
): Recent<E, N> {
  const listen = useCallback(
    (turn: (events: Recent<E, N>) => void) =>
      connection ? recent(connection, { event, max }, turn) : undefined,
    [connection, event, max],
  );
  return useListened<Recent<E, N>>(listen, NONE);
}

/** Who is in the room `id`; nobody until the server has said it. */
export function useMembers<I = unknown>(
  connection: Pick<Connection, "members"> | null | undefined,
  id: Id,
): Present<I> {
  const listen = useCallback(
    (turn: (present: Present<I>) => void) => {
      const members = connection?.members<I>(id);
      const tell = () => turn({ list: members!.list, count: members!.count });
      if (members?.isKnown) {
        tell();
      }
      members?.on("change", tell);
      return () => members?.stop();
    },
    [connection, id],
  );
  return useListened<Present<I>>(listen, NOBODY);
}

/** What was told last by what `listen` listens to; `first` where nothing was. */
function useListened<T>(
  listen: (turn: (told: T) => void) => (() => void) | undefined,
  first: T,
): T {
  const [told, setTold] = useState<{ listen: unknown; last: T }>({ listen, last: first });
  useEffect(() => listen((last) => setTold({ listen, last })), [listen]);
  // What another connection told is none of this one's.
  return told.listen === listen ? told.last : first;
}

export type { Present, Recent, RecentOptions } from "./recent.js";
