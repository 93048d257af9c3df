// Sending an event and watching it arrive: a stream of the subject is open in this page, as any
// client would open it. What was sent here is shown with the time from the click to its arrival;
// what others send is counted, and the last of it shown.

import { type Connection, connect, type EnckeEvent } from "encke";
import { reason, send } from "./api";
import { clock } from "./window";
import { byId, el, setText } from "../shared/dom";
import { counted } from "../shared/format";

/** Arrivals that are kept on the page. */
const SHOWN_MAX = 8;

/** Events of others that may turn out to be ours when the server's answer is here. */
const HEARD_MAX = 1000;

/** Characters of a payload that are shown. */
const PAYLOAD_MAX = 200;

/** JSON as it is, and anything else as a JSON string. */
function asJson(text: string): string {
  try {
    JSON.parse(text);
    return text;
  } catch {
    return JSON.stringify(text);
  }
}

function shown(data: unknown): string {
  const text = JSON.stringify(data);
  return text.length > PAYLOAD_MAX ? `${text.slice(0, PAYLOAD_MAX)}…` : text;
}

const ms = (value: number): string => `${value.toFixed(value < 10 ? 1 : 0)}\u202fms`;

export class Send {
  private readonly about = byId<HTMLInputElement>("send-about");
  private readonly data = byId<HTMLTextAreaElement>("send-data");
  private readonly status = byId("send-status");
  private readonly list = byId("arrivals");
  private line: Connection | null = null;
  private watched: string | null = null;
  private publicUrl = "";
  /** What came, and when, by event id: an event may be here before the answer that names it. */
  private readonly heard = new Map<string, { at: number; data: unknown }>();
  /** What was sent here and has not come yet: the click, by event id. */
  private readonly awaited = new Map<string, number>();
  private others = 0;

  constructor() {
    byId("send-form").addEventListener("submit", (event) => {
      event.preventDefault();
      void this.submit();
    });
  }

  /** Where streams are; one that stands is opened anew, since the server may be another. */
  reach(publicUrl: string): void {
    this.publicUrl = publicUrl;
    const watched = this.watched;
    this.unwatch();
    if (watched !== null) void this.watch(watched).catch(() => {});
  }

  /** Puts `id` into the form. */
  prepare(id: string): void {
    this.about.value = id;
    this.data.focus();
    this.data.select();
  }

  /** Whether this page has a stream of `id`. */
  isListeningTo(id: string): boolean {
    return this.watched === id;
  }

  private async submit(): Promise<void> {
    const about = this.about.value.trim();
    if (about === "") return;
    try {
      // What cannot be watched can be sent all the same.
      const unheard = await this.watch(about).then(() => null, reason);
      const start = performance.now();
      const { delivered, id, at_least } = await send(about, asJson(this.data.value.trim()));
      const answered = ms(performance.now() - start);
      const connections = counted(delivered, "connection");
      const all = at_least ? `at least ${connections}` : connections;
      const here = delivered === 1 ? ", this page" : ", this page among them";
      const many = unheard === null ? all + here : all;
      const why = unheard === null ? "" : ` This page hears nothing of it: ${unheard}`;
      setText(this.status, `Delivered to ${many}, answered after ${answered}.${why}`);
      const heard = this.heard.get(id);
      if (heard === undefined) {
        keep(this.awaited, id, start, SHOWN_MAX);
      } else {
        this.others -= 1;
        this.show(heard.data, heard.at - start);
      }
    } catch (error) {
      setText(this.status, reason(error));
    }
  }

  /** Resolves when a stream of `about` is open. */
  private watch(about: string): Promise<void> {
    if (this.watched === about && this.line?.state === "open") return Promise.resolve();
    this.unwatch();
    const line = connect(this.publicUrl, { ids: about });
    this.line = line;
    this.watched = about;
    setText(byId("send-watching"), `Listening to ${about}`);
    line.on("event", (event) => this.arrived(event));
    return new Promise((resolve, reject) => {
      line.on("error", reject);
      line.on("state", (state) => {
        if (state === "open") resolve();
        else reject(new Error(`No stream of ${about} at ${this.publicUrl}.`));
        if (state === "closed" && line === this.line) this.unwatch();
      });
    });
  }

  private unwatch(): void {
    const line = this.line;
    this.line = null;
    line?.close();
    this.watched = null;
    this.others = 0;
    this.heard.clear();
    this.awaited.clear();
    setText(byId("send-watching"), "");
    setText(byId("others"), "");
  }

  private arrived({ id, data }: EnckeEvent): void {
    const at = performance.now();
    const start = this.awaited.get(id);
    if (start !== undefined) {
      this.awaited.delete(id);
      this.show(data, at - start);
      return;
    }
    keep(this.heard, id, { at, data }, HEARD_MAX);
    this.others += 1;
    // Ours may be among them: the answer, which is due, says so.
    setTimeout(() => {
      if (this.others === 0) return setText(byId("others"), "");
      setText(byId("others"), `${counted(this.others, "event")} of others, the last ${shown(data)}`);
    }, 250);
  }

  /** One of ours is here. */
  private show(data: unknown, took: number): void {
    const time = el("span", { class: "muted number" }, clock(Date.now() / 1000));
    const text = el("code", {}, shown(data));
    this.list.prepend(el("li", {}, time, text, el("span", { class: "took" }, ms(took))));
    while (this.list.children.length > SHOWN_MAX) this.list.lastElementChild?.remove();
    setText(this.status, `${this.status.textContent} Here after ${ms(took)}.`);
  }
}

/** Adds to `map` and forgets its oldest past `most`. */
function keep<T>(map: Map<string, T>, id: string, value: T, most: number): void {
  map.set(id, value);
  for (const oldest of map.keys()) {
    if (map.size <= most) return;
    map.delete(oldest);
  }
}
