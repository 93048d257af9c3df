/**
 * The program of the host that loses its network: a connection per transport with the defaults of
 * the built library, and one of the small entry. Prints what they tell, a line of JSON each.
 */

import { WebSocket as Outside } from "ws";
import * as whole from "../../dist/encke.js";
import * as small from "../../dist/only-sse.js";

// Node has its own from 22 on.
globalThis.WebSocket ??= Outside;

const [url, ...ids] = process.argv.slice(2);

for (const id of ids) {
  const tell = (what, value) => console.log(JSON.stringify({ id, what, value, at: Date.now() }));
  const connection =
    id === "small"
      ? small.connect(url, { ids: id })
      : whole.connect(url, { ids: id, transports: [id] });
  connection.on("state", (state, why) => tell(state, why?.message));
  connection.on("event", ({ data }) => tell("event", data));
  connection.on("gap", () => tell("gap"));
  connection.on("error", ({ message }) => tell("error", message));
}
