/**
 * The ids of a connection whose stream can be spoken to, as a WebSocket can.
 *
 * Such a stream takes those for which its address had no room, and each change at once, and answers
 * in the order asked.
 */

import { type Asked, type Change, Ids } from "./ids.js";
import type { Failure } from "./types.js";

/** The list in one message: the server's smallest bound on messages is 512 bytes. */
const LIST_CHARS = 480;

/** Ids that are said to the open stream where that hears them. */
export class SpokenIds extends Ids {
  /** How the open stream is spoken to, where it can be. */
  #say?: (words: object) => void;
  /** What was said to the open stream. */
  #asked: Asked[] = [];

  /** The stream can be spoken to: it is told what its address had no room for. */
  speak(say: (words: object) => void): void {
    this.#say = say;
    void this.ask("login", this.rest);
  }

  /** What it did not answer goes with the address of the next. */
  override hush(): void {
    this.#say = undefined;
    this.due.push(...this.#asked.splice(0));
  }

  /** Says something else to the open stream; whether it can be. */
  say(words: object): boolean {
    this.#say?.(words);
    return !!this.#say;
  }

  /** Says a change in short messages, until `all` is empty. */
  protected override ask(change: Change, all: string[]): Promise<boolean> | void {
    if (!this.#say) {
      return;
    }
    const answers: Promise<boolean>[] = [];
    while (all[0]) {
      let count = 1;
      while (count < all.length && JSON.stringify(all.slice(0, count + 1)).length < LIST_CHARS) {
        count++;
      }
      const ids = all.splice(0, count);
      answers.push(new Promise((answer) => this.#asked.push({ change, ids, answer })));
      this.#say({ [change]: ids });
    }
    return Promise.all(answers).then((all) => all.every(Boolean));
  }

  /** The server answers the oldest question. What it refused is not asked for again. */
  answered(failure?: Failure): void {
    const oldest = this.#asked.shift();
    if (failure && oldest?.change === "login") {
      oldest.ids.forEach((id) => this.own.delete(id));
    }
    oldest?.answer(!failure);
  }
}
