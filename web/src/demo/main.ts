// The demo page: one is a user of the demo, hears what their friends do, and can say something.
//
// The user stands in the address behind the #, so that two tabs can be two of them. Everything
// that comes from the server becomes text, never markup.

import { byId, setText } from "../shared/dom";
import { short } from "../shared/format";
import { Api, type Facts, Refused } from "./api";
import { compareClocks, nowMs, Rate, travel, Travels } from "./clock";
import { Comet } from "./comet";
import { Feed } from "./feed";
import { Friends } from "./friends";
import { type Event, read } from "./news";
import { nameOf } from "./people";
import { anybody, expectedRate } from "./pick";
import { planet } from "./planet";
import { sparkline } from "./spark";
import { listen, type State, type TransportName } from "./stream";

const facts = JSON.parse(byId("facts").textContent) as Facts;
const api = new Api(facts.api_port);
const rate = new Rate();
const comet = new Comet(byId<HTMLCanvasElement>("comet"), () => rate.now);
const feed = new Feed(
  byId<HTMLOListElement>("feed"),
  byId<HTMLButtonElement>("pause"),
  byId("spoken"),
);
const friends = new Friends(api, {
  followers: byId<HTMLUListElement>("followers"),
  followersCount: byId("followers-count"),
  following: byId<HTMLUListElement>("following"),
  followingCount: byId("following-count"),
  error: byId("friends-error"),
  known: (followers) => setText(byId("hearers"), hearers(followers)),
});

/** How often figures are written: faster than that nobody reads. */
const FIGURES_MS = 250;

/** So long without news is worth a word. */
const QUIET_AFTER_MS = 6000;

let me = "";
let leave = (): void => {};
let travels = new Travels(200);
/** When the last words of this tab were sent, until they are back. */
let sentAt: number | undefined;
let cutAt: number | undefined;
let lastEventAt = performance.now();
let wasFresh = false;

/** Becomes another user. */
function become(id: string): void {
  me = id;
  leave();
  travels = new Travels(200);
  cutAt = undefined;
  lastEventAt = performance.now();
  const name = nameOf(id);
  document.title = name === id ? `${name} · Encke` : `${name} (${id}) · Encke`;
  setText(byId("me-name"), name);
  setText(byId("me-id"), `user ${id}`);
  greet();
  byId<HTMLInputElement>("someone").value = id;
  setText(byId("someone-error"), "");
  setText(byId("said"), "");
  feed.begin(id);
  leave = listen(id, facts.token, { event: hear, state: showState, gap, refused });
  void friends.show(id);
}

/** The planet of this tab's user, which hops when it is put there. */
function greet(): void {
  byId("me-planet").replaceChildren(planet(me));
}

function hear(event: Event): void {
  const arrivedMs = nowMs();
  const news = read(event);
  const ms = news.sentMs === undefined ? undefined : travels.add(arrivedMs - news.sentMs);
  rate.add();
  lastEventAt = performance.now();
  wasFresh = true;
  const isMine = event.about === me;
  comet.event(isMine && news.kind === "says");
  feed.add(news, ms);
  if (isMine && news.kind === "says") greet();
  if (isMine && news.kind === "says" && news.sentMs === sentAt && ms !== undefined) {
    sentAt = undefined;
    setText(byId("said"), `${byId("said").textContent} Back here after ${travel(ms)}.`.trim());
  }
}

function showState(state: State, transport: TransportName): void {
  if (state === "waiting") cutAt ??= performance.now();
  const via = { websocket: "WebSocket", sse: "server-sent events", poll: "long poll" }[transport];
  const trying = cutAt === undefined ? "connecting" : "the line is cut, trying again";
  const words = { connecting: trying, open: `live over ${via}`, waiting: trying, closed: "ended" };
  byId("state").className = `state ${state}`;
  setText(byId("state-words"), words[state]);
  if (state === "open" && cutAt !== undefined) {
    const seconds = (performance.now() - cutAt) / 1000;
    feed.note(`The line was cut for ${seconds.toFixed(1)} s, and is back.`);
    cutAt = undefined;
    void friends.show(me);
  }
}

