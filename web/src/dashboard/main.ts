// The dashboard of a server: its figures as they come, look-ups, sends, and the machine's limits.

import { type Sample, endSession, readings, reason } from "./api";
import { Beside } from "./beside";
import { Charts } from "./charts";
import { Figures } from "./figures";
import { fold } from "./fold";
import { Live } from "./live";
import { Lookup } from "./lookup";
import { Machine } from "./machine";
import { Nodes } from "./nodes";
import { Reach } from "./reach";
import { Send } from "./send";
import { Stale } from "./stale";
import { Welcome } from "./welcome";
import { Rows } from "./window";
import { byId, setText } from "../shared/dom";

const rows = new Rows();
const figures = new Figures(rows);
const stale = new Stale();
const charts = new Charts(byId("charts"), rows, (row) => stale.point(row));
const send = new Send();
new Lookup((id) => send.prepare(id), (id) => send.isListeningTo(id));
const nodes = new Nodes();
const beside = new Beside();
const reach = new Reach();
const welcome = new Welcome();
const machine = new Machine();
fold();

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
  stale.fresh(sample);
  newest = sample;
  frame ||= requestAnimationFrame(() => {
    frame = 0;
    figures.show(newest);
    beside.show(newest);
    nodes.link(newest.cluster);
    welcome.show(newest);
    machine.expect(newest.connections_open);
    charts.update();
  });
}

const live = new Live({
  state(state, text) {
    const element = byId("state");
    element.dataset.state = state;
    setText(element, text);
    reach.turned(state);
  },
  server(facts, restarted) {
    setText(byId("version"), facts.version);
    send.reach(facts.public_url);
    reach.to(facts.public_url);
    welcome.to(facts);
    logOut.hidden = !facts.session;
    nodes.start();
    if (restarted) {
      rows.restart();
      figures.restart();
      beside.restart();
    }
  },
  told(facts) {
    rows.fill(readings(facts));
    draw(facts.now);
  },
  sample(sample) {
    rows.push(sample);
    draw(sample);
  },
});
void live.start();
