// The dashboard of a server: its figures as they come, look-ups, sends, and the machine's limits.

import { endSession, reason, type Sample } from "./api";
import { Charts } from "./charts";
import { Figures } from "./figures";
import { Live } from "./live";
import { Lookup } from "./lookup";
import { Machine } from "./machine";
import { Nodes } from "./nodes";
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
const nodes = new Nodes();

const logOut = byId<HTMLButtonElement>("log-out");
logOut.addEventListener("click", () => {
  // What the page shows and hears goes with it.
  endSession().then(
    () => location.replace("/session"),
    (error) => setText(byId("state"), reason(error)),
  );
});

let newest: Sample;
let frame = 0;

/** Draws the newest sample with the next frame, of which a page that nobody sees has none. Those of
    a resumed stream come all at once and are drawn once. */
function draw(sample: Sample): void {
  newest = sample;
  frame ||= requestAnimationFrame(() => {
    frame = 0;
    figures.show(newest);
    charts.update();
  });
}

const live = new Live({
  state(state, text) {
    const element = byId("state");
    element.dataset.state = state;
    setText(element, text);
  },
  server(facts, restarted) {
    setText(byId("version"), facts.version);
    send.reach(facts.public_url);
    logOut.hidden = !facts.session;
    nodes.start();
    if (restarted) {
      rows.interrupt();
      figures.restart();
    }
    rows.push(facts.now);
    draw(facts.now);
  },
  sample(sample) {
    rows.push(sample);
    draw(sample);
  },
  gap: () => rows.interrupt(),
});
void live.start();
// After the first paint.
setTimeout(() => void new Machine().check());
