// The server's API, as this page uses it. Errors are the problems of RFC 9457: their detail says
// what to do, and is shown as it is.

/** What charts need of one second. Counts are since the server's start. */
export interface Reading {
  unix_seconds: number;
  uptime_seconds: number;
  cpu_seconds: number;
  resident_anonymous_bytes: number;
  resident_file_bytes: number;
  kernel_socket_bytes: number | null;
  connections_open: number;
  events: number;
  deliveries: number;
  /** Events that clients sent, and those of theirs that were refused. */
  client_sends: number;
  client_sends_refused: number;
  send_p50_seconds: number | null;
  send_p99_seconds: number | null;
}

/** What one event of the figures holds: all but the streams of dashboards. */
export interface Sample extends Reading {
  /** Streams of dashboards; only those by transport and by worker count them, too. */
  dashboards: number;
  ids_online: number;
  subscriptions: number;
  store_bytes: number | null;
  connections_opened: number;
  connections_closed: Record<string, number>;
  streams_open: Record<string, number>;
  dropped: number;
  sent_bytes: number;
  mails_waiting: number;
  history: { events: number; bytes: number; resumes: number; gaps: number };
  erlang: Erlang | null;
  cluster: ClusterLink | null;
  workers: Workers;
}

/** The node among Erlang nodes. */
export interface Erlang {
  node: string;
  registered: boolean;
  nodes: number;
  processes: number;
  waiting_bytes: number;
  events: number;
  deliveries: number;
  dropped: number;
}

/** How this node stands to the log of its cluster. */
export interface ClusterLink {
  membership: string;
  lag_records: number;
  queued: number;
  counting: number;
  gaps: number;
  nats_connected: boolean;
  nats_server: string;
}

/** One number for each worker, or for each group of neighbours. */
export interface Workers {
  count: number;
  workers_per_row: number;
  connections_open: number[];
  deliveries: number[];
  turns: number[];
  turn_seconds: number[];
  mails_waiting: number[];
  full: number[];
}

export interface Facts {
  version: string;
  id: string;
  /** What lets the page in there, where streams need tokens. */
  token?: string;
  public_url: string;
  /** Whether somebody has logged in, and can log out. */
  session: boolean;
  interval_seconds: number;
  /** The last minutes, a column for each member of a reading. */
  past: { [Column in keyof Reading]: Reading[Column][] };
  now: Sample;
}

/** The columns of the last minutes as readings. */
export function readings({ past }: Facts): Reading[] {
  const columns = Object.entries(past) as [keyof Reading, (number | null)[]][];
  return past.unix_seconds.map(
    (_, at) => Object.fromEntries(columns.map(([name, all]) => [name, all[at]])) as never,
  );
}

/** A page of ids; `next` is what to go on after. */
export interface Ids {
  ids: string[];
  next: string | null;
}

export interface Check {
  name: string;
  verdict: "enough" | "not_shown" | "low" | "too_low";
  here: number[];
  asked: number[];
  unit: "count" | "bytes";
  why: string;
  command: string | null;
  hindrance: string | null;
  follows: string | null;
}

export interface Tune {
  users: number;
  ends: "server" | "both";
  fits: boolean;
  users_max: number;
  users_max_with_clients: number;
  cores: number;
  workers: number;
  checks: Check[];
}

/** What a node of a cluster says of itself. One of an older version leaves out what it does not know. */
export interface ClusterNode {
  node: string;
  address: string;
  member: boolean;
  ending?: boolean;
  epoch: number;
  applied: number;
  lag_records?: number;
  streams: number;
  ids_online: number;
  events?: number;
  at_least: number;
}

export interface Cluster {
  /** `null` where the server is alone. */
  cluster: string | null;
  /** The node that answers. */
  node: string | null;
  members: number;
  nodes: ClusterNode[];
  /** A node has not answered. */
  at_least?: boolean;
}

/** How long an answer may take. */
const PATIENCE_MS = 10_000;

async function call<T>(path: string, init: RequestInit = {}): Promise<T> {
  return (await (await ask(path, init)).json()) as T;
}

async function ask(path: string, init: RequestInit): Promise<Response> {
  const signal = AbortSignal.timeout(PATIENCE_MS);
  const answer = await fetch(path, { ...init, signal, cache: "no-store" }).catch(() => {
    throw new Error("The server does not answer.");
  });
  if (!answer.ok) {
    const problem = (await answer.json().catch(() => ({}))) as { detail?: string };
    throw new Error(problem.detail ?? `The server answers ${answer.status}.`);
  }
  return answer;
}

/** Logs out: the answer leads to the page on which one logs in. */
export async function endSession(): Promise<void> {
  await ask("/session/end", { method: "POST" });
}

export const facts = (): Promise<Facts> => call("/dashboard.json");

export const cluster = (): Promise<Cluster> => call("/cluster");

/** `at_least` where a node of the cluster has not said. */
export const connections = (id: string): Promise<{ connections: number; at_least?: boolean }> =>
  call(`/connections/${encodeURIComponent(id)}`);

/** Who is in a room: the users that are logged in under an id. No list where there are too many. */
export interface Members {
  of: string;
  count: number;
  list?: { id: string; info?: unknown }[];
}

export async function members(id: string): Promise<Members> {
  return (await call<{ members: Members }>(`/members/${encodeURIComponent(id)}`)).members;
}

export type List = "subscribers" | "subscriptions";

/** A part of a list, from where the page before ended, or from its start. */
export function ids(list: List, id: string, limit: number, after: string | null): Promise<Ids> {
  const query = new URLSearchParams({ limit: String(limit) });
  if (after !== null) query.set("after", after);
  return call(`/${list}/${encodeURIComponent(id)}?${query}`);
}

/** What came of a send; `at_least` where a node of the cluster has not told its count. */
export interface Sent {
  delivered: number;
  id: string;
  at_least?: boolean;
}

/** Sends an event; `data` is JSON text. */
export function send(about: string, data: string): Promise<Sent> {
  const body = `{"about":${JSON.stringify(about)},"data":${data}}`;
  return call("/send", { method: "POST", headers: { "Content-Type": "application/json" }, body });
}

export function tune(users: number, withClients: boolean): Promise<Tune> {
  return call(`/tune.json?users=${users}&with_clients=${withClients}`);
}

/** The text of a failure. */
export function reason(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
