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

/** How many heard it, or the status of the refusal below zero. */
export async function send(connection, about, data, options) {
  try {
    return (await connection.send(about, data, options)).delivered;
  } catch (error) {
    if (!error.status) {
      throw error;
    }
    return -error.status;
  }
}

/** Waits until these are in the room, by their ids in order. */
export async function sees(connection, room, ids) {
  const members = connection.members(room);
  const wanted = JSON.stringify(ids);
  const isSo = () => JSON.stringify(members.list.map(({ id }) => id).sort()) === wanted;
  await new Promise((resolve) => {
    const look = () => members.isKnown && isSo() && resolve();
    members.on("change", look);
    look();
  });
  members.stop();
}
