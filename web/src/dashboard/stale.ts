// How old the figures are. When nothing comes, the page says of what moment it tells, and what it
// shows takes a step back, so that nobody takes the past for the present.

import type { Sample } from "./api";
import { type Row, clock } from "./window";
import { byId, setText } from "../shared/dom";
import { age } from "../shared/format";

/** From so many seconds on figures are old. Answers alone come every other second. */
const OLD_SECONDS = 5;

export class Stale {
  private readonly title = byId("figures-title");
  /** By the clock, which goes on while a machine sleeps. */
  private heardAt: number | null = null;
  private sample: Sample | null = null;
  /** The row under the cursor of the charts. */
  private row: Row | undefined;

  constructor() {
    setInterval(() => this.say(), 1_000);
    document.addEventListener("visibilitychange", () => this.say());
  }

  /** Figures have come. */
  fresh(sample: Sample): void {
    this.heardAt = Date.now();
    this.sample = sample;
    this.say();
  }

  /** The charts show `row`, or the newest one. */
  point(row: Row | undefined): void {
    this.row = row;
    this.say();
  }

  private say(): void {
    const seconds = this.heardAt === null ? 0 : (Date.now() - this.heardAt) / 1000;
    const isOld = seconds >= OLD_SECONDS;
    document.body.toggleAttribute("data-stale", isOld);
    const when = clock(this.sample?.unix_seconds ?? 0);
    if (this.row !== undefined) setText(this.title, `Figures at ${clock(this.row.unix_seconds)}`);
    else if (isOld) setText(this.title, `Figures as of ${age(seconds)} ago, ${when}`);
    else setText(this.title, "Figures");
  }
}
