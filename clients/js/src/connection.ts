/**
 * The connection: which transport, and when again.
 *
 * One loop makes one attempt after the other until `close`. It knows no bytes; the transports do.
 * Nor does it know which of them is next; the way does.
 */

import { Attempt, type Shared } from "./attempt.js";
import { backoffMs, MOST_TRIES } from "./backoff.js";
import { baseOf } from "./base.js";
import { Cursor } from "./cursor.js";
import type { Ids } from "./ids.js";
import type { Transport } from "./link.js";
import { Ears, type Kind, type Listener } from "./listeners.js";
import type { Talk } from "./talk.js";
import type { Token } from "./token.js";
import type {
  BaseConnection,
  Failure,
  Id,
  Options,
  State,
  TransportName,
} from "./types.js";
import type { Way } from "./way.js";

/** What an entry of the package is made of. */
export interface Parts {
  readonly kinds: { readonly [name in TransportName]?: Transport };
  readonly ids: new (ids: Options["ids"]) => Ids;
  readonly tokens: new (source: Options["token"]) => Token;
  readonly way: new (names: Options["transports"], base: string) => Way;
  readonly talk?: new (shared: Shared, options: Options) => Talk;
}

/** How long an address may be at first, in characters: half of the server's bound on heads. */
const ADDRESS_MAX = 4096;

/** Defaults; a test adds them up with the server's (`e2e/defaults.test.ts`). */
export const RETRY_MAX_MS = 30_000;
export const OPEN_MS = 10_000;
export const SILENCE_MS = 36_000;

/** What says that the network may be another, or that nobody looked for long. */
const RETURNS = ["online", "pageshow", "visibilitychange"];

/** A connection that is made of `parts`. */
export class Live<E> implements BaseConnection<E> {
  state: State = "connecting";
  #way: Way;
  #shared: Shared;
  #attempt?: Attempt;
  /** The attempt was left on purpose. */
  #left = false;
  #wake = () => {};
  /** When the page was last hidden or shown, by the clock. */
  #turnedAt = Date.now();

  constructor(
    readonly parts: Parts,
    url: string | URL,
    options: Options,
  ) {
    const { ids, after = "", last, retryMs = 1000, retryMaxMs = RETRY_MAX_MS } = options;
    const { openMs = OPEN_MS, silenceMs = SILENCE_MS } = options;
    const base = baseOf(url);
    this.#way = new parts.way(options.transports, base.href);
    this.#shared = {
      base,
      ids: new parts.ids(ids),
      cursor: new Cursor(after),
      last,
      id: "",
      ears: new Ears(),
      tokens: new parts.tokens(options.token),
      openMs,
      silenceMs,
      addressMax: ADDRESS_MAX,
      opened: () => {
        this.#way.proven(!this.#shared.ids.rest[0]);
        this.#turn("open");
      },
      again: () => this.#again(),
    };
    this.#shared.talk = parts.talk && new parts.talk(this.#shared, options);
    if (!this.#way.name || !this.#shared.ids.all[0]) {
      throw new Error("Give an id and a transport.");
    }
    RETURNS.forEach((name) => globalThis.addEventListener?.(name, this.#back));
    this.#run(retryMs, retryMaxMs);
  }

  get transport(): TransportName {
    return this.#way.name;
  }

  get cursor(): string {
    return this.#shared.cursor.at;
  }

  get id(): string {
    return this.#shared.id;
  }

  on(what: Kind, listener: Listener): () => void {
    return this.#shared.ears.on(what, listener);
  }

  /** What it says and hears beside ids and events, where its entry has that. */
  protected get talk(): Talk {
    return this.#shared.talk!;
  }

  login(...ids: Id[]): Promise<boolean> {
    return this.#shared.ids.change("login", ids, this.#again);
  }

  logout(...ids: Id[]): Promise<boolean> {
    const taken = this.#shared.ids.change("logout", ids, this.#again);
    if (!this.#shared.ids.all[0]) {
      this.close();
    }
    return taken;
  }

  close(): void {
    this.#end();
  }

  async #run(retryMs: number, retryMaxMs: number): Promise<void> {
    const way = this.#way;
    let tries = 0;
    while (this.#turn("connecting")) {
      const attempt = (this.#attempt = new Attempt(this.#shared));
      const why = await attempt.run(this.parts.kinds[way.name]!);
      if (this.#left) {
        this.#left = false;
        continue;
      }
      const { ids, openMs, tokens } = this.#shared;
      if ([414, 431].includes(why.status!) && ids.all.length - ids.rest.length > 1) {
        // What else stands in the head, cookies for one, nobody here knows.
        this.#shared.addressMax /= 2;
        way.begin(true);
        continue;
      }
      const isAnother = why.status === 401 && tokens.refused();
      if (why.final && !isAnother) {
        this.#shared.ears.complain(why);
        return this.#end(why);
      }
      if (attempt.openedAt) {
        // One that ends soon after each opening is backed off from as well.
        tries = performance.now() - attempt.openedAt > openMs ? 0 : tries;
        way.begin(!!ids.rest[0]);
      } else if (way.failed(why, tokens)) {
        continue;
      } else if (tries === (why.status === 401 ? 2 : 0) && why.status! < 500 && !why.retryAfterMs) {
        // Nobody else says that an address leads elsewhere, if it does for good.
        this.#shared.ears.complain(why);
      }
      // Who is told may close it, and then no timer is to keep a program from its end.
      if (this.#turn("waiting", why)) {
        const ceiling = attempt.ended || +attempt.retry! > retryMaxMs ? MOST_TRIES : tries;
        // The server knows how large the crowd is that loses it; but its user has the last word.
        const told = !tries++ && +attempt.retry! <= retryMaxMs && +attempt.retry!;
        await this.#pause(told || backoffMs(ceiling, retryMs, retryMaxMs, why.retryAfterMs));
      }
    }
  }

  /** Changes the state; returns whether the connection lives. */
  #turn(state: State, why?: Failure): boolean {
    if (this.state !== state && this.state !== "closed") {
      this.state = state;
      this.#shared.ears.tell("state", state, why);
    }
    return this.state !== "closed";
  }

  /** Begins anew with the ids as they are now; a wait goes on, and takes them with it. */
  #again = () => {
    if (this.state === "closed") {
      this.#shared.ids.settle(false);
    } else if (this.state !== "waiting") {
      this.#leave();
    }
  };

  /**
   * Tries at once when the machine is back in a network, the page is back from where browsers keep
   * those that were left, or it is looked at after long. What was heard of meanwhile goes on.
   */
  #back = ({ type, persisted }: { type: string; persisted?: boolean }) => {
    const { silenceMs } = this.#shared;
    let isBack = type === "online" || persisted;
    if (type === RETURNS[2]) {
      const at = this.state === "waiting" ? this.#turnedAt : this.#attempt!.heardAt;
      isBack = !document.hidden && !!silenceMs && silenceMs < Date.now() - at;
      this.#turnedAt = Date.now();
    }
    if (isBack) {
      this.#wake();
      this.#again();
    }
  };

  #leave(): void {
    this.#left = true;
    this.#attempt?.end();
  }

  #end(why?: Failure): void {
    this.#turn("closed", why);
    this.#shared.ids.settle(false);
    this.#shared.talk?.sends.end();
    this.#leave();
    this.#wake();
    RETURNS.forEach((name) => globalThis.removeEventListener?.(name, this.#back));
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}
