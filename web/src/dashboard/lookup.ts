// Looking an id up, and walking the graph around it: every name leads on to the same view of that
// id. The id stands in the page's address, so the browser's back and a bookmark work.

import { type List, type Members, connections, ids, members, reason } from "./api";
import { Picture } from "./picture";
import { byId, el, setText } from "../shared/dom";
import { counted } from "../shared/format";

/** Names on a page of a list. */
const PAGE = 24;

/** The start of the address's fragment that names an id. */
const HASH = "#id=";

/** One of the two lists: who follows, or who is followed. */
class Names {
  private after: string | null = null;
  private id = "";
  /** What is shown. */
  shown: string[] = [];

  constructor(
    private readonly list: List,
    private readonly root: HTMLElement,
    private readonly more: HTMLButtonElement,
    private readonly onError: (error: unknown) => void,
  ) {
    more.addEventListener("click", () => {
      this.next().catch(this.onError);
    });
  }

  /** Shows the first page for `id`, unless `stale` says that nobody waits for it any more. */
  async show(id: string, stale: () => boolean): Promise<void> {
    const page = await ids(this.list, id, PAGE, null);
    if (stale()) return;
    this.id = id;
    this.shown = [];
    this.root.replaceChildren();
    this.append(page.ids, page.next);
    if (page.ids.length === 0) this.root.append(el("li", { class: "none" }, "nobody"));
  }

  private async next(): Promise<void> {
    const id = this.id;
    const page = await ids(this.list, id, PAGE, this.after);
    if (id !== this.id) return;
    const at = this.root.children.length;
    this.append(page.ids, page.next);
    // The button may be gone, and the keyboard's place with it.
    if (this.more.hidden) this.root.children[at]?.querySelector("a")?.focus();
  }

  private append(names: string[], next: string | null): void {
    this.after = next;
    this.shown.push(...names);
    this.root.append(...names.map((name) => el("li", {}, link(name))));
    this.more.hidden = next === null;
  }
}

/** A name that leads on. */
function link(name: string): HTMLAnchorElement {
  return el("a", { href: HASH + encodeURIComponent(name) }, name);
}

export class Lookup {
  private readonly input = byId<HTMLInputElement>("lookup-id");
  private readonly name = byId("lookup-name");
  private readonly picture = new Picture(byId("lookup-picture"), (id) => this.go(id));
  private readonly followers: Names;
  private readonly follows: Names;
  /** The number of the last look-up, so that a slow answer does not come over a later one. */
  private last = 0;
  private id: string | null = null;

  constructor(
    onSend: (id: string) => void,
    private readonly isListening: (id: string) => boolean,
  ) {
    const failed = (error: unknown): void => this.fail(error);
    const more = (id: string): HTMLButtonElement => byId<HTMLButtonElement>(id);
    const lists = { followers: byId("followers"), follows: byId("follows") };
    this.followers = new Names("subscribers", lists.followers, more("followers-more"), failed);
    this.follows = new Names("subscriptions", lists.follows, more("follows-more"), failed);
    byId("lookup-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.go(this.input.value.trim());
    });
    byId("lookup-send").addEventListener("click", () => onSend(this.id ?? ""));
    addEventListener("hashchange", () => this.follow(true));
    this.follow(false);
  }

  /** Looks `id` up, and remembers it in the page's address. */
  private go(id: string): void {
    if (id === "") return;
    const hash = HASH + encodeURIComponent(id);
    if (location.hash === hash) void this.show(id, false);
    else location.hash = hash;
  }

  /** Shows what the address says. */
  private follow(walked: boolean): void {
    if (!location.hash.startsWith(HASH)) return;
    let id = "";
    try {
      id = decodeURIComponent(location.hash.slice(HASH.length));
    } catch {
      return;
    }
    void this.show(id, walked);
  }

  private async show(id: string, walked: boolean): Promise<void> {
    this.last += 1;
    const ticket = this.last;
    const stale = (): boolean => ticket !== this.last;
    try {
      const [{ connections: open, at_least: partly = false }, room] = await Promise.all([
        connections(id),
        // A server that keeps none has no such list.
        members(id).catch(() => null),
        this.followers.show(id, stale),
        this.follows.show(id, stale),
      ]);
      if (stale()) return;
      this.id = id;
      this.input.value = id;
      setText(byId("lookup-error"), "");
      byId("lookup-hint").hidden = true;
      setText(this.name, id);
      this.online(id, open, partly);
      this.room(room);
      byId("lookup-result").hidden = false;
      this.picture.show(id, this.followers.shown, this.follows.shown);
      // Who walks with a keyboard or by ear is told where they are now.
      if (walked) this.name.focus({ preventScroll: true });
    } catch (error) {
      if (!stale()) this.fail(error);
    }
  }

  private online(id: string, open: number, partly: boolean): void {
    const element = byId("lookup-online");
    const own = open === 1 ? ": this page" : ", one of them this page";
    const many = counted(open, "connection") + (this.isListening(id) ? own : "");
    const known = open > 0 ? `Online, ${many}` : "Offline, no connection";
    setText(element, partly ? `${known}; a node has not answered` : known);
    element.dataset.online = String(open > 0);
  }

  /** Who is in it. A user is in a room of their own; that is no news. */
  private room(room: Members | null): void {
    const list = (room?.list ?? []).filter(({ id }) => id !== room?.of);
    const isRoom = room !== null && room.count > 0 && (room.list === undefined || list.length > 0);
    byId("members").hidden = !isRoom;
    if (!isRoom) return;
    setText(byId("members-note"), room.list ? "" : `${counted(room.count, "user")}, too many to list.`);
    byId("members-note").hidden = room.list !== undefined;
    const entry = ({ id, info }: { id: string; info?: unknown }): HTMLElement =>
      el("li", info === undefined ? {} : { title: JSON.stringify(info) }, link(id));
    byId("members-list").replaceChildren(...list.map(entry));
    setText(byId("members-title"), room.list ? `Members (${list.length})` : "Members");
  }

  private fail(error: unknown): void {
    setText(byId("lookup-error"), reason(error));
  }
}
