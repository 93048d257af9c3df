/**
 * The one connection of all tabs of an origin, wherever it is kept: in a `SharedWorker`, or in a
 * tab that leads.
 *
 * Who holds the lock of that name (Web Locks) is the hub; the next in its queue is when that is
 * gone. Tabs say things over one `BroadcastChannel` and hear over another, so neither minds who
 * the hub is, and each hears all. A tab holds a lock of its own, by which the hub learns that it
 * is gone.
 */

import type { Change } from "./ids.js";
import { connect } from "./index.js";
import type { MembersMessage } from "./members.js";
import type { Body } from "./sends.js";
import type {
  Connection,
  EnckeEvent,
  Failure,
  Id,
  Members,
  Options,
  Sent,
  State,
  TransportName,
} from "./types.js";

/** What of the options can be told to another context; who has a function for tokens is asked. */
export type HubOptions = Omit<Options, "ids" | "after" | "token"> & { token?: string | true };

/** A failure, since what an `Error` has besides its message is lost between contexts. */
export type Words = Pick<Failure, "message" | "status" | "retryAfterMs" | "final">;

/** What a tab says. */
export type Said = { tab: string } & (
  | { join: string[]; after: string; last?: number; look: string[] }
  | { look: string }
  | { overlook: string }
  | { send: Body; ms: number; n: number }
  | { act: Change; ids: string[]; n: number }
  | { token: string; n: number }
  | { fault: string; n: number }
  | { leave: true }
);

/** What the hub says, to one tab or to all. */
export type Told = { to?: string } & (
  | { here: true }
  | { event: EnckeEvent; named: boolean }
  | { gap: true }
  | { state: State; transport: TransportName; id: string; why?: Words }
  | { members: MembersMessage }
  | { sent: Sent; n: number }
  | { unsent: Words; n: number }
  | { place: string }
  | { error: Words }
  | { done: boolean; n: number }
  | { wanted: number }
);

/** Tabs that are there when another one becomes the hub all say so within this time. */
const GATHER_MS = 100;

/** So many events are kept for a tab that comes with a place. */
const RECENT_MAX = 100;

/** So many sends of all tabs wait at once; each tab has its own bound. */
const QUEUE_MAX = 10_000;

/** Becomes the hub of `name` when nobody else is; the function that it returns ends that. */
export function lead(name: string, url: string, options: HubOptions): () => void {
  const pending = new AbortController();
  let hub: Hub | undefined;
  const hold = () => new Promise<void>((leave) => (hub = new Hub(name, url, options, leave)));
  // It ends in error when it is given up before it was granted.
  navigator.locks.request(`${name} hub`, { signal: pending.signal }, hold).catch(() => {});
  return () => {
    pending.abort();
    hub?.end();
  };
}

export function words({ message, status, retryAfterMs, final }: Failure): Words {
  return { message, status, retryAfterMs, final };
}

class Hub {
  /** The ids of each tab. */
  #tabs = new Map<string, Set<string>>();
  /** The rooms that each tab looks at. */
  #looks = new Map<string, Set<string>>();
  #rooms = new Map<string, Members>();
  #up: BroadcastChannel;
  #down: BroadcastChannel;
  #connection?: Connection;
  /** Tabs are gathered, and then there is a connection. */
  #ready?: Promise<void>;
  /** The server knows, or refuses, all ids that tabs have come with. */
  #known?: Promise<unknown>;
  /** The lowest place that a tab has brought meanwhile. */
  #after = "";
  #recent: EnckeEvent[] = [];
  /** All events after this place are in `recent`; `~`, behind all ids, where some are missing. */
  #since = "";
  /** Who waits for a token. */
  #asked?: { n: number; resolve: (token: string) => void; reject: (why: Error) => void };
  #asks = 0;

  constructor(
    readonly name: string,
    readonly url: string,
    readonly options: HubOptions,
    readonly leave: () => void,
  ) {
    this.#up = new BroadcastChannel(`${name} up`);
    this.#down = new BroadcastChannel(`${name} down`);
    this.#up.onmessage = ({ data }) => void this.#hear(data);
    this.#tell({ here: true });
  }

