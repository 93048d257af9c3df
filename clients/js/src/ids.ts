/**
 * Who a client is, and what it asked to be that the server has not answered yet.
 *
 * The set goes with the address of each attempt, as far as there is room. A change is made by
 * opening the stream again; `spoken.ts` has the set for streams that can be told.
 */

import type { Id } from "./types.js";

/** A change of ids. */
export type Change = "login" | "logout";

export interface Asked {
  change: Change;
  ids: string[];
  answer: (taken: boolean) => void;
}

/** The ids of one connection. */
export class Ids {
  /** Those for which the address of the present attempt has no room. */
  rest: string[] = [];
  protected own: Set<string>;
  /** What is settled when a stream has opened. */
  protected due: Asked[] = [];

  constructor(ids: Id | readonly Id[]) {
    this.own = new Set([ids].flat().map(String));
  }

  get all(): string[] {
    return [...this.own];
  }

  /** Makes a change, and calls `reopen` if the stream cannot be told. */
  async change(change: Change, list: Id[], reopen: () => void): Promise<boolean> {
    const login = change === "login";
    const ids = list.map(String).filter((id) => this.own.has(id) !== login);
    for (const id of ids) {
      this.own[login ? "add" : "delete"](id);
    }
    return (
      !ids[0] ||
      (this.ask(change, ids) ??
        new Promise((answer) => {
          this.due.push({ change, ids, answer });
          reopen();
        }))
    );
  }

  /** Tells the open stream of a change, if it can be told: whether the server took it. */
  protected ask(_change: Change, _ids: string[]): Promise<boolean> | void {}

  /** The stream has ended. */
  hush(): void {}

  /** A stream has opened, or none ever will. */
  settle(opened: boolean): void {
    if (!opened) {
      this.hush();
    }
    const rest = new Set(this.rest);
    for (const { change, ids, answer } of this.due.splice(0)) {
      const isIn = (id: string) => this.own.has(id) && !rest.has(id);
      answer(opened && (change === "logout" || ids.every(isIn)));
    }
  }
}
