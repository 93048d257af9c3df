// What stands beside the streams: what is remembered for those who come back, the stored graph, and
// the Erlang side, where there is one.

import type { Erlang, Sample } from "./api";
import { byId } from "../shared/dom";
import { bytes, counted, grouped } from "../shared/format";
import { Table } from "./tables";

export class Beside {
  private readonly table = new Table(byId<HTMLTableElement>("beside-table"), ["What", "Now"]);

  show({ history, subscriptions, store_bytes: stored, erlang }: Sample): void {
    const { events, bytes: size, resumes, gaps } = history;
    const rows = [
      ["Remembered events", events === 0 ? "none" : `${grouped(events)}, ${bytes(size)}`],
      ["Clients that came back", cameBack(resumes, gaps)],
      ["Subscriptions", grouped(subscriptions)],
      ["Their file", stored === null ? "not told" : bytes(stored)],
      ...(erlang === null ? [] : erlangRows(erlang)),
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

function erlangRows(erlang: Erlang): string[][] {
  const { node, registered, nodes, processes, events, deliveries } = erlang;
  const { waiting_bytes: waiting, dropped } = erlang;
  const rows = [
    ["Erlang node", registered ? node : `${node}, which epmd does not know`],
    ["Erlang nodes connected", grouped(nodes)],
    ["Processes logged in", grouped(processes)],
    ["Sent by Erlang, heard by Erlang", `${counted(events, "event")}, ${grouped(deliveries)}`],
  ];
  if (waiting > 0) rows.push(["Waiting for Erlang nodes", bytes(waiting)]);
  if (dropped > 0) rows.push(["Dropped, their process was gone", grouped(dropped)]);
  return rows;
}
