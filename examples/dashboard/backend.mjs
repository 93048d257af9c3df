// Sends the load of this machine every second. It knows no viewers: there may be none or thousands.

import os from "node:os";

const api = process.env.ENCKE_API ?? "http://127.0.0.1:8001";
const headers = { "content-type": "application/json" };
if (process.env.ENCKE_KEY) headers.authorization = `Bearer ${process.env.ENCKE_KEY}`;

let before = os.cpus();

/** The share of time in which the processors worked since the last look, from 0 to 1. */
function busy() {
  const now = os.cpus();
  let [work, all] = [0, 0];
  now.forEach(({ times }, core) => {
    for (const kind of Object.keys(times)) {
      const spent = times[kind] - before[core].times[kind];
      all += spent;
      if (kind !== "idle") work += spent;
    }
  });
  before = now;
  return all > 0 ? work / all : 0;
}

setInterval(async () => {
  const memory = 1 - os.freemem() / os.totalmem();
  const data = { at: Date.now(), busy: busy(), memory };
  const body = JSON.stringify({ about: "machine:here", event: "load", data });
  try {
    const answer = await fetch(`${api}/send`, { method: "POST", headers, body });
    if (!answer.ok) console.error(answer.status, await answer.text());
  } catch (error) {
    console.error("Encke is away:", error.cause?.code ?? error.message);
  }
}, 1000);
