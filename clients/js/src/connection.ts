/**
 * The connection: which transport, and when again.
 *
 * One loop makes one attempt after the other until `close`. It knows no bytes; the transports do.
 * A transport that fails before it has opened is followed by the next one at once, and after the
 * last by a wait. One that opened is begun with for some time, by later connections of the page to
 * the same address too, so a blocked one is not tried at each turn, and not forgotten for good.
 *
 * A server that is full or gone is spared the other transports: what says that it is full is asked
 * again alone, and what has opened before is tried once more after a wait.
 */

import { Attempt, type Shared } from "./attempt.js";
import { backoffMs, MOST_TRIES } from "./backoff.js";
import { Cursor } from "./cursor.js";
import { Ids } from "./ids.js";
import { iterate } from "./iterate.js";
import type { Transport } from "./link.js";
import { Ears } from "./listeners.js";
import { poll } from "./poll.js";
import { sse } from "./sse.js";
import { Tokens } from "./tokens.js";
import type {
  Connection,
  EnckeEvent,
  Failure,
  Id,
  Listeners,
  Options,
  State,
  TransportName,
} from "./types.js";
import { websocket } from "./websocket.js";

const TRANSPORTS: Record<TransportName, Transport> = { websocket, sse, poll };

/** How long a transport that opened is begun with. */
const PROVEN_MS = 600_000;

/** How long an address may be at first, in characters: half of the server's bound on heads. */
const ADDRESS_MAX = 4096;

/** By address, which transport opened last and when. */
const proven = new Map<string, { name: TransportName; at: number }>();

/** Connects to the server at `url`: its public port, or the path that a proxy gives it. */
export function connect<T = unknown>(url: string | URL, options: Options): Connection<T> {
  return new Live<T>(url, options);
}

class Live<T> implements Connection<T> {
  state: State = "connecting";
  transport: TransportName;
  #order: TransportName[];
  #retryMs: number;
  #retryMaxMs: number;
  #shared: Shared;
  #attempt?: Attempt;
  /** The attempt was left on purpose. */
  #left = false;
  #refusal?: Failure;
  #wake = () => {};
  #online = () => this.#wake();

  constructor(url: string | URL, options: Options) {
    const { transports = ["websocket", "sse", "poll"] as const, ids, after = "" } = options;
    const { retryMs = 1000, retryMaxMs = 30_000, openMs = 10_000, silenceMs = 75_000 } = options;
    this.#order = transports.filter((name) => name !== "websocket" || globalThis.WebSocket);
    this.#retryMs = retryMs;
    this.#retryMaxMs = retryMaxMs;
    this.#shared = {
      base: baseOf(url),
      ids: new Ids(ids),
      cursor: new Cursor(after),
      ears: new Ears(),
      tokens: new Tokens(options.token),
      openMs,
      silenceMs,
      addressMax: ADDRESS_MAX,
      opened: () => {
        if (!this.#shared.ids.rest[0]) {
          proven.set(this.#shared.base.href, { name: this.transport, at: performance.now() });
        }
        this.#turn("open");
      },
      again: () => this.#again(),
    };
    if (!this.#order[0] || !this.#shared.ids.all[0]) {
      throw new Error("Give an id, and a transport that works here.");
    }
    this.transport = this.#first();
    // A machine that is back in its network need not wait.
    globalThis.addEventListener?.("online", this.#online);
    this.#run();
  }

  get cursor(): string {
    return this.#shared.cursor.at;
  }

  on<K extends keyof Listeners<T>>(what: K, listener: Listeners<T>[K]): () => void {
    return this.#shared.ears.on(what, listener as Listeners[K]);
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

  [Symbol.asyncIterator](): AsyncGenerator<EnckeEvent<T>, void> {
    return iterate<T>(this, () => this.#refusal);
  }

  async #run(): Promise<void> {
    let [missed, tries] = [0, 0];
    while (this.#turn("connecting")) {
      const attempt = (this.#attempt = new Attempt(this.#shared));
      const why = await attempt.run(TRANSPORTS[this.transport]);
      if (this.#left) {
        this.#left = false;
        continue;
      }
      const { base, ids, openMs, tokens } = this.#shared;
      if ([414, 431].includes(why.status!) && ids.all.length - ids.rest.length > 1) {
        // What else stands in the head, cookies for one, nobody here knows.
        this.#shared.addressMax /= 2;
        this.transport = this.#order[0];
        continue;
      }
      if (this.transport === "websocket" && !this.#order[1] && !attempt.openedAt) {
        // Why it was refused nobody will hear.
        tokens.dueAt = 0;
      }
      const isAnother = why.status === 401 && tokens.refused();
      if (why.final && !isAnother) {
        this.#refusal = why;
        this.#shared.ears.complain(why);
        return this.#end(why);
      }
      if (attempt.openedAt) {
        // One that ends soon after each opening is backed off from as well.
        tries = performance.now() - attempt.openedAt > openMs ? 0 : tries;
        missed = 0;
        this.transport = this.#first();
      } else if (why.status === 401) {
        this.transport = this.#order[0];
      } else if (proven.get(base.href)?.name === this.transport) {
        // It is the server that is not there, more likely than the way.
        proven.delete(base.href);
      } else if (!why.retryAfterMs) {
        const next = this.#order.indexOf(this.transport) + 1;
        this.transport = this.#order[next % this.#order.length];
        if (++missed % this.#order.length) {
          continue;
        }
      }
      this.#turn("waiting", why);
      const ceiling = attempt.ended ? MOST_TRIES : tries++;
      await this.#pause(backoffMs(ceiling, this.#retryMs, this.#retryMaxMs, why.retryAfterMs));
    }
  }

  /** What to begin with: what opened not long ago, else the first that was named. */
  #first(): TransportName {
    const { name, at } = proven.get(this.#shared.base.href) ?? { at: 0 };
    const isFit = !this.#shared.ids.rest[0] && performance.now() - at < PROVEN_MS;
    return (isFit && this.#order.find((one) => one === name)) || this.#order[0];
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

  #leave(): void {
    this.#left = true;
    this.#attempt?.end();
  }

  #end(why?: Failure): void {
    this.#turn("closed", why);
    this.#shared.ids.settle(false);
    this.#leave();
    this.#wake();
    globalThis.removeEventListener?.("online", this.#online);
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

/** Where the paths of the protocol begin. */
function baseOf(url: string | URL): URL {
  const base = new URL(url, globalThis.location?.href);
  base.protocol = base.protocol.replace("ws", "http");
  base.pathname = base.pathname.replace(/\/*$/, "/");
  return base;
}