function refused(why: string): void {
  setText(byId("someone-error"), why);
}

function gap(): void {
  feed.note("Some news was missed: it is older than what the server remembers.");
}

async function say(words: HTMLInputElement): Promise<void> {
  const text = words.value.trim();
  if (text === "") return;
  const said = byId("said");
  const sent_ms = (sentAt = nowMs());
  setText(said, "");
  try {
    const { delivered } = await api.send(me, { says: text, sent_ms });
    words.value = "";
    const streams = delivered === 1 ? "1 stream" : `${delivered} streams`;
    setText(said, `Heard on ${streams}. ${said.textContent}`.trim());
  } catch (error) {
    const why = error instanceof Refused ? error.message : "The API cannot be reached just now.";
    setText(said, `Not sent. ${why}`);
  }
}

function hearers(followers: string): string {
  if (followers === "0") return "Nobody but you";
  return followers === "1" ? "You and the one who follows you" : `You and ${followers} others`;
}

function showFigures(): void {
  if (document.visibilityState === "hidden") return;
  const { now } = rate;
  setText(byId("rate"), now < 10 ? now.toFixed(1) : short(Math.round(now)));
  showQuiet();
  if (!wasFresh) return;
  wasFresh = false;
  const { last, median } = travels;
  if (last === undefined || median === undefined) return;
  setText(byId("last"), travel(last));
  setText(byId("median"), travel(median));
  byId("spark").querySelector("path")?.setAttribute("d", sparkline(travels.all));
  setText(byId("wit-time"), travel(median));
  if (travels.areRelative) {
    const note = "The clocks here and at the server differ: counted from the fastest.";
    setText(byId("speed-note"), note);
  }
}

/** Says so when it is the demo that is quiet and nothing that is broken. */
function showQuiet(): void {
  const quiet = byId("quiet");
  const isQuiet = cutAt === undefined && performance.now() - lastEventAt > QUIET_AFTER_MS;
  quiet.hidden = !isQuiet;
  if (!isQuiet) return;
  setText(quiet, `Quiet just now: with 15 friends one hears something ${often()} here. “Anybody” `
    + "finds somebody with more.");
}

/** How often somebody with 15 friends hears something. */
function often(): string {
  const minutes = 1 / expectedRate(facts, 15) / 60;
  if (minutes < 0.7) return "a few times a minute";
  return minutes < 1.5 ? "about once a minute" : `every ${minutes.toFixed(0)} minutes`;
}

/** The user that the address names; else somebody, whom the address names from then on. */
async function follow(): Promise<void> {
  const named = decode(location.hash.slice(1));
  if (named !== "") {
    if (named !== me) become(named);
    return;
  }
  const id = await anybody(facts, api);
  history.replaceState(null, "", `#${id}`);
  become(id);
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return "";
  }
}

/** Why nobody can have this id, or nothing. */
function wrong(id: string): string {
  if (id === "") return "Give a number, or a name of your own.";
  if (/[\s/?#\p{Cc}]/u.test(id)) return "A name has no spaces and none of / ? #.";
  return new TextEncoder().encode(id).length > 255 ? "That name is too long." : "";
}

byId("users").textContent = facts.users.toLocaleString("en");
byId("switch").addEventListener("submit", (event) => {
  event.preventDefault();
  const id = byId<HTMLInputElement>("someone").value.trim();
  const why = wrong(id);
  setText(byId("someone-error"), why);
  if (why === "") location.hash = encodeURIComponent(id);
});
byId("random").addEventListener("click", async () => {
  location.hash = await anybody(facts, api);
});
byId("say").addEventListener("submit", (event) => {
  event.preventDefault();
  void say(byId<HTMLInputElement>("words"));
});
byId("skip").addEventListener("click", (event) => {
  // The place behind the # is the user's.
  event.preventDefault();
  byId("news").focus();
});
addEventListener("hashchange", () => void follow());
setInterval(showFigures, FIGURES_MS);
compareClocks();
void follow();
