/**
 * Who a client is, and what it asked to be that the server has not answered yet.
 *
 * The set goes with the address of each attempt. A stream on which the client can speak takes a
 * change at once, and answers in the order asked; every other one must be opened again.
 */

import type { Failure, Id } from "./types.js";

/** A change of ids. */
export type Change = "login" | "logout";

interface Asked {
  change: Change;
  ids: string[];
  answer: (taken: boolean) => void;
}

/** The ids of one connection. */
export class Ids {
  /** How the open stream is spoken to, where it can be. */
  say?: (words: object) => void;
  #ids: Set<string>;
  #asked: Asked[] = [];

  constructor(ids: Id | readonly Id[]) {
    this.#ids = new Set([ids].flat().map(String));
  }

  get all(): string[] {
    return [...this.#ids];
  }

  /** Makes a change, and calls `reopen` if the stream cannot be told. */
  change(change: Change, list: Id[], reopen: () => void): Promise<boolean> {
    const login = change === "login";
    const ids = list.map(String).filter((id) => this.#ids.has(id) !== login);
    for (const id of ids) {
      this.#ids[login ? "add" : "delete"](id);
    }
    return new Promise((answer) => {
      if (!ids.length) {
        return answer(true);
      }
      this.#asked.push({ change, ids, answer });
      if (this.say) {
        this.say({ [change]: ids });
      } else {
        reopen();
      }
    });
  }

  /** The server answers the oldest question. What it refused is not asked for again. */
  answered(failure?: Failure): void {
    const oldest = this.#asked.shift();
    if (failure && oldest?.change === "login") {
      oldest.ids.forEach((id) => this.#ids.delete(id));
    }
    oldest?.answer(!failure);
  }

  /** A stream has opened with all ids in its address, or none ever will. */
  settle(taken: boolean): void {
    this.#asked.splice(0).forEach(({ answer }) => answer(taken));
  }
}
