/**
 * WebSocket (RFC 6455) by the platform's own class.
 *
 * A script sees neither the server's pings nor the status of a refused handshake. So the stream is
 * open when the answer to a first `{"ping":1}` is here (some proxies take the handshake and no
 * frame), later silence is answered by another one, and a refusal is an ordinary failure after
 * which another transport hears the reason.
 */

import type { Attempt } from "./attempt.js";
import { failure } from "./failure.js";
import type { SpokenIds } from "./spoken.js";

/** Keeps one stream to its end. */
export function websocket(link: Attempt): Promise<void> {
  const { ids, cursor, openMs, silenceMs } = link.shared;
  return new Promise((resolve, reject) => {
    const url = link.url("stream", "last_event_id");
    url.protocol = url.protocol.replace("http", "ws");
    link.shared.talk!.spoken(url);
    // A first message has the connection's id. Its head nobody here sees.
    url.searchParams.set("next", "1");
    const protocols = link.token ? ["encke", `encke.bearer.${link.token}`] : [];
    const socket = new WebSocket(url, protocols);
    const say = (words: object) => socket.send(JSON.stringify(words));
    const ping = (ms: number) => {
      say({ ping: 1 });
      link.watch(ms);
    };
    // Ids that are said to the open stream miss what the address asks to catch up.
    const misses = !!ids.rest[0] && !!cursor.at;
    link.signal.addEventListener("abort", () => {
      // A dead network keeps `close` waiting; nobody waits for that.
      socket.onmessage = socket.onopen = socket.onclose = null;
      socket.close();
    });
    socket.onopen = () => {
      (ids as SpokenIds).speak(say);
      // Its answer comes after those to what was said.
      ping(openMs);
    };
    // `close` follows; but one of Node's classes takes an error that nobody hears for a crash.
    socket.onerror = () => {};
    socket.onclose = ({ code, reason }) => {
      if (code === 1001) {
        return resolve();
      }
      if (code === 1012) {
        // Another node has room, and its server sends its clients there a few at a time.
        link.retry = 0;
      }
      // The application's logout: coming back would undo it. A proxy says 1000 without that word.
      const final = code === 1000 && reason === "logged_out";
      // The token's end, in the numbers of both (IANA's registry).
      const status = code === 3000 ? 401 : undefined;
      reject(Object.assign(new Error(`WebSocket closed: ${code} ${reason}`), { final, status }));
    };
    socket.onmessage = ({ data }) => {
      // Noticed within the same time as on a stream whose keep-alives show.
      link.watch((silenceMs * 2) / 3, () => ping(silenceMs / 3));
      try {
        hear(link, link.parsed(data), misses);
      } catch (error) {
        reject(error);
      }
    };
  });
}

/** Tells what a message is: an event, a gap, or an answer. */
function hear(link: Attempt, message: any, misses: boolean): void {
  const { ids, ears, tokens } = link.shared;
  const { gap, ok, error, ref, members, connection, retry } = message;
  if (connection) {
    link.shared.id = connection;
    link.retry = retry;
  } else if (gap) {
    link.gap();
  } else if (ok?.ping) {
    if (misses && !link.openedAt) {
      ears.tell("gap");
    }
    link.opened();
    link.heard(ok.next);
  } else if ((ok || error) && !ref && !members && !ok?.unwatch) {
    const refused = error && failure(error, "refused");
    if ((ok ?? message).token) {
      tokens.taken(link, refused);
    } else {
      (ids as SpokenIds).answered(refused);
      if (refused) {
        ears.complain(refused);
      }
    }
  } else {
    link.event(message);
  }
}
