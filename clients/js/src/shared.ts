/**
 * One connection for all tabs of an origin: this tab's part of it.
 *
 * Browsers open six connections of HTTP/1.1 to a server, so over SSE and long poll a seventh tab
 * with a connection of its own would never open. Here a `SharedWorker` keeps the one that all have
 * (`hub.ts`); where there is none, or it does not start, the tab does that is first in the queue.
 * Where a page has neither locks nor channels (it is not a secure context, or no page) it has a
 * connection of its own.
 */

import { OPEN_MS } from "./connection.js";
import { Cursor } from "./cursor.js";
import { type HubOptions, isAbout, lead, type Said, type Told } from "./hub.js";
import type { Change } from "./ids.js";
import { connect as connectAlone } from "./index.js";
import { iterate } from "./iterate.js";
import { Ears, type Kind, type Listener } from "./listeners.js";
import { Rooms } from "./members.js";
import { Sends } from "./sends.js";
import type {
  AnyEvent,
  Connection,
  Failure,
  Id,
  Members,
  Options,
  SendOptions,
  Sent,
  State,
  TransportName,
} from "./types.js";

/** How to connect, and with whom. */
export interface SharedOptions extends Options {
  /** Tabs with the same address and the same name share a connection: a user's name. `""`. */
  name?: string;
  /** The address of the package's `worker.js`; `false` is none, so a tab leads. */
  worker?: string | URL | false;
  /**
   * Leaves out events about ids that another tab has named and this one has not. Without it a tab
   * hears them too, since it may follow them by a stored subscription. `false`.
   */
  exact?: boolean;
}

/** Connects to the server at `url` with all tabs that do. */
export function connect<E = unknown>(url: string | URL, options: SharedOptions): Connection<E> {
  const { document, navigator, BroadcastChannel } = globalThis;
  return document && BroadcastChannel && navigator.locks
    ? new Tab<E>(url, options)
    : connectAlone<E>(url, options);
}

