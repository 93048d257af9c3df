// How the programs with WebSockets go on: a client of the protocol knows no place and does not
// reconnect, so they do both by hand, as docs/protocol.md describes.
import { PAUSE_MS, print, url } from "./print.js";

let place;

/** Where to connect: behind what was heard. */
export function address() {
  const to = new URL(url.replace(/^http/, "ws"));
  if (place) to.searchParams.set("last_event_id", place);
  return to.href;
}

/** Asks where the stream begins, so that a cut before the first event loses nothing either. */
export const ASK = '{"ping":1}';

export function hear(text) {
  const message = JSON.parse(text);
  const next = message.id ?? message.ok?.next;
  if (next) place = next;
  print(next, message.gap ? "gap" : message.ok ? "next" : null, text);
}

export function again(open) {
  setTimeout(open, PAUSE_MS);
}
