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
  /** The id of the client that sent it, if a client did: the server has made sure of it. */
  readonly from?: string;
  /** What its sender sent. */
  readonly data: T;
}

/**
 * The names of an application's events: the members of `E`, whose types are those of the data. The
 * member `""` stands for events without a name. An application that says nothing has any.
 */
export type Name<E> = unknown extends E ? string : keyof E & string;

/** The data of the events of that name. */
export type DataOf<E, N> = unknown extends E ? unknown : N extends keyof E ? E[N] : never;

/** The events of that name. */
export type NamedEvent<E, N extends string> = EnckeEvent<DataOf<E, N>> &
  (string extends N ? {} : { readonly event: N extends "" ? undefined : N });

/** Any event of an application that names its events. */
export type AnyEvent<E> = unknown extends E
  ? EnckeEvent
  : { [N in Name<E>]: NamedEvent<E, N> }[Name<E>];

/** How to send. */
export interface SendOptions<N = string | undefined> {
  /** The name of the event. */
  event?: N;
  /** This connection hears it too. */
  echo?: boolean;
  /** With the same key it is posted once within five minutes. Default: another one each time. */
  key?: string;
  /** Sent no later than that. Default: that of the connection. */
  queueMs?: number;
}

/** An event that was posted. */
export interface Sent {
  readonly id: string;
  /** How many connections heard it. Nobody online is 0, and no error. */
  readonly delivered: number;
  /** A node of a cluster has not said how many heard it there. */
  readonly at_least?: boolean;
}

/** A user in a room: the `sub` of a token, and what it says of its bearer. */
export interface Member<I = unknown> {
  readonly id: string;
  readonly info?: I;
}

/** What a set of members tells. */
export interface MembersListeners<I = unknown> {
  join: (member: Member<I>) => void;
  leave: (member: Member<I>) => void;
  /** Something is another: who is there, how many, or what is said of one of them. */
  change: (members: Members<I>) => void;
}

/** Who is in a room, kept up to date. */
export interface Members<I = unknown> {
  /** The room. */
  readonly of: string;
  /** Another array after each change. Empty where there are too many for a list. */
  readonly list: readonly Member<I>[];
  readonly count: number;
  /** The server has said who is there. */
  readonly isKnown: boolean;
  /** Calls `listener` from now on; the function that it returns ends that. */
  on<K extends keyof MembersListeners<I>>(what: K, listener: MembersListeners<I>[K]): () => void;
  /** Follows the room no longer. */
  stop(): void;
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
export interface Listeners<E = unknown> {
  /** An event, whatever its name, once, in the order sent. */
  event: (event: AnyEvent<E>) => void;
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
  /**
   * A `cursor` of an earlier connection to the same server, to hear what came since; `"earliest"`
   * is all that is remembered.
   */
  after?: string;
  /** So many events of each id come first, if there is no `after`. 0. */
  last?: number;
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
  /** So many sends wait for an answer at most. A further one is refused. 100. */
  queueMax?: number;
  /** How long a send waits for an answer, while the connection is away too; 0 is for ever. 30,000. */
  queueMs?: number;
}

/** A connection to Encke that comes back by itself until it is closed, and can be looped over. */
export interface Connection<E = unknown> extends BaseConnection<E>, AsyncIterable<AnyEvent<E>> {
  /**
   * Sends an event to all who are online as `about` or follow it, but not to this connection.
   * Rejects with what the server says if it refuses it, and if there is no answer in time.
   */
  send(
    about: Id | readonly Id[],
    data: DataOf<E, "">,
    options?: SendOptions<unknown extends E ? string : undefined>,
  ): Promise<Sent>;
  send<N extends Name<E>>(
    about: Id | readonly Id[],
    data: DataOf<E, N>,
    options: SendOptions & { event: N },
  ): Promise<Sent>;
  /** Who is in the room `id`, from now on. */
  members<I = unknown>(id: Id): Members<I>;
}

/** A connection to Encke that comes back by itself until it is closed. */
export interface BaseConnection<E = unknown> {
  readonly state: State;
  /** The one in use, or being tried. */
  readonly transport: TransportName;
  /** All events up to this one were heard; `after` or `""` before the first answer. */
  readonly cursor: string;
  /**
   * The id of the open stream, which a backend gives as `except` to leave this connection out. Each
   * stream has another one; `""` while there is none, and with long polls.
   */
  readonly id: string;
  /** Calls `listener` from now on; the function that it returns ends that. */
  on<K extends keyof Listeners>(what: K, listener: Listeners<E>[K]): () => void;
  /** Hears the events of that name alone. */
  on<N extends Name<E>>(
    what: `event:${N}`,
    listener: (event: NamedEvent<E, N>) => void,
  ): () => void;
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

/** A connection of any entry. */
export type Hears<E> = Connection<E> | BaseConnection<E>;
