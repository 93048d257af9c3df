// What stands beside the streams: what is remembered for those who come back, the stored graph, and
// the Erlang side, where there is one.

import type { Erlang, Sample } from "./api";
import { byId } from "../shared/dom";
import { bytes, counted, grouped } from "../shared/format";
import { Table } from "./tables";

export class Beside {
  private readonly table = new Table(byId<HTMLTableElement>("beside-table"), ["What", "Now"]);
  /** Samples of this run of the server, the last one that was shown and the one before it. */
  private now: Sample | null = null;
  private before: Sample | null = null;

  /** The server has started anew, and counts from zero. */
  restart(): void {
    this.now = null;
    this.before = null;
  }

  show(sample: Sample): void {
    const { history, subscriptions, store_bytes: stored, erlang } = sample;
    if (this.now?.uptime_seconds !== sample.uptime_seconds) {
      this.before = this.now;
      this.now = sample;
    }
    const { events, bytes: size, resumes, gaps } = history;
    const rows = [
      ["Remembered events", events === 0 ? "none" : `${grouped(events)}, ${bytes(size)}`],
      ["Clients that came back", cameBack(resumes, gaps)],
      ["Subscriptions", grouped(subscriptions)],
      ["Their file", stored === null ? "not told" : bytes(stored)],
      ...(erlang === null ? [] : erlangRows(erlang, rates(this.before, sample))),
    ];
    this.table.show(rows, rows.map(([, now]) => (now?.includes("gap") ? "warn" : "")));
  }
}

function cameBack(resumes: number, gaps: number): string {
  if (resumes === 0) return "none";
  return gaps === 0
    ? `${grouped(resumes)}, all without loss`
    : `${grouped(resumes)}, ${grouped(gaps)} of them were told of a gap`;
}

/** Events of Erlang nodes and messages to them, a second; `null` where nobody knows. */
function rates(before: Sample | null, now: Sample): [number, number] | null {
  const seconds = now.uptime_seconds - (before?.uptime_seconds ?? Infinity);
  if (!before?.erlang || !now.erlang || !(seconds > 0)) return null;
  const { events, deliveries } = before.erlang;
  return [(now.erlang.events - events) / seconds, (now.erlang.deliveries - deliveries) / seconds];
}

function erlangRows(erlang: Erlang, rates: [number, number] | null): string[][] {
  const { node, registered, nodes, processes, events, deliveries } = erlang;
  const { waiting_bytes: waiting, dropped } = erlang;
  const rows = [
    ["Erlang node", registered ? node : `${node}, which epmd does not know`],
    ["Erlang nodes connected", grouped(nodes)],
    ["Processes logged in", grouped(processes)],
    ["Sent by Erlang", `${counted(events, "event")}${rateOf(rates?.[0])}`],
    ["Heard by Erlang", `${counted(deliveries, "message")}${rateOf(rates?.[1])}`],
  ];
  if (waiting > 0) rows.push(["Waiting for Erlang nodes", bytes(waiting)]);
  if (dropped > 0) rows.push(["Dropped, their process was gone", grouped(dropped)]);
  return rows;
}

function rateOf(rate: number | undefined): string {
  return rate === undefined ? "" : `, ${grouped(Math.round(Math.max(0, rate)))} a second`;
}
