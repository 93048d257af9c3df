// eventsource: the interface of browsers. It reconnects by itself.
import { EventSource } from "eventsource";

import { print, url } from "./print.js";

const source = new EventSource(url);
for (const type of ["message", "gap", "next", "sold"]) {
  source.addEventListener(type, (event) => print(event.lastEventId, event.type, event.data));
}
