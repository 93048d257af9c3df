/**
 * One attempt at a stream: its address, its clock, and what it tells the connection.
 */

import type { Cursor } from "./cursor.js";
import type { Ids } from "./ids.js";
import type { Link, Transport } from "./link.js";
import type { Ears } from "./listeners.js";
import type { Talk } from "./talk.js";
import type { Token } from "./token.js";
import type { EnckeEvent, Failure } from "./types.js";

/** How long a stream lasts whose address has no room for all ids; then another may have. */
const PARTIAL_MS = 60_000;

/** What all attempts of one connection share. */
export interface Shared {
  /** Ends with a slash. */
  readonly base: URL;
  readonly ids: Ids;
  readonly cursor: Cursor;
  readonly ears: Ears;
  readonly tokens: Token;
  readonly openMs: number;
  readonly silenceMs: number;
  /** The longest address, in characters. */
  addressMax: number;
  /** With so many events of each id a stream begins that has no cursor. */
  readonly last?: number;
  /** The id of the stream that is open, by which a send leaves it out. */
  id: string;
  talk?: Talk;
  /** What an opened stream changes. */
  opened(): void;
  /** Opens the stream anew, as things are now. */
  again(): void;
}

/** A stream from its request to its end. */
export class Attempt implements Link {
  /** When the server took it; 0 before. */
  openedAt = 0;
  /** The server ended it in good order, and perhaps those of all others with it. */
  ended?: boolean;
  retry?: string | number;
  #abort = new AbortController();
  readonly signal = this.#abort.signal;
  #timer?: ReturnType<typeof setTimeout>;
  token = "";
  /** When the next token is due. */
  renewal?: ReturnType<typeof setTimeout>;
  /** When something last happened to it, by the clock, which goes on while a machine sleeps. */
  heardAt = 0;

  constructor(readonly shared: Shared) {}

  /** Runs it to its end; resolves to why that came. */
  async run(transport: Transport): Promise<Failure> {
    const { signal } = this;
    const left = new Promise<never>((_, reject) => {
      signal.onabort = () => reject(signal.reason);
    });
    try {
      await Promise.race([left, this.#open(transport)]);
      this.ended = true;
      return new Error("The server ended it");
    } catch (error) {
      return error as Failure;
    } finally {
      this.shared.id = "";
      this.shared.ids.hush();
      this.shared.talk?.sends.hush();
      this.end();
    }
  }

  async #open(transport: Transport): Promise<void> {
    const { openMs, tokens } = this.shared;
    this.watch(openMs);
    this.token = await tokens.get();
    this.signal.throwIfAborted();
    this.watch(openMs);
    await transport(this);
  }

  end(why?: string): void {
    clearTimeout(this.#timer);
    clearTimeout(this.renewal);
    this.#abort.abort(new Error(why));
  }

  url(path: "stream" | "poll", after: string): URL {
    const { base, ids, cursor, addressMax, last, talk } = this.shared;
    const [first, ...more] = ids.all;
    const url = new URL(base);
    url.pathname += `${path}/${encodeURIComponent(first)}`;
    if (cursor.at) {
      url.searchParams.set(after, cursor.at);
    } else if (last) {
      url.searchParams.set("last", `${last}`);
    }
    talk?.address(url);
    let { length } = url.href;
    // The server takes 256 ids with a request.
    ids.rest = more.filter(
      (id, n) =>
        n > 254 ||
        (length += encodeURIComponent(id).length + 4) > addressMax ||
        url.searchParams.append("id", id),
    );
    return url;
  }

  watch(ms: number, act = () => this.end("The server is silent")): void {
    clearTimeout(this.#timer);
    this.heardAt = Date.now();
    if (ms && !this.signal.aborted) {
      this.#timer = setTimeout(act, ms);
    }
  }

  opened(): void {
    const { ids, ears, opened, talk, tokens } = this.shared;
    const { length } = ids.rest;
    if (!this.openedAt && !this.signal.aborted) {
      this.openedAt = performance.now();
      tokens.taken(this);
      if (length) {
        ears.complain(new Error(`No room for ${length} ids`));
      }
      ids.settle(true);
      opened();
      talk?.opened(this);
    } else if (length && performance.now() - this.openedAt > PARTIAL_MS) {
      this.end();
    }
  }

  parsed(text: string): any {
    try {
      return JSON.parse(text);
    } catch (error) {
      this.shared.ears.complain(error as Failure);
      // At once: what follows it in the same read would hide that something is missing.
      this.end(String(error));
      throw error;
    }
  }

  event(event?: EnckeEvent | null): void {
    const { ears, talk } = this.shared;
    if (!event?.about) {
      // A later server may say what is neither.
      if (event && !this.signal.aborted) {
        talk?.hear(event);
      }
    } else if (this.heard(event.id) && !talk?.sends.isOwn(event)) {
      ears.event(event);
    }
  }

  gap(id?: string | null): void {
    // One that was left is followed by another from the same place, which is told of it as well.
    if (!this.signal.aborted) {
      this.shared.cursor.gap(id);
      this.shared.ears.tell("gap");
    }
  }

  heard(id?: string | null): boolean {
    // What came before it in the same read was told to nobody if the attempt was left.
    return !this.signal.aborted && this.shared.cursor.pass(id);
  }
}
