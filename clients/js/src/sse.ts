/**
 * Server-Sent Events (WHATWG HTML, section 9.2) read from a `fetch` body.
 *
 * Not by `EventSource`: that hides the status and words of a refusal and `Retry-After`, does not
 * show keep-alives, retries by its own clock, and is not in Node. The reader takes line feeds only,
 * which is what Encke writes, and a message's last `data` line, of which there is one.
 */

import { ask } from "./ask.js";
import type { Link } from "./link.js";

/** Reads one stream to its end. */
export async function sse(link: Link): Promise<void> {
  const url = link.url("stream", "last_event_id");
  const { headers, body } = await ask(link, url, "text/event-stream");
  // Who has not heard of a gap keeps the place of before.
  if (!headers.has("Encke-Gap")) {
    link.heard(headers.get("Encke-Next"));
  }
  link.shared.id = headers.get("Encke-Connection") ?? "";
  const reader = body!.pipeThrough(new TextDecoderStream()).getReader();
  let message: { [field: string]: string } = {};
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) {
      return;
    }
    // Not at the head: a proxy that holds the stream back lets that through.
    link.opened();
    link.watch(link.shared.silenceMs);
    const lines = (rest + value).split("\n");
    rest = lines.pop()!;
    for (const line of lines) {
      const colon = line.indexOf(": ");
      if (colon > 0) {
        message[line.slice(0, colon)] = line.slice(colon + 2);
        link.retry ??= message.retry;
      } else if (!line) {
        const { id, event, data } = message;
        message = {};
        if (event === "gap") {
          link.gap(id);
        } else if (data) {
          link.event(link.parsed(data));
        }
        // A place may come alone.
        link.heard(id);
      }
    }
  }
}
