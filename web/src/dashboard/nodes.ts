// The nodes of a cluster, as each says of itself: asked of the API every other second while somebody
// looks. A server that is alone has none; its page does not show the part, and does not ask again.

import { type Cluster, type ClusterLink, type ClusterNode, cluster } from "./api";
import { byId, setText } from "../shared/dom";
import { counted, grouped } from "../shared/format";
import { type Cell, Table } from "./tables";

const EVERY_MS = 2_000;

/** Records behind which a node is marked: a second or so of a busy log. */
const LAG_MARKED = 1_000;

const unknown = "–";

/** What was counted when. */
interface Count {
  at: number;
  events: number;
}

export class Nodes {
  private readonly section = byId("nodes");
  private readonly note = byId("nodes-note");
  private readonly table = new Table(byId<HTMLTableElement>("nodes-table"), [
    "Node",
    "State",
    "Streams",
    "Ids online",
    "Events/s",
    "At least",
    "Lag",
    "Log",
    "Epoch",
    "Address",
  ]);
  private before = new Map<string, Count>();
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor() {
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden && !this.section.hidden) this.start();
    });
  }

  /** Asks now, and from then on as long as there are nodes. */
  start(): void {
    clearTimeout(this.timer);
    void this.ask();
  }

  /** How this node stands to the log; nothing is said of what is as it should be. */
  link(link: ClusterLink | null): void {
    if (link === null) return;
    const { membership, lag_records, queued, gaps, nats_connected, nats_server } = link;
    const nats = nats_connected ? `NATS at ${nats_server}` : "NATS is out of reach";
    const words = [membership === "member" ? nats : `this node is ${membership}; ${nats}`];
    if (lag_records > 0) words.push(`${counted(lag_records, "record")} behind the log`);
    if (queued > 0) words.push(`${counted(queued, "send")} waiting for the log`);
    if (gaps > 0) words.push(`all streams were told of a gap ${grouped(gaps)} times`);
    const element = byId("nodes-log");
    setText(element, `${words.join(", ")}.`);
    element.classList.toggle("bad", !nats_connected);
  }

  private async ask(): Promise<void> {
    try {
      const told = await cluster();
      this.show(told);
      if (told.cluster === null) return;
    } catch {
      // The page says above that the server does not answer; what was shown is of before.
      if (!this.section.hidden) setText(this.note, "The nodes were not told. Trying again.");
    }
    clearTimeout(this.timer);
    if (!document.hidden) this.timer = setTimeout(() => void this.ask(), EVERY_MS);
  }

  private show({ cluster: name, node: asked, members, nodes, at_least: partly }: Cluster): void {
    const alone = name === null;
    this.section.hidden = alone;
    byId("nodes-link").hidden = alone;
    if (alone) return;
    const most = Math.max(1, ...nodes.map((node) => node.streams));
    const counts = new Map<string, Count>();
    const rows = nodes.map((node): Cell[] => {
      const count = { at: performance.now(), events: node.events ?? 0 };
      counts.set(node.node, count);
      return [
        node.node === asked ? `${node.node} (this one)` : node.node,
        stateOf(node),
        { text: grouped(node.streams), share: node.streams / most },
        grouped(node.ids_online),
        rate(count, this.before.get(node.node)),
        grouped(node.at_least),
        lag(node),
        grouped(node.applied),
        String(node.epoch),
        node.address,
      ];
    });
    this.before = counts;
    this.table.show(rows, nodes.map(mark));
    const streams = nodes.reduce((sum, node) => sum + node.streams, 0);
    const all = partly
      ? `${nodes.length} of ${members} nodes have answered`
      : `${grouped(nodes.length)} ${nodes.length === 1 ? "node" : "nodes"}`;
    const sum = `${all}, ${grouped(streams)} streams in all.`;
    setText(this.note, `Cluster ${name}: ${sum} Figures, workers and endings are those of ${asked}.`);
  }
}

function stateOf({ ending, member }: ClusterNode): string {
  if (ending) return "ending";
  return member ? "member" : "away";
}

const isBehind = ({ lag_records: lag = 0 }: ClusterNode): boolean => lag > LAG_MARKED;

function lag({ lag_records: records = 0 }: ClusterNode): string {
  return records === 0 ? "none" : `${grouped(records)} ${records === 1 ? "record" : "records"}`;
}

/** The class of a row that asks to be looked at. */
function mark(node: ClusterNode): string {
  const state = stateOf(node);
  if (state !== "member") return state;
  return isBehind(node) ? "behind" : "";
}

/** Events a second since the answer before; a node that began anew counts from 0. */
function rate(now: Count, before: Count | undefined): string {
  if (before === undefined || now.events < before.events) return unknown;
  return grouped(Math.round(((now.events - before.events) * 1000) / (now.at - before.at)));
}
