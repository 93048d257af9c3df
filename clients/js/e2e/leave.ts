/** A visitor of an example's backend who leaves in the middle of what it says. */

import { once } from "node:events";
import { connect } from "node:net";

/** Begins a POST to `url`, and breaks the connection once the backend waits for the rest. */
export async function leave(url: string): Promise<void> {
  const { hostname, port, pathname, search } = new URL(url);
  const socket = connect(Number(port), hostname);
  const asked = ["Host: a.test", "Content-Length: 10", "Expect: 100-continue"];
  socket.write([`POST ${pathname}${search} HTTP/1.1`, ...asked, "\r\n"].join("\r\n"));
  await once(socket, "data");
  socket.resetAndDestroy();
  await once(socket, "close");
}
