// The limits of the machine, as `encke tune` tells them: a table, then what there is to do.

import { type Check, type Tune, reason, tune } from "./api";
import { byId, el, setText } from "../shared/dom";
import { bytes, grouped } from "../shared/format";
import { Table } from "./tables";

const VERDICTS: Record<Check["verdict"], string> = {
  enough: "enough",
  not_shown: "not shown",
  low: "low",
  too_low: "too low",
};

const MARKS: Record<Check["verdict"], string> = {
  enough: "",
  not_shown: "",
  low: "warn",
  too_low: "bad",
};

/** What stands for no limit: exact numbers end below that anyway. */
const NO_LIMIT = 2 ** 62;

/** Users that the first question is about, at least. */
const USERS_LEAST = 10_000;

function amount(number: number | undefined, unit: Check["unit"]): string {
  if (number === undefined) return "?";
  if (unit === "bytes") return bytes(number);
  return number >= NO_LIMIT ? "no limit" : grouped(number);
}

/** Which of several numbers to show: one that is low, else one that is asked for; of three, the
    second is the one that people know such settings by. */
function place({ here, asked }: Check): number {
  const places = [1, 2, 0];
  const short = places.find((at) => (here[at] ?? 0) < (asked[at] ?? 0));
  return short ?? places.find((at) => (asked[at] ?? 0) > 0) ?? 0;
}

export class Machine {
  private readonly users = byId<HTMLInputElement>("tune-users");
  private readonly clients = byId<HTMLInputElement>("tune-clients");
  private readonly sum = byId("tune-sum");
  private readonly notes = byId("tune-notes");
  private readonly table = new Table(byId<HTMLTableElement>("tune-table"), [
    "Setting",
    "Here",
    "Asked for",
    "Verdict",
  ]);

  private checked = false;

  constructor() {
    const part = byId<HTMLDetailsElement>("machine-part");
    part.addEventListener("toggle", () => {
      if (part.open && !this.checked) void this.check();
    });
    byId("tune-form").addEventListener("submit", (event) => {
      event.preventDefault();
      void this.check();
    });
    this.clients.addEventListener("change", () => void this.check());
  }

  /** So many are online now: until somebody asks, the question is about ten times as many. */
  expect(connections: number): void {
    if (this.checked || document.activeElement === this.users) return;
    const users = Math.max(USERS_LEAST, 10 ** Math.ceil(Math.log10(10 * Math.max(1, connections))));
    this.users.value = String(users);
  }

  private async check(): Promise<void> {
    this.checked = true;
    try {
      this.show(await tune(this.users.valueAsNumber, this.clients.checked));
    } catch (error) {
      setText(this.sum, reason(error));
    }
  }

  private show(report: Tune): void {
    const rows = report.checks.map((check) => {
      const at = place(check);
      const name = check.asked.length > 1 ? `${check.name} (${at + 1})` : check.name;
      const { here, asked, unit, verdict } = check;
      return [name, amount(here[at], unit), amount(asked[at], unit), VERDICTS[verdict]];
    });
    this.table.show(rows, report.checks.map((check) => MARKS[check.verdict]));
    setText(this.sum, sum(report));
    const order: Check["verdict"][] = ["too_low", "low", "not_shown"];
    const noted = order.flatMap((verdict) =>
      report.checks.filter((check) => check.verdict === verdict),
    );
    this.notes.replaceChildren(...noted.map(note));
  }
}

function sum(report: Tune): string {
  const both = report.ends === "both";
  const whose = both ? " with their clients" : "";
  const users = `${grouped(report.users)} users${whose}`;
  const most = grouped(both ? report.users_max_with_clients : report.users_max);
  const low = report.checks.some((check) => check.verdict === "low");
  if (!report.fits) return `${users} do not fit here; at most ${most} do.`;
  return low ? `${users} fit, with the drawbacks of what is low.` : `${users} fit.`;
}

function note(check: Check): HTMLElement {
  const title = el("h3", {}, check.name, " ", verdict(check.verdict));
  const parts: Node[] = [el("p", {}, check.why)];
  if (check.command !== null) parts.push(el("pre", { tabindex: 0 }, check.command));
  if (check.hindrance !== null) parts.push(el("p", { class: "muted" }, `But ${check.hindrance}.`));
  if (check.follows !== null) parts.push(el("p", { class: "muted" }, `So ${check.follows}.`));
  return el("div", { class: "note" }, title, ...parts);
}

function verdict(of: Check["verdict"]): HTMLElement {
  return el("span", { class: `tag ${MARKS[of]}` }, VERDICTS[of]);
}