  end(): void {
    this.#close();
    // What is still under way opens nothing, and tells nobody.
    this.#tabs.clear();
    this.#up.close();
    this.#down.close();
    this.leave();
  }

  /** The tabs go on, with another hub or without one, so it is none of theirs. */
  #close(): void {
    const connection = this.#connection;
    this.#connection = undefined;
    this.#rooms.clear();
    connection?.close();
  }

  #tell(told: Told): void {
    this.#down.postMessage(told);
  }

  async #hear(said: Said): Promise<void> {
    const { tab } = said;
    if ("join" in said) {
      this.#looks.set(tab, new Set(said.look));
      this.#join(tab, said.join, said.after, said.last);
      this.#look(tab, said.look);
    } else if ("look" in said) {
      this.#looks.get(tab)?.add(said.look);
      this.#look(tab, [said.look]);
    } else if ("overlook" in said) {
      this.#looks.get(tab)?.delete(said.overlook);
      this.#look(tab);
    } else if ("send" in said) {
      await this.#send(tab, said.send, said.ms, said.n);
    } else if ("act" in said) {
      await this.#change(tab, said.act, said.ids, said.n);
    } else if ("leave" in said) {
      this.#forget(tab);
    } else if (this.#asked?.n === said.n) {
      const { resolve, reject } = this.#asked;
      this.#asked = undefined;
      if ("token" in said) {
        resolve(said.token);
      } else {
        reject(new Error(said.fault));
      }
    }
  }

  #join(tab: string, ids: string[], from: string, last = 0): void {
    // So it is before all ids in the order of text, too.
    const after = from.replace("earliest", "!");
    if (!this.#tabs.has(tab)) {
      // Granted when the tab is gone, however it went.
      void navigator.locks.request(`${this.name} ${tab}`, () => this.#forget(tab));
    }
    const news = ids.filter((id) => !this.#all.has(id));
    this.#tabs.set(tab, new Set(ids));
    const connection = this.#connection;
    if (!connection) {
      this.#after = [this.#after || after, after || this.#after].sort()[0];
      this.#ready ??= new Promise((done) => setTimeout(done, GATHER_MS)).then(() => this.#open());
      return;
    }
    // Before it is open nobody knows where it begins.
    if (after && after < (connection.cursor || "~")) {
      if (!news[0] && this.#since && after >= this.#since) {
        this.#recent
          .filter(({ id }) => id > after)
          .forEach((event) => this.#tell({ to: tab, ...this.#named(event) }));
      } else {
        this.#tell({ to: tab, gap: true });
      }
    }
    if (!after && last) {
      // As far as they are here: no stream is opened again for a tab that comes later.
      const isOwn = (event: EnckeEvent) => isAbout(event, new Set(ids));
      const past = this.#recent.filter(isOwn).slice(-last);
      past.forEach((event) => this.#tell({ to: tab, ...this.#named(event) }));
    }
    if (news[0]) {
      this.#known = connection.login(...news);
    }
    const { state, transport, id } = connection;
    this.#tell({ to: tab, state, transport, id });
    this.#tell({ to: tab, place: connection.cursor });
  }

  /** Looks at the rooms that a tab looks at, and at no others; tells `tab` of those in `asked`. */
  #look(tab: string, asked: string[] = []): void {
    const connection = this.#connection;
    if (!connection) {
      return;
    }
    const all = new Set([...this.#looks.values()].flatMap((rooms) => [...rooms]));
    for (const [id, room] of this.#rooms) {
      if (!all.has(id)) {
        room.stop();
        this.#rooms.delete(id);
      }
    }
    for (const id of all) {
      const room = this.#rooms.get(id) ?? connection.members(id);
      this.#rooms.set(id, room);
      if (room.isKnown && asked.includes(id)) {
        const { count } = room;
        const list = count === room.list.length ? [...room.list] : undefined;
        this.#tell({ to: tab, members: { members: { of: id, count, list } } });
      }
    }
  }

  /** The other tabs hear it, too, so it is sent with an echo; the one that sends it knows it. */
  async #send(tab: string, body: Body, ms: number, n: number): Promise<void> {
    await this.#ready;
    const connection = this.#connection;
    const { about, data, event, key } = body;
    try {
      const options = { event, key, echo: true, queueMs: ms };
      const sent = await connection!.send(about, data, options as {});
      this.#tell({ to: tab, sent, n });
    } catch (error) {
      // Where there is none any more, the next hub is told of it.
      if (connection && this.#connection === connection) {
        this.#tell({ to: tab, unsent: words(error as Failure), n });
      }
    }
  }

  #open(): void {
    this.#ready = undefined;
    const ids = [...this.#all];
    if (!ids[0]) {
      return;
    }
    const token = this.options.token === true ? () => this.#token() : this.options.token;
    // Between the last events about each id those of others are missing.
    this.#since = this.#after || (this.options.last ? "~" : "");
    this.#recent = [];
    const connection = connect(this.url, {
      ...this.options,
      ids,
      after: this.#after.replace("!", "earliest"),
      token,
      queueMax: QUEUE_MAX,
    });
    this.#connection = connection;
    this.#after = "";
    this.#look("");
    // Its own words, which are none of what it tells an application.
    const members = (message: MembersMessage) => this.#tell({ members: message });
    connection.on("members" as "event", members as never);
    this.#known = new Promise<void>((known) => {
      connection.on("state", (state) => ["open", "closed"].includes(state) && known());
    });
    connection.on("event", (event) => {
      this.#since ||= event.id;
      this.#recent.push(event);
      if (this.#recent.length > RECENT_MAX) {
        this.#since = [this.#since, this.#recent.shift()!.id].sort()[1];
      }
      this.#tell(this.#named(event));
    });
    connection.on("gap", () => {
      this.#recent = [];
      this.#since = "";
      this.#tell({ gap: true });
    });
    connection.on("error", (error) => this.#tell({ error: words(error) }));
    connection.on("state", (state, why) => {
      if (this.#connection !== connection) {
        return;
      }
      if (state === "closed") {
        this.#connection = undefined;
        this.#rooms.clear();
      }
      const { transport, id } = connection;
      this.#tell({ state, transport, id, why: why && words(why) });
      // The place of the beginning comes with what opened it.
      setTimeout(() => {
        if (state === "open" && this.#connection === connection) {
          this.#since ||= connection.cursor;
          this.#tell({ place: connection.cursor });
        }
      });
    });
  }

  async #change(tab: string, change: Change, ids: string[], n: number): Promise<void> {
    await this.#ready;
    const login = change === "login";
    const own = this.#tabs.get(tab);
    if (!own || !this.#connection) {
      return;
    }
    ids.forEach((id) => own[login ? "add" : "delete"](id));
    const done = await this.#connection[change](
      ...(login ? ids : ids.filter((id) => !this.#all.has(id))),
    );
    // What was asked for may be among what its tab, or another one, came with.
    await this.#known;
    if (!done && login) {
      ids.forEach((id) => own.delete(id));
    }
    if (this.#connection) {
      this.#tell({ to: tab, done, n });
    }
  }

  #forget(tab: string): void {
    const ids = [...(this.#tabs.get(tab) ?? [])];
    this.#tabs.delete(tab);
    this.#looks.delete(tab);
    if (!this.#tabs.size) {
      this.#close();
    }
    this.#look(tab);
    void this.#connection?.logout(...ids.filter((id) => !this.#all.has(id)));
  }

  /** With whether a tab has one of its subjects among its ids. */
  #named(event: EnckeEvent): { event: EnckeEvent; named: boolean } {
    return { event, named: isAbout(event, this.#all) };
  }

  #token(): Promise<string> {
    const n = ++this.#asks;
    return new Promise((resolve, reject) => {
      this.#asked = { n, resolve, reject };
      this.#tell({ wanted: n });
    });
  }

  get #all(): Set<Id> {
    return new Set([...this.#tabs.values()].flatMap((ids) => [...ids]));
  }
}

/** Whether an event is about one of `ids`. */
export const isAbout = ({ about, also = [] }: EnckeEvent, ids: ReadonlySet<Id>): boolean =>
  [about, ...also].some((id) => ids.has(id));
