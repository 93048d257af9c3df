/**
 * What a user of the library sees: events, states, options, and the connection itself.
 *
 * Types only; nothing of this file is in the bundle.
 */

/** The name of anything that can be online or be followed. `7` and `"7"` are the same id. */
export type Id = string | number;

/** How events travel, from the best to the most widely let through. */
export type TransportName = "websocket" | "sse" | "poll";

/**
 * `connecting`: a transport is being tried; `open`: logged in, events arrive; `waiting`: all
 * transports failed and the next attempt is due later; `closed`: for good.
 */
export type State = "connecting" | "open" | "waiting" | "closed";

/** A payload about an id, or about several. */
export interface EnckeEvent<T = unknown> {
  /** Opaque, unique, and greater than that of every event before it. */
  readonly id: string;
  /** The subject; of several the first. */
  readonly about: string;
  /** The other subjects, where there are several. */
  readonly also?: readonly string[];
  /** The name that its sender gave it. */
  readonly event?: string;
  /** What its sender sent. */
  readonly data: T;
}

/** Why an attempt failed. The message of a refusal says what to do. */
export interface Failure extends Error {
  /** The HTTP status of a refusal; 401 also where a stream ended with its token. */
  status?: number;
  /** How long to stay away: what the server asked for, or 5,000 where it is full and unclear. */
  retryAfterMs?: number;
  /** The server itself says that trying again is of no use, so the connection is closed. */
  final?: boolean;
}

/** What a connection tells, and what each listener is called with. */
export interface Listeners<T = unknown> {
  /** An event, once, in the order sent. */
  event: (event: EnckeEvent<T>) => void;
  /**
   * Events were missed that the server no longer remembers: read your data afresh. It may come when
   * the connection is back, and at any moment on an open one.
   */
  gap: () => void;
  /** The state is another; `why` is the failure that led to it, if one did. */
  state: (state: State, why?: Failure) => void;
  /**
   * The server refused the connection (it is closed then), one `login` or `logout`, or a token in
   * place of the last one, which was not to be had otherwise either; something that is not the
   * server refused it (it is tried again, and that is said once); an address had no room for all
   * ids; or what came was no JSON.
   */
  error: (error: Failure) => void;
}

/** How to connect. Only `ids` must be given. */
export interface Options {
  /** Who this client is: one id or several. */
  ids: Id | readonly Id[];
  /**
   * The token of this client (a JWT), where the server wants one; or, since tokens end, what gets
   * one: it is asked before a connect, before the last one ends and when that was refused.
   */
  token?: string | (() => string | Promise<string>);
  /** What to try, in this order. Default: all three, as far as the platform has them. */
  transports?: readonly TransportName[];
  /** A `cursor` of an earlier connection to the same server, to hear what came since. */
  after?: string;
  /** The first wait is random within this time, each further one within twice the last. 1,000. */
  retryMs?: number;
  /**
   * No random wait is longer; the first one after a server's orderly end is within this time.
   * 30,000.
   */
  retryMaxMs?: number;
  /** A transport that has not opened, or a ping that has no answer, after this time. 10,000. */
  openMs?: number;
  /**
   * A stream that brings nothing for so long is left, and resumed by another one. Pages do not see
   * a WebSocket's keep-alives, so it is asked after two thirds of that time. Longer than the
   * server's `--keepalive` (30 s) with some seconds to spare, and for polls at least 2 s; 0 is
   * never. 36,000.
   */
  silenceMs?: number;
}

/** A connection to Encke that comes back by itself until it is closed, and can be looped over. */
export interface Connection<T = unknown> extends BaseConnection<T>, AsyncIterable<EnckeEvent<T>> {}

/** A connection to Encke that comes back by itself until it is closed. */
export interface BaseConnection<T = unknown> {
  readonly state: State;
  /** The one in use, or being tried. */
  readonly transport: TransportName;
  /** All events up to this one were heard; `""` before the first answer. */
  readonly cursor: string;
  /** Calls `listener` from now on; the function that it returns ends that. */
  on<K extends keyof Listeners<T>>(what: K, listener: Listeners<T>[K]): () => void;
  /**
   * Hears what is about these ids too. Resolves to whether the server took them all; those for
   * which an address had no room are tried again later.
   */
  login(...ids: Id[]): Promise<boolean>;
  /** No longer. Who logs out of the last id closes the connection. */
  logout(...ids: Id[]): Promise<boolean>;
  /** Ends it for good. */
  close(): void;
}
