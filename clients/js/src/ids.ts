/**
 * Who a client is, and what it asked to be that the server has not answered yet.
 *
 * The set goes with the address of each attempt, as far as there is room. A stream on which the
 * client can speak takes the rest of it, and each change at once, and answers in the order asked;
 * every other one must be opened again for a change.
 */

import type { Failure, Id } from "./types.js";

/** A change of ids. */
export type Change = "login" | "logout";

interface Asked {
  change: Change;
  ids: string[];
  answer: (taken: boolean) => void;
}

/** The list in one message: the server's smallest bound on messages is 512 bytes. */
const LIST_CHARS = 480;

/** The ids of one connection. */
export class Ids {
  /** Those for which the address of the present attempt has no room. */
  rest: string[] = [];
  /** How the open stream is spoken to, where it can be. */
  #say?: (words: object) => void;
  #ids: Set<string>;
  /** What was said to the open stream. */
  #asked: Asked[] = [];
  /** What is settled when a stream has opened. */
  #due: Asked[] = [];

  constructor(ids: Id | readonly Id[]) {
    this.#ids = new Set([ids].flat().map(String));
  }

  get all(): string[] {
    return [...this.#ids];
  }

  /** Makes a change, and calls `reopen` if the stream cannot be told. */
  async change(change: Change, list: Id[], reopen: () => void): Promise<boolean> {
    const login = change === "login";
    const ids = list.map(String).filter((id) => this.#ids.has(id) !== login);
    for (const id of ids) {
      this.#ids[login ? "add" : "delete"](id);
    }
    if (this.#say || !ids[0]) {
      return this.#ask(change, ids);
    }
    return new Promise((answer) => {
      this.#due.push({ change, ids, answer });
      reopen();
    });
  }

  /** The stream can be spoken to: it is told what its address had no room for. */
  speak(say: (words: object) => void): void {
    this.#say = say;
    void this.#ask("login", this.rest);
  }

  /** The stream has ended. What it did not answer goes with the address of the next. */
  hush(): void {
    this.#say = undefined;
    this.#due.push(...this.#asked.splice(0));
  }

  /** Says something else to the open stream; whether it can be. */
  say(words: object): boolean {
    this.#say?.(words);
    return !!this.#say;
  }

  /** Says a change in short messages, until `all` is empty; whether the server took them. */
  async #ask(change: Change, all: string[]): Promise<boolean> {
    const answers: Promise<boolean>[] = [];
    while (all[0]) {
      let count = 1;
      while (count < all.length && JSON.stringify(all.slice(0, count + 1)).length < LIST_CHARS) {
        count++;
      }
      const ids = all.splice(0, count);
      answers.push(new Promise((answer) => this.#asked.push({ change, ids, answer })));
      this.#say!({ [change]: ids });
    }
    return (await Promise.all(answers)).every(Boolean);
  }

  /** The server answers the oldest question. What it refused is not asked for again. */
  answered(failure?: Failure): void {
    const oldest = this.#asked.shift();
    if (failure && oldest?.change === "login") {
      oldest.ids.forEach((id) => this.#ids.delete(id));
    }
    oldest?.answer(!failure);
  }

  /** A stream has opened, or none ever will. */
  settle(opened: boolean): void {
    if (!opened) {
      this.hush();
    }
    const rest = new Set(this.rest);
    for (const { change, ids, answer } of this.#due.splice(0)) {
      const isIn = (id: string) => this.#ids.has(id) && !rest.has(id);
      answer(opened && (change === "logout" || ids.every(isIn)));
    }
  }
}
