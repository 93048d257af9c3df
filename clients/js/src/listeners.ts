/**
 * Who listens to what on one connection.
 */

import type { Failure, Listeners } from "./types.js";

type Kind = keyof Listeners;

/** Listeners by what they listen to. */
export class Ears {
  #sets: { [K in Kind]?: Set<Listeners[K]> } = {};

  /** Adds `listener`; the function that it returns takes it away. */
  on<K extends Kind>(what: K, listener: Listeners[K]): () => void {
    const set: Set<Listeners[K]> = (this.#sets[what] ??= new Set() as never);
    // Its own function, so that one that is added twice is called twice.
    const own = ((...words: never[]) => (listener as Function)(...words)) as Listeners[K];
    set.add(own);
    return () => set.delete(own);
  }

  /** Calls all; returns whether there was one. */
  tell<K extends Kind>(what: K, ...words: Parameters<Listeners[K]>): boolean {
    const listeners = [...(this.#sets[what] ?? [])];
    for (const listener of listeners) {
      try {
        (listener as Function)(...words);
      } catch (error) {
        // The page's own fault goes where its others go; the stream is not to end by it.
        setTimeout(() => {
          throw error;
        });
      }
    }
    return !!listeners.length;
  }

  /** Tells an error; prints it when nobody listens for it. */
  complain(error: Failure): void {
    if (!this.tell("error", error)) {
      console.error(error);
    }
  }
}
