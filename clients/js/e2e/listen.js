/**
 * A connection, and all that it told in the order in which it did: the built library, in a page and
 * in Node alike.
 */

import { connect } from "../dist/encke.js";

/** Connects, with short waits; what has tokens is named, since a test cannot pass a function on. */
export function listen(url, { tokenUrl, ...options }) {
  const token = tokenUrl && (async () => (await fetch(tokenUrl)).text());
  const connection = connect(url, { retryMs: 10, retryMaxMs: 200, token, ...options });
  const told = { events: [], gaps: 0, states: [], waits: [], errors: [], log: [] };
  connection.on("event", (event) => {
    told.events.push(event);
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
