// What the samples say besides charts: the table of seconds, the workers, the endings.

import type { Sample } from "./api";
import { byId, setText } from "../shared/dom";
import { bytes, counted, duration, grouped, short, uptime } from "../shared/format";
import { Table } from "./tables";
import { type Row, type Rows, clock } from "./window";

/** Seconds that the table shows. */
const SECONDS_SHOWN = 30;

/** How people call the reasons; one that is not here shows as the server calls it. */
const REASONS: Record<string, string> = {
  client_closed: "closed by the client",
  client_reset: "reset by the client",
  client_vanished: "client vanished",
  answered: "answered, as asked for",
  idle: "idle between polls",
  tls_failed: "TLS failed",
  tls_timeout: "TLS handshake did not end in time",
  head_timeout: "request did not come in time",
  bad_request: "request not understood",
  protocol_error: "WebSocket's rules broken",
  message_too_large: "message too long",
  message_timeout: "message did not come in time",
  slow_reader: "read too slowly",
  buffers_full: "no room in the buffers of all",
  logged_out: "logged out through the API",
  token_expired: "token expired",
  token_revoked: "token revoked",
  shutdown: "server stopping",
  moved: "moved to another node",
  full: "no place left",
  address_limit: "limit of its address met",
};

/** The same of transports. */
const TRANSPORTS: Record<string, string> = {
  sse: "Server-Sent Events",
  ndjson: "NDJSON",
  classic: "Classic page",
  websocket: "WebSocket",
  poll: "Long poll",
};

const unknown = "–";
const or = (value: number | null, format: (value: number) => string): string =>
  value === null ? unknown : format(value);
const rounded = (value: number): string => grouped(Math.round(value));

function secondsOf(row: Row): string[] {
  return [
    clock(row.unix_seconds),
    or(row.connections_open, grouped),
    or(row.events_per_second, rounded),
    or(row.deliveries_per_second, rounded),
    or(row.send_p50_seconds, duration),
    or(row.send_p99_seconds, duration),
    or(row.resident_anonymous_bytes, bytes),
    or(row.resident_file_bytes, bytes),
    or(row.kernel_socket_bytes, bytes),
  ];
}

export class Figures {
  private readonly details = byId<HTMLDetailsElement>("figures-details");
  private readonly seconds = new Table(byId<HTMLTableElement>("figures-table"), [
    "Time",
    "Connections",
    "Events/s",
    "Deliveries/s",
    "Send, p50",
    "Send, p99",
    "Server's heap",
    "Its mapped files",
    "Machine's sockets",
  ]);
  private readonly workers = new Table(byId<HTMLTableElement>("workers-table"), [
    "Worker",
    "Connections",
    "Deliveries/s",
    "Turns/s",
    "Busy",
    "Full",
  ]);
  private readonly endings = new Table(byId<HTMLTableElement>("endings-table"), [
    "Reason",
    "Since start",
    "Seen here",
  ]);
  private readonly transports = new Table(byId<HTMLTableElement>("transports-table"), [
    "Transport",
    "Open",
  ]);
  /** The first sample of this run of the server that this page saw. */
  private first: Sample | null = null;
  /** The one that was shown before. */
  private before: Sample | null = null;

  constructor(private readonly rows: Rows) {
    this.details.addEventListener("toggle", () => this.showSeconds());
  }

  /** Another run of the server: nothing counted so far holds. */
  restart(): void {
    this.first = null;
    this.before = null;
  }

  show(sample: Sample): void {
    this.first ??= sample;
    const parts = [`up ${uptime(sample.uptime_seconds)}`];
    if (sample.ids_online > 0) parts.push(`${counted(sample.ids_online, "id")} online`);
    if (sample.subscriptions > 0) parts.push(counted(sample.subscriptions, "subscription"));
    setText(byId("facts"), parts.join("\u2002·\u2002"));
    this.showSeconds();
    this.showWorkers(sample);
    this.showTransports(sample);
    this.showTrouble(sample);
    this.showEndings(sample, this.first);
    if (this.before?.uptime_seconds !== sample.uptime_seconds) this.before = sample;
  }

