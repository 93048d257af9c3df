// eventsource-client, and eventsource-parser in it. It reconnects by itself.
import { createEventSource } from "eventsource-client";

import { print, url } from "./print.js";

createEventSource({
  url,
  onMessage: ({ id, event, data }) => print(id, event, data),
});
