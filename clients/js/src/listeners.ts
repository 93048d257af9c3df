/**
 * Who listens to what on one connection.
 */

import type { MembersMessage } from "./members.js";
import type { EnckeEvent, Failure, Listeners, MembersListeners } from "./types.js";

type All = Listeners &
  MembersListeners & { [name in `event:${string}`]: Listeners["event"] } & {
    /** What the server says of members, for who passes it on. */
    members: (message: MembersMessage) => void;
  };

export type Kind = keyof All;

/** One that is called with whatever its kind is told. */
export type Listener = (...words: never[]) => void;

/** Listeners by what they listen to. */
export class Ears {
  #sets: { [kind in Kind]?: Set<Listener> } = {};

  /** Adds `listener`; the function that it returns takes it away. */
  on(what: Kind, listener: Listener): () => void {
    const set = (this.#sets[what] ??= new Set());
    // Its own function, so that one that is added twice is called twice.
    const own: Listener = (...words) => listener(...words);
    set.add(own);
    return () => set.delete(own);
  }

  /** Calls all; returns whether there was one. */
  tell<K extends Kind>(what: K, ...words: Parameters<All[K]>): boolean {
    const listeners = [...(this.#sets[what] ?? [])];
    for (const listener of listeners) {
      try {
        listener(...(words as never[]));
      } catch (error) {
        // The page's own fault goes where its others go; the stream is not to end by it.
        setTimeout(() => {
          throw error;
        });
      }
    }
    return !!listeners.length;
  }

  /** Tells an event, by its name too. */
  event(event: EnckeEvent): void {
    this.tell("event", event);
    this.tell(`event:${event.event ?? ""}`, event);
  }

  /** Tells an error; prints it when nobody listens for it. */
  complain(error: Failure): void {
    if (!this.tell("error", error)) {
      console.error(error);
    }
  }
}