  private showSeconds(): void {
    if (!this.details.open) return;
    const rows = this.rows.rows.filter((row) => row.connections_open !== null);
    this.seconds.show(rows.slice(-SECONDS_SHOWN).reverse().map(secondsOf));
  }

  private showWorkers({ workers, uptime_seconds, mails_waiting }: Sample): void {
    const before = this.before;
    const passed = before === null ? 0 : uptime_seconds - before.uptime_seconds;
    const seconds = passed > 0 ? passed : null;
    const rate = (now: number[], then: number[] | undefined, at: number): number | null => {
      if (seconds === null || then === undefined || then.length !== now.length) return null;
      return ((now[at] ?? 0) - (then[at] ?? 0)) / seconds;
    };
    const most = Math.max(1, ...workers.connections_open);
    const group = workers.workers_per_row;
    const rows = workers.connections_open.map((open, at) => {
      const first = at * group;
      const last = Math.min(first + group, workers.count) - 1;
      const busy = rate(workers.turn_seconds, before?.workers.turn_seconds, at);
      const share = busy === null ? 0 : busy / (last - first + 1);
      return [
        first === last ? String(first) : `${first}–${last}`,
        { text: grouped(open), share: open / most },
        or(rate(workers.deliveries, before?.workers.deliveries, at), rounded),
        or(rate(workers.turns, before?.workers.turns, at), rounded),
        { text: busy === null ? unknown : `${(100 * share).toFixed(1)}\u202f%`, share },
        (workers.full[at] ?? 0) > 0 ? "full" : "no",
      ];
    });
    this.workers.show(rows, workers.full.map((full) => (full > 0 ? "bad" : "")));
    const full = workers.full.reduce((sum, each) => sum + each, 0);
    const note = `${counted(workers.count, "thread")}, ${full === 0 ? "none" : grouped(full)} full`;
    const waits = mails_waiting > 0 ? `, ${short(mails_waiting)} mails on their way to them` : "";
    setText(byId("workers-note"), `${note}${waits}.`);
  }

  private showTransports({ streams_open, dashboards }: Sample): void {
    const open = Object.entries(streams_open).filter(([, count]) => count > 0);
    byId("transports-table").hidden = open.length === 0;
    this.transports.show(open.map(([name, count]) => [TRANSPORTS[name] ?? name, grouped(count)]));
    const own = dashboards === 1 ? "One of them is a dashboard" : `${dashboards} are dashboards`;
    const note = `${own}, which the figures above leave out.`;
    setText(byId("transports-note"), open.length === 0 ? "No stream is open." : note);
    byId("transports-note").hidden = open.length > 0 && dashboards === 0;
  }

  /** What asks to be looked at; nothing of it is a sentence. */
  private showTrouble(sample: Sample): void {
    const slow = sample.connections_closed["slow_reader"] ?? 0;
    setText(byId("slow"), grouped(slow));
    setText(byId("dropped"), grouped(sample.dropped));
    const isCalm = slow + sample.dropped === 0;
    byId("trouble").hidden = isCalm;
    byId("trouble-note").hidden = isCalm;
    byId("calm").hidden = !isCalm;
  }

  private showEndings(sample: Sample, first: Sample): void {
    const all = Object.entries(sample.connections_closed);
    const reasons = all.filter(([, count]) => count > 0).sort(([, a], [, b]) => b - a);
    byId("endings-table").hidden = reasons.length === 0;
    this.endings.show(
      reasons.map(([reason, count]) => [
        REASONS[reason] ?? reason.replaceAll("_", " "),
        grouped(count),
        grouped(count - (first.connections_closed[reason] ?? 0)),
      ]),
      reasons.map(([reason]) => (reason === "slow_reader" ? "warn" : "")),
    );
    const others = all.length - reasons.length;
    const rest = `${counted(others, "other reason")} ${others === 1 ? "has" : "have"} not come up.`;
    setText(byId("endings-note"), reasons.length === 0 ? "No connection has ended yet." : rest);
  }
}
