// Whom a user hears and who hears them, and who of those shown is there. The crowd of the demo
// holds one stream of each user: somebody with two sits in front of a page like this one.

import { el, setText } from "../shared/dom";
import { grouped } from "../shared/format";
import { type Api, COUNT_MAX, type Ids } from "./api";
import { hash, nameOf } from "./people";
import { planet } from "./planet";

/** Friends that a list shows: each costs a look-up, and nobody reads hundreds. */
const SHOWN_MAX = 12;

/** How often it is asked who is there. */
const LOOK_MS = 10_000;

export interface Places {
  followers: HTMLUListElement;
  followersCount: HTMLElement;
  following: HTMLUListElement;
  followingCount: HTMLElement;
  error: HTMLElement;
  /** Told the number of followers. */
  known(followers: string): void;
}

export class Friends {
  #leaving = new AbortController();
  #timer = 0;

  constructor(
    private readonly api: Api,
    private readonly places: Places,
  ) {
    document.addEventListener("visibilitychange", () => {
      if (document.visibilityState === "visible") void this.#look();
    });
  }

  /** Shows the friends of `me`. */
  async show(me: string): Promise<void> {
    const { places } = this;
    this.#leaving.abort();
    const { signal } = (this.#leaving = new AbortController());
    places.followers.replaceChildren();
    places.following.replaceChildren();
    setText(places.error, "");
    try {
      const [followers, following] = await Promise.all([
        this.api.followers(me, signal),
        this.api.following(me, signal),
      ]);
      fill(places.followers, followers, me, "Nobody yet: be the first, in another tab.");
      fill(places.following, following, me, "Nobody: this one only speaks.");
      setText(places.followersCount, counted(followers));
      setText(places.followingCount, counted(following));
      places.known(counted(followers));
      await this.#look();
    } catch (error) {
      if (signal.aborted) return;
      setText(places.error, "The API cannot be asked just now; friends come back when it does.");
      this.#timer = window.setTimeout(() => void this.show(me), 3000);
      signal.addEventListener("abort", () => clearTimeout(this.#timer));
    }
  }

  /** Asks who is there, now and again. */
  async #look(): Promise<void> {
    clearTimeout(this.#timer);
    const { signal } = this.#leaving;
    if (signal.aborted || document.visibilityState === "hidden") return;
    const lists = [this.places.followers, this.places.following];
    const rows = lists.flatMap((list) => [...list.querySelectorAll<HTMLLIElement>("[data-id]")]);
    const asked = rows.map(async (row) => {
      const streams = await this.api.streams(row.dataset.id ?? "", signal);
      mark(row, streams);
    });
    // One that is not answered keeps what it showed; the stream's own state tells of trouble.
    await Promise.allSettled(asked);
    if (!signal.aborted) this.#timer = window.setTimeout(() => void this.#look(), LOOK_MS);
  }
}

function counted({ ids, next }: Ids): string {
  return next === null ? grouped(ids.length) : `${grouped(COUNT_MAX)}+`;
}

/** Some of them, always the same ones for the same user. */
function fill(list: HTMLUListElement, { ids }: Ids, me: string, none: string): void {
  const others = ids.filter((id) => id !== me);
  const mixed = others.map((id) => ({ id, place: hash(`${me} ${id}`) }));
  mixed.sort((a, b) => a.place - b.place);
  list.replaceChildren(...mixed.slice(0, SHOWN_MAX).map(({ id }) => friend(id)));
  if (others.length === 0) list.append(el("li", { class: "note" }, none));
}

function friend(id: string): HTMLLIElement {
  const name = nameOf(id);
  const link = el(
    "a",
    { href: `#${encodeURIComponent(id)}`, target: "_blank", rel: "noopener" },
    planet(id),
    el("span", { class: "name" }, name),
    el("span", { class: "muted id" }, id),
    el("span", { class: "there" }),
    el("span", { class: "spoken" }, "opens in a new tab"),
  );
  return el("li", { "data-id": id }, link);
}

function mark(row: HTMLLIElement, streams: number): void {
  const there = row.querySelector(".there");
  if (there === null) return;
  const kind = streams === 0 ? "gone" : streams === 1 ? "online" : "tab";
  const words = { gone: "away", online: "online", tab: "in a tab" };
  there.className = `there ${kind}`;
  setText(there, words[kind]);
}
