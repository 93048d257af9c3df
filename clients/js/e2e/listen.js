/**
 * A connection, and all that it told in the order in which it did: the built library, in a page and
 * in Node alike.
 */

import { connect as connectAlone } from "../dist/encke.js";
import { connect as connectShared } from "../dist/shared.js";

/** Connects, with short waits; what has tokens is named, since a test cannot pass a function on. */
export function listen(url, { tokenUrl, shared, ...options }) {
  const connect = shared ? connectShared : connectAlone;
  const token = tokenUrl && (async () => (await fetch(tokenUrl)).text());
  const connection = connect(url, { retryMs: 10, retryMaxMs: 200, token, ...options });
  const told = { events: [], times: [], gaps: 0, states: [], waits: [], errors: [], log: [] };
  connection.on("event", (event) => {
    told.events.push(event);
    told.times.push(Date.now());
    told.log.push(event.data);
  });
  connection.on("gap", () => {
    told.gaps++;
    told.log.push("gap");
  });
  connection.on("state", (state, why) => {
    told.states.push(`${state} ${connection.transport}`);
    if (state === "waiting") {
      told.waits.push(why?.retryAfterMs ?? 0);
    }
  });
  connection.on("error", (error) => told.errors.push(error.message));
  return { connection, told };
}
