/**
 * Long poll: one request after the other, each of which continues at the cursor of the last.
 *
 * The first one does not wait: it shows that the way is open and brings the first cursor. Between
 * two polls the server remembers; what it could not, it says. Of rooms it is told the place, too.
 */

import { ask } from "./ask.js";
import type { Link } from "./link.js";

/** How long the server may hold a poll that has nothing to tell: as long as its keep-alives. */
export const WAIT_S = 20;

/** Polls until something fails, or the server ends it. */
export async function poll(link: Link): Promise<void> {
  const { openMs, silenceMs } = link.shared;
  // What is left of the silence is for the answer to come.
  const waitS = Math.min(WAIT_S, Math.ceil(silenceMs / 1400) || WAIT_S);
  for (let wait = 0, rooms: string | null = ""; ; wait = waitS) {
    const url = link.url("poll", "after");
    url.searchParams.set("wait", `${wait}`);
    if (rooms) {
      url.searchParams.set("members_after", rooms);
    }
    link.watch(wait ? silenceMs : openMs);
    const start = performance.now();
    const response = await ask(link, url, "application/json");
    const events = link.parsed(await response.text());
    link.opened();
    const next = response.headers.get("encke-next");
    link.retry = response.headers.get("encke-retry")!;
    rooms = response.headers.get("encke-members");
    if (response.headers.get("encke-gap")) {
      // The events of the same answer stand before that place.
      link.gap(events.length ? "" : next);
      // It is answered at once with that.
      wait = 0;
    }
    for (const event of events) {
      link.event(event);
    }
    link.heard(next);
    if (wait && !events.length && performance.now() - start < 900 * wait) {
      // The server stops, or something in between answers for it: not at full speed, then.
      return;
    }
  }
}
