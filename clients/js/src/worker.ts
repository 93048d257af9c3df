/**
 * The `SharedWorker` that keeps the connection of all tabs: a hub for each name that a tab tells.
 */

import { type HubOptions, lead } from "./hub.js";

const names = new Set<string>();

addEventListener("connect", (event) => {
  (event as MessageEvent).ports[0].onmessage = ({ data }) => {
    const [name, url, options] = data as [string, string, HubOptions];
    if (!names.has(name)) {
      names.add(name);
      lead(name, url, options);
    }
  };
});
