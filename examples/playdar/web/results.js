// The answers to one query, the best on top, and the one player that plays them.

import { byId, clock, count, el, setText, took, words } from "./dom.js";

/** As many as a daemon keeps of one query. */
const ROWS_MAX = 200;

/** Arrivals within this time are told together to those who hear the page. */
const TOLD_TOGETHER_MS = 400;

/** Plays one answer at a time, and tells the rows which. */
class Player {
  #audio = byId("audio");
  #sid = "";

  constructor() {
    for (const what of ["play", "playing", "pause", "ended", "emptied"]) {
      this.#audio.addEventListener(what, () => this.#mark());
    }
    this.#audio.addEventListener("error", () => {
      if (this.#sid === "") return;
      const kind = this.#audio.error?.code === MediaError.MEDIA_ERR_NETWORK
        ? "Whoever has it stopped sending."
        : "This browser cannot play it, or whoever had it is gone: try another answer.";
      setText(byId("player-error"), kind);
      this.#mark();
    });
  }

  /** Plays what the button is for, or pauses it. */
  toggle(button, { track, artist, source }) {
    const { sid } = button.dataset;
    if (sid === this.#sid && !this.#audio.paused) {
      this.#audio.pause();
      return;
    }
    if (sid !== this.#sid || this.#audio.error) {
      this.#sid = sid;
      this.#audio.src = `/sid/${encodeURIComponent(sid)}`;
      setText(byId("player-error"), "");
      setText(byId("player-title"), track);
      setText(byId("player-what"), `${artist}, from ${source}`);
      byId("player").classList.add("busy");
    }
    // What goes wrong is told by the element's own event, with a reason.
    this.#audio.play().catch(() => {});
  }

  /** Shows on the rows which one plays; also for a row that has just come. */
  #mark() {
    const plays = !this.#audio.paused && !this.#audio.ended && !this.#audio.error;
    for (const button of document.querySelectorAll("#results .play")) {
      const isIt = button.dataset.sid === this.#sid;
      button.setAttribute("aria-pressed", String(isIt && plays));
      button.closest("li").classList.toggle("chosen", isIt);
    }
  }
}

export class Results {
  #list = byId("results");
  #player = new Player();
  #known = new Map();
  #begin = 0;
  #first = 0;
  #untold = 0;

  /** How many there are. */
  get size() {
    return this.#known.size;
  }

  /** Milliseconds from the question to the first answer. */
  get firstMs() {
    return this.#first;
  }

  /** A new question: the rows of the one before go, what plays goes on. */
  clear() {
    this.#list.replaceChildren();
    this.#known.clear();
    this.#begin = performance.now();
    this.#first = 0;
  }

  /** Adds an answer at its place; whether it is a new one. */
  add(result) {
    if (this.#known.has(result.sid) || this.#known.size >= ROWS_MAX) return false;
    const ms = performance.now() - this.#begin;
    if (this.#known.size === 0) this.#first = ms;
    const score = Math.max(0, Math.min(1, Number(result.score) || 0));
    const row = this.#row(result, score, ms);
    this.#known.set(result.sid, { score, row });
    const below = [...this.#list.children].find((each) => Number(each.dataset.score) < score);
    this.#list.insertBefore(row, below ?? null);
    this.#tell(row);
    return true;
  }

  #row(result, score, ms) {
    const track = words(result.track) || "Untitled";
    const artist = words(result.artist) || "Unknown";
    const source = words(result.source, 80) || "an unnamed source";
    const album = words(result.album);
    const label = `Play ${track} by ${artist} from ${source}`;
    const button = el("button", { class: "play", type: "button", "aria-pressed": "false" });
    button.dataset.sid = result.sid;
    button.setAttribute("aria-label", label);
    button.addEventListener("click", () => this.#player.toggle(button, { track, artist, source }));
    const percent = Math.floor(score * 100);
    const comet = el("span", { class: "match" }, el("span", { class: "trail" }), `${percent} %`);
    comet.append(el("span", { class: "spoken" }, " alike"));
    comet.style.setProperty("--score", String(score));
    const kind = words(result.mimetype, 40).replace(/^(audio|application)\/(x-)?/, "");
    const facts = [kind, rate(result.bitrate)].filter(Boolean).join(", ");
    const row = el("li", { class: "fresh" },
      button,
      el("p", { class: "song" },
        el("b", {}, track), " ", el("span", { class: "by" }, artist),
        el("span", { class: "album" }, album)),
      comet,
      el("span", { class: "length" }, clock(Number(result.duration))),
      el("p", { class: "from" }, el("span", { class: "source" }, source),
        el("span", { class: "facts" }, facts)),
      el("span", { class: "took" }, took(ms)));
    row.dataset.score = String(score);
    return row;
  }

  /** Says how many there are and which is the best, once for those that come together. */
  #tell() {
    if (this.#untold > 0) return;
    this.#untold = setTimeout(() => {
      this.#untold = 0;
      const best = this.#list.querySelector(".play");
      const label = best?.getAttribute("aria-label").replace(/^Play /, "");
      if (label) setText(byId("spoken"), `${count(this.size, "answer", "answers")}, best: ${label}`);
    }, TOLD_TOGETHER_MS);
  }
}

function rate(kbits) {
  return Number.isFinite(kbits) && kbits > 0 ? `${Math.round(kbits)} kbit/s` : "";
}
