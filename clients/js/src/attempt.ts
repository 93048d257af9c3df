/**
 * One attempt at a stream: its address, its clock, and what it tells the connection.
 */

import type { Cursor } from "./cursor.js";
import type { Ids } from "./ids.js";
import type { Link, Transport } from "./link.js";
import type { Ears } from "./listeners.js";
import type { EnckeEvent, Failure } from "./types.js";

/** What all attempts of one connection share. */
export interface Shared {
  /** Ends with a slash. */
  readonly base: URL;
  readonly ids: Ids;
  readonly cursor: Cursor;
  readonly ears: Ears;
  readonly openMs: number;
  readonly silenceMs: number;
  /** What an opened stream changes. */
  opened(): void;
}

/** A stream from its request to its end. */
export class Attempt implements Link {
  /** When the server took it; 0 before. */
  openedAt = 0;
  #abort = new AbortController();
  readonly signal = this.#abort.signal;
  #timer?: ReturnType<typeof setTimeout>;

  constructor(readonly shared: Shared) {}

  /** Runs it to its end; resolves to why that came. */
  async run(transport: Transport): Promise<Failure> {
    this.watch(this.shared.openMs);
    try {
      await transport(this);
      return new Error("The server ended the stream.");
    } catch (error) {
      return error as Failure;
    } finally {
      this.shared.ids.say = undefined;
      this.end();
    }
  }

  end(why = "The stream was left."): void {
    clearTimeout(this.#timer);
    this.#abort.abort(new Error(why));
  }

  url(path: "stream" | "poll", after: string): URL {
    const { base, ids, cursor } = this.shared;
    const [first, ...more] = ids.all;
    const url = new URL(base);
    url.pathname += `${path}/${encodeURIComponent(first)}`;
    for (const id of more) {
      url.searchParams.append("id", id);
    }
    if (cursor.at) {
      url.searchParams.set(after, cursor.at);
    }
    return url;
  }

  watch(ms: number, act = () => this.end("The server was silent for too long.")): void {
    clearTimeout(this.#timer);
    if (ms && !this.signal.aborted) {
      this.#timer = setTimeout(act, ms);
    }
  }

  opened(say?: (words: object) => void): void {
    if (!this.openedAt && !this.signal.aborted) {
      this.openedAt = performance.now();
      this.shared.ids.say = say;
      this.shared.ids.settle(true);
      this.shared.opened();
    }
  }

  event(event: EnckeEvent): void {
    if (!this.signal.aborted && this.shared.cursor.pass(event.id)) {
      this.shared.ears.tell("event", event);
    }
  }

  gap(): void {
    this.shared.cursor.gap();
    this.shared.ears.tell("gap");
  }

  heard(id: string): void {
    this.shared.cursor.pass(id);
  }

  answered(failure?: Failure): void {
    this.shared.ids.answered(failure);
    if (failure) {
      this.shared.ears.tell("error", failure);
    }
  }
}
