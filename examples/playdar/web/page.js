// The page of the daemon: a question, the answers as they come, who is asked, and which pages may.

import { Arrivals, call } from "./arrivals.js";
import { Comet } from "./comet.js";
import { byId, count, el, setText, took, words } from "./dom.js";
import { Results } from "./results.js";

/** As many examples as fit a glance. */
const EXAMPLES_MAX = 5;

const results = new Results();
const comet = new Comet(byId("comet"), () => results.size);
let arrivals = null;

/** What `stat` told; the query waits for it, since it says where the streams are. */
const daemon = call("stat").then(showDaemon, showNoDaemon);

function showDaemon(stat) {
  const resolvers = Array.isArray(stat.resolvers) ? stat.resolvers : [];
  const where = stat.hostname ? ` on ${words(stat.hostname, 80)}` : "";
  const sources = count(resolvers.length, "source", "sources");
  setText(byId("daemon"), `Playdar ${words(stat.version, 20)}${where} asks ${sources}, in this order.`);
  byId("sources").replaceChildren(...resolvers.map((resolver) => el("li", {},
    el("b", {}, words(resolver.name, 80)),
    el("span", { class: "muted" },
      `within ${Number(resolver.targettime)} ms${resolver.localonly ? ", for you alone" : ""}`),
    el("span", { class: "weight" }, `weight ${Number(resolver.weight)}`))));
  showExamples(Array.isArray(stat.examples) ? stat.examples : []);
  return stat;
}

/** Songs that are there to be found, for who has none in mind. */
function showExamples(examples) {
  const songs = examples.slice(0, EXAMPLES_MAX).map(({ artist, track }) => {
    const query = new URLSearchParams({ artist: words(artist), track: words(track) });
    return el("li", {}, el("a", { href: `#${query}` }, words(track)), ` by ${words(artist)}`);
  });
  byId("examples").replaceChildren(...songs);
  byId("try").hidden = songs.length === 0 || arrivals !== null;
}

function showNoDaemon(error) {
  setText(byId("daemon"), error.message);
  return {};
}

function showState(name, text) {
  byId("state").className = `state ${name}`;
  setText(byId("state-words"), text);
}

/** What stands in place of answers, or below them. */
function showQuiet(text) {
  byId("quiet").hidden = text === "";
  setText(byId("quiet"), text);
}

async function ask(artist, track) {
  arrivals?.close();
  arrivals = null;
  results.clear();
  setText(byId("spoken"), "");
  showQuiet("");
  byId("try").hidden = true;
  // On a telephone the sky and its keyboard would hide what comes.
  if (matchMedia("(max-width: 52rem)").matches) byId("answers").scrollIntoView();
  showState("waiting", "connecting");
  history.replaceState(null, "", `#${new URLSearchParams({ artist, track })}`);
  const { streams } = await daemon;
  arrivals?.close();
  results.clear();
  arrivals = new Arrivals({ artist, track }, streams, {
    state: showState,
    result(result) {
      if (!results.add(result)) return;
      comet.event();
      setText(byId("wit"), "the first one was here");
      setText(byId("wit-time"), `after ${took(results.firstMs)}`);
    },
    done() {
      if (results.size > 0) return;
      const none = `Nobody has “${track}” by ${artist}. Who finds it later still tells.`;
      showQuiet(none);
      setText(byId("spoken"), none);
    },
    failed(why) {
      showState("", "not asked");
      showQuiet(why);
    },
  });
}

function setUpSearch() {
  const [form, artist, track] = [byId("search"), byId("artist"), byId("track")];
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const empty = [artist, track].filter((field) => field.value.trim() === "");
    for (const field of [artist, track]) {
      field.toggleAttribute("aria-invalid", empty.includes(field));
    }
    setText(byId("search-error"), empty.length > 0 ? "It takes an artist and a track." : "");
    if (empty.length > 0) empty[0].focus();
    else void ask(artist.value.trim(), track.value.trim());
  });
  const follow = () => {
    const asked = new URLSearchParams(location.hash.slice(1));
    if (!asked.get("artist") || !asked.get("track")) return;
    [artist.value, track.value] = [asked.get("artist"), asked.get("track")];
    form.requestSubmit();
  };
  addEventListener("hashchange", follow);
  follow();
}

/** The list of pages that hold a token, as the daemon has it now. */
async function showTokens() {
  const answer = await fetch("/authcodes?json").catch(() => null);
  if (!answer?.ok) {
    setText(byId("tokens-said"), "The daemon does not tell which pages hold a token.");
    return;
  }
  const { authcodes } = await answer.json();
  byId("tokens-none").hidden = authcodes.length > 0;
  byId("tokens").replaceChildren(...authcodes.map(tokenRow));
}

function tokenRow({ id, website, name, granted }) {
  const page = words(name, 80) || "A page";
  const revoke = el("button", { type: "button", "aria-label": `Revoke ${page}` }, "Revoke");
  revoke.addEventListener("click", () => void takeBack(id, page, revoke));
  const since = new Date(granted * 1000);
  const day = Number.isNaN(since.getTime()) ? "" : `, since ${since.toLocaleDateString()}`;
  const where = `${words(website, 120)}${day}`;
  return el("li", {}, el("p", {}, el("b", {}, page), el("span", { class: "muted" }, where)), revoke);
}

async function takeBack(id, page, button) {
  button.disabled = true;
  const body = new URLSearchParams({ revoke: id });
  const answer = await fetch("/authcodes", { method: "POST", body }).catch(() => null);
  const isBack = answer?.ok === true;
  setText(byId("tokens-said"), isBack ? `${page} may ask no more.` : `${page} was not revoked.`);
  button.disabled = false;
  await showTokens();
  // The row that had the focus is gone.
  if (isBack) (document.querySelector("#tokens button") ?? byId("answers")).focus();
}

setUpSearch();
void showTokens();
// A page that was let in meanwhile, in another tab, is in the list when one comes back.
addEventListener("focus", () => void showTokens());
