/**
 * WebSocket (RFC 6455) by the platform's own class.
 *
 * A script sees neither the server's pings nor the status of a refused handshake. So the stream is
 * open when the answer to a first `{"ping":1}` is here (some proxies take the handshake and no
 * frame), later silence is answered by another one, and a refusal is an ordinary failure after
 * which another transport hears the reason.
 */

import { failure } from "./failure.js";
import type { Link } from "./link.js";

/** Keeps one stream to its end. */
export function websocket(link: Link): Promise<void> {
  return new Promise((resolve, reject) => {
    const url = link.url("stream", "last_event_id");
    url.protocol = url.protocol.replace("http", "ws");
    const protocols = link.token ? ["encke", `encke.bearer.${link.token}`] : [];
    const socket = new WebSocket(url, protocols);
    const say = (words: object) => socket.send(JSON.stringify(words));
    const ping = () => {
      say({ ping: 1 });
      link.watch(link.shared.openMs);
    };
    link.signal.addEventListener("abort", () => {
      // A dead network keeps `close` waiting; nobody waits for that.
      socket.onmessage = socket.onopen = socket.onclose = null;
      socket.close();
    });
    socket.onopen = () => {
      link.speak(say);
      // Its answer comes after those to what was said.
      ping();
    };
    // `close` follows; but one of Node's classes takes an error that nobody hears for a crash.
    socket.onerror = () => {};
    socket.onclose = ({ code, reason }) => {
      if (code === 1001) {
        return resolve();
      }
      // The application's logout: coming back would undo it. A proxy says 1000 without that word.
      const final = code === 1000 && reason === "logged_out";
      // The token's end, in the numbers of both (IANA's registry).
      const status = code === 3000 ? 401 : undefined;
      reject(Object.assign(new Error(`WebSocket closed: ${code} ${reason}`), { final, status }));
    };
    socket.onmessage = ({ data }) => {
      link.watch(link.shared.silenceMs, ping);
      try {
        hear(link, link.read(data));
      } catch (error) {
        reject(error);
      }
    };
  });
}

/** Tells what a message is: an event, a gap, or an answer. */
function hear(link: Link, message: any): void {
  const { about, gap, ok, error } = message;
  if (about) {
    link.event(message);
  } else if (gap) {
    link.gap();
  } else if (ok?.ping) {
    link.opened();
    link.heard(ok.next);
  } else if (ok || error) {
    const refused = error && failure(error, "refused");
    if ((ok ?? message).token) {
      link.renewed(refused);
    } else {
      link.answered(refused);
    }
  }
}
