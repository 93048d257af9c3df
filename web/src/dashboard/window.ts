// The last minutes as rows that charts and tables read: each row is what two readings that follow
// one another say. Readings come one by one, and by the minute when the server tells its past: then
// they fill whatever hole there is. Where there is no reading before, rates are unknown.

import type { Reading } from "./api";

/** What is shown of one second. `null` is unknown, and a gap in a chart. */
export interface Row {
  unix_seconds: number;
  connections_open: number | null;
  events_per_second: number | null;
  deliveries_per_second: number | null;
  client_sends_per_second: number | null;
  client_sends_refused_per_second: number | null;
  send_p50_seconds: number | null;
  send_p99_seconds: number | null;
  resident_anonymous_bytes: number | null;
  resident_file_bytes: number | null;
  kernel_socket_bytes: number | null;
  cpu_share: number | null;
}

export type Column = Exclude<keyof Row, "unix_seconds">;

/** What readings count since the start, and rows tell by the second. */
type Counted = "events" | "deliveries" | "client_sends" | "client_sends_refused" | "cpu_seconds";

/** Rows that are kept: five minutes. */
const ROWS_MAX = 300;

/** Seconds without a reading that make a hole. */
const HOLE_SECONDS = 5;

const time = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });

/** A moment of the server's clock. */
export const clock = (seconds: number): string => time.format(new Date(seconds * 1000));

export class Rows {
  /** Of runs of the server that are over. */
  private before: Row[] = [];
  /** Of this run, by their uptime. */
  private readings: Reading[] = [];
  rows: Row[] = [];

  push(reading: Reading): void {
    this.fill([reading]);
  }

  /** Adds those of `readings` that are not there yet. */
  fill(readings: Reading[]): void {
    const known = new Set(this.readings.map((reading) => reading.uptime_seconds));
    const fresh = readings.filter((reading) => !known.has(reading.uptime_seconds));
    if (fresh.length === 0) return;
    const all = [...this.readings, ...fresh].sort((a, b) => a.uptime_seconds - b.uptime_seconds);
    this.readings = all.slice(-ROWS_MAX);
    this.rows = [...this.before, ...rowsOf(this.readings)].slice(-ROWS_MAX);
  }

  /** What comes next is of another run of the server: a gap in the charts. */
  restart(): void {
    const last = this.rows.at(-1);
    if (last === undefined) return;
    this.readings = [];
    this.before = this.rows = [...this.rows, gapAfter(last.unix_seconds)].slice(-ROWS_MAX);
  }

  column(name: keyof Row): (number | null)[] {
    return this.rows.map((row) => row[name]);
  }

  /** The newest row that has figures. */
  last(): Row | undefined {
    return this.rows.findLast((row) => row.connections_open !== null);
  }
}

function rowsOf(readings: Reading[]): Row[] {
  return readings.flatMap((now, at) => {
    const then = readings[at - 1];
    const seconds = then === undefined ? 0 : now.uptime_seconds - then.uptime_seconds;
    const isHole = seconds > HOLE_SECONDS;
    const rate = (name: Counted): number | null =>
      then === undefined || isHole ? null : Math.max(0, (now[name] - then[name]) / seconds);
    const row: Row = {
      unix_seconds: now.unix_seconds,
      connections_open: now.connections_open,
      events_per_second: rate("events"),
      deliveries_per_second: rate("deliveries"),
      client_sends_per_second: rate("client_sends"),
      client_sends_refused_per_second: rate("client_sends_refused"),
      send_p50_seconds: now.send_p50_seconds,
      send_p99_seconds: now.send_p99_seconds,
      resident_anonymous_bytes: now.resident_anonymous_bytes,
      resident_file_bytes: now.resident_file_bytes,
      kernel_socket_bytes: now.kernel_socket_bytes,
      cpu_share: rate("cpu_seconds"),
    };
    return isHole && then !== undefined ? [gapAfter(then.unix_seconds), row] : [row];
  });
}

function gapAfter(unix_seconds: number): Row {
  return {
    unix_seconds: unix_seconds + 0.001,
    connections_open: null,
    events_per_second: null,
    deliveries_per_second: null,
    client_sends_per_second: null,
    client_sends_refused_per_second: null,
    send_p50_seconds: null,
    send_p99_seconds: null,
    resident_anonymous_bytes: null,
    resident_file_bytes: null,
    kernel_socket_bytes: null,
    cpu_share: null,
  };
}
