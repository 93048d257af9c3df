// The dashboard of a server: its figures as they come, look-ups, sends, and the machine's limits.

import { Charts } from "./charts";
import { Figures } from "./figures";
import { Live } from "./live";
import { Lookup } from "./lookup";
import { Machine } from "./machine";
import { Send } from "./send";
import { Rows, clock } from "./window";
import { byId, setText } from "../shared/dom";

const rows = new Rows();
const figures = new Figures(rows);
const title = byId("figures-title");
const charts = new Charts(byId("charts"), rows, (row) => {
  setText(title, row === undefined ? "Figures" : `Figures at ${clock(row.unix_seconds)}`);
});
const send = new Send();
new Lookup((id) => send.prepare(id));

const live = new Live({
  state(state, text) {
    const element = byId("state");
    element.dataset.state = state;
    setText(element, text);
    if (state !== "live") rows.interrupt();
  },
  server(facts, restarted) {
    setText(byId("version"), facts.version);
    send.reach(facts.public_url);
    if (restarted) figures.restart();
    rows.push(facts.now);
    figures.show(facts.now);
    charts.update();
  },
  sample(sample) {
    rows.push(sample);
    if (!document.hidden) {
      figures.show(sample);
      charts.update();
    }
  },
});
void live.start();
// After the first paint.
setTimeout(() => void new Machine().check());
