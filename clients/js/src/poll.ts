/**
 * Long poll: one request after the other, each of which continues at the cursor of the last.
 *
 * The first one does not wait: it shows that the way is open and brings the first cursor. Between
 * two polls the server remembers; what it could not, it says.
 */

import { ask } from "./ask.js";
import type { Link } from "./link.js";

/** How long the server may hold a poll that has nothing to tell; its own default. */
const WAIT_S = 25;

/** An empty answer that comes sooner was not waited for. */
const WAITED_MS = 900 * WAIT_S;

/** Polls until something fails, or the server ends it. */
export async function poll(link: Link): Promise<void> {
  for (let wait = 0; ; wait = WAIT_S) {
    const url = link.url("poll", "after");
    url.searchParams.set("wait", `${wait}`);
    link.watch(wait * 1000 + link.shared.openMs);
    const start = performance.now();
    const response = await ask(link, url, "application/json");
    const events = link.read(await response.text());
    link.opened();
    if (response.headers.get("encke-gap")) {
      link.gap();
      // It is answered at once with that.
      wait = 0;
    }
    for (const event of events) {
      link.event(event);
    }
    link.heard(response.headers.get("encke-next") ?? "");
    if (wait && !events.length && performance.now() - start < WAITED_MS) {
      // The server stops, or something in between answers for it: not at full speed, then.
      return;
    }
  }
}