class Tab<E> implements Connection<E> {
  state: State = "connecting";
  transport: TransportName;
  id = "";
  #name: string;
  /** Among all tabs. */
  #id = crypto.randomUUID();
  #url: string;
  #plain: HubOptions;
  #ids: Set<string>;
  #cursor: Cursor;
  #ears = new Ears();
  #up: BroadcastChannel;
  #down: BroadcastChannel;
  #refusal?: Failure;
  #stop?: () => void;
  #release?: () => void;
  /** The hub is told of this tab before it is asked for anything. */
  #joined?: boolean;
  /** What is to be said, or was and is not answered. */
  #asked = new Map<number, { said: Said; answer: (taken: boolean) => void }>();
  #asks = 0;
  #sends: Sends;
  #rooms = new Rooms(
    (id) => this.#say({ tab: this.#id, look: id }),
    (id) => this.#say({ tab: this.#id, overlook: id }),
  );

  constructor(
    url: string | URL,
    readonly options: SharedOptions,
  ) {
    const { ids, after = "", name = "", worker, token, ...plain } = options;
    this.#url = new URL(url, location.href).href;
    this.#name = `encke 1 ${this.#url} ${name}`;
    this.#plain = { ...plain, token: typeof token === "function" || token };
    this.#ids = new Set([ids].flat().map(String));
    const { transports: [transport] = ["websocket"] } = options;
    if (!this.#ids.size || !transport) {
      throw new Error("Give an id and a transport.");
    }
    this.transport = transport;
    this.#cursor = new Cursor(after);
    this.#sends = new Sends((event) => this.#ears.event(event), options.queueMax, options.queueMs);
    this.#up = new BroadcastChannel(`${this.#name} up`);
    this.#down = new BroadcastChannel(`${this.#name} down`);
    this.#down.onmessage = ({ data }) => this.#hear(data);
    const hold = () =>
      new Promise<void>((release) => {
        this.#release = release;
        if (this.state === "closed") {
          release();
        } else {
          this.#join();
        }
      });
    void navigator.locks.request(`${this.#name} ${this.#id}`, hold);
    this.#start(worker);
  }

  get cursor(): string {
    return this.#cursor.at;
  }

  on(what: Kind, listener: Listener): () => void {
    return this.#ears.on(what, listener);
  }

  send(about: Id | readonly Id[], data: unknown, options?: SendOptions): Promise<Sent> {
    return this.#sends.send(about, data, options);
  }

  members<I>(id: Id): Members<I> {
    return this.#rooms.look(String(id)) as Members<I>;
  }

  login(...ids: Id[]): Promise<boolean> {
    return this.#change("login", ids);
  }

  logout(...ids: Id[]): Promise<boolean> {
    const taken = this.#change("logout", ids);
    if (!this.#ids.size) {
      this.close();
    }
    return taken;
  }

  close(): void {
    this.#end();
  }

  [Symbol.asyncIterator](): AsyncGenerator<AnyEvent<E>, void> {
    return iterate<E>(this, () => this.#refusal);
  }

  /** Has the worker keep the connection, else stands in the queue of those that would. */
  #start(worker?: string | URL | false): void {
    try {
      if (worker === false) {
        return this.#lead();
      }
      const shared = worker
        ? new SharedWorker(worker, { type: "module", name: "encke" })
        : // Bundlers look for this form as it is built, and bring the worker along. In quotes the
          // build leaves it its name.
          new SharedWorker(new URL("./worker.js", import.meta["url"]), {
            type: "module",
            name: "encke",
          });
      shared.onerror = () => this.#lead();
      shared.port.postMessage([this.#name, this.#url, this.#plain]);
      // One that is loaded and fails then tells nobody.
      setTimeout(() => this.#lead(), this.options.openMs || OPEN_MS);
    } catch {
      // There are none here, or the page's policy lets none in.
      this.#lead();
    }
  }

  #lead(): void {
    if (this.state !== "closed") {
      this.#stop ??= lead(this.#name, this.#url, this.#plain);
    }
  }

  #say(said: Said): void {
    if (this.state !== "closed") {
      this.#up.postMessage(said);
    }
  }

  #join(): void {
    this.#joined = true;
    this.#say({
      tab: this.#id,
      join: [...this.#ids],
      after: this.#cursor.at,
      last: this.options.last,
      look: this.#rooms.ids,
    });
    // What the last hub did not answer this one does.
    this.#asked.forEach(({ said }) => this.#say(said));
    this.#sends.hush();
    this.#sends.open((n, send, endsAt) => {
      const ms = endsAt < Infinity ? Math.max(1, endsAt - Date.now()) : 0;
      this.#say({ tab: this.#id, send, ms, n });
      return true;
    });
  }

  async #change(change: Change, list: Id[]): Promise<boolean> {
    const login = change === "login";
    const ids = list.map(String).filter((id) => this.#ids.has(id) !== login);
    if (this.state === "closed") {
      return false;
    }
    ids.forEach((id) => this.#ids[login ? "add" : "delete"](id));
    const n = ++this.#asks;
    const said: Said = { tab: this.#id, act: change, ids, n };
    if (this.#joined) {
      this.#say(said);
    }
    const done = await new Promise<boolean>((answer) => this.#asked.set(n, { said, answer }));
    this.#asked.delete(n);
    if (!done && login) {
      // The next hub is not to be refused for them.
      ids.forEach((id) => this.#ids.delete(id));
    }
    return done;
  }

  #hear(told: Told): void {
    if (told.to && told.to !== this.#id) {
      return;
    }
    if ("here" in told) {
      this.#turn("connecting");
      this.#join();
    } else if ("event" in told) {
      const isOwn = !this.options.exact || !told.named || isAbout(told.event, this.#ids);
      if (this.#cursor.pass(told.event.id) && isOwn && !this.#sends.isOwn(told.event)) {
        this.#ears.event(told.event);
      }
    } else if ("gap" in told) {
      this.#cursor.gap();
      this.#ears.tell("gap");
    } else if ("state" in told) {
      this.transport = told.transport;
      this.id = told.id;
      const why = told.why && revived(told.why);
      if (told.state === "closed") {
        this.#end(why);
      } else {
        this.#turn(told.state, why);
        // If the worker ends, the connection is kept by a tab.
        this.#lead();
      }
    } else if ("place" in told) {
      // That one is before all ids, and was not reached.
      this.#cursor.pass(told.place.replace("earliest", ""));
    } else if ("error" in told) {
      this.#ears.complain(revived(told.error));
    } else if ("members" in told) {
      this.#rooms.hear(told.members);
    } else if ("sent" in told) {
      this.#sends.answered(told.n, undefined, told.sent);
    } else if ("unsent" in told) {
      this.#sends.answered(told.n, revived(told.unsent));
    } else if ("done" in told) {
      this.#asked.get(told.n)?.answer(told.done);
    } else {
      void this.#answer(told.wanted);
    }
  }

  /** The hub wants a token. */
  async #answer(n: number): Promise<void> {
    const { token } = this.options;
    if (typeof token === "function") {
      try {
        this.#say({ tab: this.#id, token: await token(), n });
      } catch (error) {
        this.#say({ tab: this.#id, fault: String((error as Error)?.message ?? error), n });
      }
    }
  }

  #turn(state: State, why?: Failure): void {
    if (this.state !== state && this.state !== "closed") {
      this.state = state;
      this.#ears.tell("state", state, why);
    }
  }

  #end(why?: Failure): void {
    if (this.state === "closed") {
      return;
    }
    this.#refusal = why;
    this.#say({ tab: this.#id, leave: true });
    this.#turn("closed", why);
    this.#asked.forEach(({ answer }) => answer(false));
    this.#sends.end();
    this.#stop?.();
    this.#release?.();
    this.#up.close();
    this.#down.close();
  }
}

function revived({ message, ...more }: { message: string }): Failure {
  return Object.assign(new Error(message), more);
}

export type * from "./types.js";
