// The last minutes as rows that charts and tables read: each row is what two samples that follow
// one another say. Where there is no sample before, rates are unknown and stay empty.

import type { Sample } from "./api";

/** What is shown of one second. `null` is unknown, and a gap in a chart. */
export interface Row {
  unix_seconds: number;
  connections_open: number | null;
  events_per_second: number | null;
  deliveries_per_second: number | null;
  send_p50_seconds: number | null;
  send_p99_seconds: number | null;
  resident_bytes: number | null;
  kernel_socket_bytes: number | null;
  cpu_share: number | null;
}

export type Column = Exclude<keyof Row, "unix_seconds">;

/** Rows that are kept: five minutes. */
const ROWS_MAX = 300;

const time = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });

/** A moment of the server's clock. */
export const clock = (seconds: number): string => time.format(new Date(seconds * 1000));

export class Rows {
  readonly rows: Row[] = [];
  private before: Sample | null = null;

  /** The sample before the last one, against which counts are rates. */
  previous: Sample | null = null;

  push(sample: Sample): void {
    const before = this.before;
    // The first event may be older than the figures that came with the facts.
    if (before !== null && sample.uptime_seconds <= before.uptime_seconds) return;
    const seconds = before === null ? 0 : sample.uptime_seconds - before.uptime_seconds;
    const rate = (read: (sample: Sample) => number): number | null =>
      before === null ? null : (read(sample) - read(before)) / seconds;
    this.rows.push({
      unix_seconds: sample.unix_seconds,
      connections_open: sample.connections_open,
      events_per_second: rate((of) => of.events),
      deliveries_per_second: rate((of) => of.deliveries),
      send_p50_seconds: sample.send_p50_seconds,
      send_p99_seconds: sample.send_p99_seconds,
      resident_bytes: sample.resident_bytes,
      kernel_socket_bytes: sample.kernel_socket_bytes,
      cpu_share: rate((of) => of.cpu_seconds),
    });
    if (this.rows.length > ROWS_MAX) this.rows.shift();
    this.previous = before;
    this.before = sample;
  }

  /** What comes next does not follow what was: a gap in the charts. */
  interrupt(): void {
    const last = this.rows.at(-1);
    if (this.before === null || last === undefined) return;
    this.before = null;
    this.previous = null;
    this.rows.push({
      unix_seconds: last.unix_seconds + 0.001,
      connections_open: null,
      events_per_second: null,
      deliveries_per_second: null,
      send_p50_seconds: null,
      send_p99_seconds: null,
      resident_bytes: null,
      kernel_socket_bytes: null,
      cpu_share: null,
    });
  }

  column(name: keyof Row): (number | null)[] {
    return this.rows.map((row) => row[name]);
  }

  /** The newest row that has figures. */
  last(): Row | undefined {
    return this.rows.findLast((row) => row.connections_open !== null);
  }
}
