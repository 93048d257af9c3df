// The list of news, newest first. However many come, few of them are drawn: what nobody could read
// is counted instead. Words that somebody typed may take twice the room before they are.

import { el, setText } from "../shared/dom";
import { grouped } from "../shared/format";
import { travel } from "./clock";
import type { News } from "./news";
import { nameOf } from "./people";
import { planet } from "./planet";

/** Rows in the list. */
const ROWS_MAX = 100;

/** Rows a second that can still be looked at, and how many may come at once after a pause. */
const ROWS_PER_SECOND = 5;
const ROWS_AT_ONCE = 12;

/** More rows than this at once are no longer moved in, but just there. */
const CALM_ROWS = 3;

/** Where more comes than can be looked at, what waits is drawn so often. */
const HOLD_MS = 1000;

/** What others do, and what you do. */
const VERBS: Record<News["kind"], [string, string]> = {
  listens: ["is listening to", "are listening to"],
  says: ["says", "say"],
  other: ["sends", "send"],
};

interface Row {
  news: News;
  ms: number | undefined;
}

export class Feed {
  /** Waiting to be drawn, oldest first; as many as the list holds. */
  #waiting: Row[] = [];
  #missed = 0;
  #frame = 0;
  #allowance = ROWS_AT_ONCE;
  #drawnAt = 0;
  #holdUntil = 0;
  #isPaused = false;
  #me = "";

  constructor(
    private readonly list: HTMLOListElement,
    private readonly pause: HTMLButtonElement,
    private readonly spoken: HTMLElement,
  ) {
    pause.addEventListener("click", () => {
      this.#isPaused = !this.#isPaused;
      this.#allowance = ROWS_AT_ONCE;
      this.#showPause();
      this.#schedule();
    });
  }

  /** Empties it for another user. */
  begin(me: string): void {
    this.#me = me;
    this.#waiting = [];
    this.#missed = 0;
    this.list.replaceChildren();
    this.#showPause();
  }

  /** An event took so many milliseconds. */
  add(news: News, ms: number | undefined): void {
    this.#waiting.push({ news, ms });
    if (this.#waiting.length > ROWS_MAX) {
      const plain = this.#waiting.findIndex((row) => row.news.kind === "listens");
      this.#waiting.splice(Math.max(0, plain), 1);
      this.#missed += 1;
    }
    this.#schedule();
  }

  /** A line about the stream itself, in its place among the news. */
  note(text: string): void {
    this.list.prepend(el("li", { class: "note" }, text));
    this.#bound();
  }

  #schedule(): void {
    // Frames are not drawn in a tab that nobody sees, so nothing is done there either.
    if (this.#frame === 0) this.#frame = requestAnimationFrame((now) => this.#draw(now));
  }

  #draw(now: number): void {
    this.#frame = 0;
    if (this.#isPaused) return this.#showPause();
    // Words of people do not wait: who typed them looks for them.
    const isPlain = this.#waiting.every((row) => row.news.kind === "listens");
    if (isPlain && now < this.#holdUntil) return this.#schedule();
    const seconds = Math.min(10, (now - this.#drawnAt) / 1000);
    this.#allowance = Math.min(ROWS_AT_ONCE, this.#allowance + seconds * ROWS_PER_SECOND);
    this.#drawnAt = now;
    const isBusy = this.#waiting.length > CALM_ROWS;
    const rows: HTMLLIElement[] = [];
    // Newest first: what does not fit is the oldest, and nobody waits behind it.
    for (const row of this.#waiting.reverse()) {
      const least = row.news.kind === "says" ? 1 - ROWS_AT_ONCE : 1;
      if (this.#allowance >= least) {
        this.#allowance -= 1;
        rows.push(this.#row(row, isBusy));
      } else {
        this.#missed += 1;
      }
    }
    this.#waiting = [];
    if (this.#missed > 0 && rows.length > 0) {
      rows.push(el("li", { class: "more" }, `and ${grouped(this.#missed)} more`));
      this.#missed = 0;
      this.#holdUntil = now + HOLD_MS;
    }
    this.list.prepend(...rows);
    this.#bound();
  }

  #row({ news, ms }: Row, isBusy: boolean): HTMLLIElement {
    const { about, kind, text } = news;
    const mine = about === this.#me;
    const name = mine ? "You" : nameOf(about);
    const verb = VERBS[kind][mine ? 1 : 0];
    const time = ms === undefined ? "" : travel(ms);
    const classes = ["item", kind, mine ? "mine" : "", isBusy ? "" : "fresh"];
    if (kind === "says") this.#speak(`${name} ${verb}: ${text}`);
    return el(
      "li",
      { class: classes.filter(Boolean).join(" ") },
      planet(about),
      el("p", {}, el("b", { title: about }, name), ` ${verb} `, el("q", {}, text)),
      el("span", { class: "took number" }, time),
    );
  }

  /** Songs come too often to be read out; words of people do not. */
  #speak(text: string): void {
    setText(this.spoken, text);
  }

  #bound(): void {
    while (this.list.childElementCount > ROWS_MAX) this.list.lastElementChild?.remove();
  }

  #showPause(): void {
    this.pause.setAttribute("aria-pressed", String(this.#isPaused));
    const count = this.#waiting.length + this.#missed;
    const waiting = count > 0 ? ` (${grouped(count)})` : "";
    setText(this.pause, this.#isPaused ? `Go on${waiting}` : "Pause");
  }
}
