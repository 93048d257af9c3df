/**
 * What a connection says beside its ids, and hears beside events: sends, and members of rooms.
 *
 * A WebSocket is spoken to. Beside the streams of the others a send is a request of its own, and
 * rooms stand in the address. The small entry has nothing of this.
 */

import type { Attempt, Shared } from "./attempt.js";
import { failure, refusal } from "./failure.js";
import { Rooms } from "./members.js";
import { type Body, Sends } from "./sends.js";
import type { SpokenIds } from "./spoken.js";
import type { Failure, Options } from "./types.js";

/** What is longer goes by a request, which is refused in words where a frame would end a stream. */
const FRAME_CHARS = 4000;

/** The talk of one connection. */
export class Talk {
  readonly sends: Sends;
  readonly rooms: Rooms;
  /** The stream knows of the rooms: these stood in its address, or it is open and was told. */
  #asked?: string[];
  /** A send has been said, and none was answered since. */
  #isOwed = false;

  constructor(
    readonly shared: Shared,
    { queueMax, queueMs }: Options,
  ) {
    this.sends = new Sends((event) => shared.ears.event(event), queueMax, queueMs);
    const watch = (id: string) => {
      if (this.#asked && !this.#asked.includes(id) && !this.#say({ members: id })) {
        shared.again();
      }
    };
    this.rooms = new Rooms(watch, (id) => {
      this.#say({ unwatch: id });
      // Who looks at it again wants the list anew.
      this.#asked = this.#asked?.filter((one) => one !== id);
    });
  }

  /** Writes the rooms into the address of a stream. */
  address(url: URL): void {
    this.#asked = this.rooms.ids;
    this.#asked.forEach((id) => url.searchParams.append("members", id));
  }

  /** Takes them out again: a refusal is heard better over the open stream. */
  spoken(url: URL): void {
    this.#asked = undefined;
    url.searchParams.delete("members");
  }

  /** A stream is open. */
  opened(link: Attempt): void {
    this.#asked ??= this.rooms.ids.filter((members) => this.#say({ members }));
    this.#isOwed = false;
    this.sends.open((ref, body, _, signal) => {
      const isSaid =
        JSON.stringify(body).length < FRAME_CHARS && this.#say({ send: body, ref });
      if (!isSaid) {
        void this.#post(link, ref, body, signal);
      } else if (!this.#isOwed) {
        // A network that is dead is noticed soon where something is said to it.
        this.#isOwed = true;
        link.watch(this.shared.openMs);
      }
      return isSaid;
    });
  }

  /** Hears what is no event: an answer to a send, or what is said of members. */
  hear(message: any): void {
    const { ok, error, ref, members } = message;
    const why: Failure | undefined = error && failure(error, "refused");
    if (why && error.retry_after >= 0) {
      why.retryAfterMs = 1000 * error.retry_after || 1;
    }
    if (ref) {
      this.#isOwed = false;
      this.sends.answered(ref, why, ok);
    } else if (why) {
      this.shared.ears.complain(why);
      if (why.status! > 499) {
        const again = () => this.rooms.ids.includes(members) && this.#say({ members });
        setTimeout(again, why.retryAfterMs ?? 1000);
      }
    } else {
      this.rooms.hear(message);
      this.shared.ears.tell("members", message);
    }
  }

  #say(words: object): boolean {
    return (this.shared.ids as SpokenIds).say(words);
  }

  async #post(link: Attempt, ref: number, body: Body, signal: AbortSignal): Promise<void> {
    const url = new URL(this.shared.base);
    url.pathname += "send";
    const headers = {
      "content-type": "application/json",
      ...(link.token && { authorization: `Bearer ${link.token}` }),
    };
    const { echo, ...event } = body;
    const except = echo ? undefined : this.shared.id || undefined;
    const post = { method: "POST", headers, signal, body: JSON.stringify({ ...event, except }) };
    try {
      const response = await fetch(url, post);
      if (!response.ok) {
        throw await refusal(response);
      }
      this.sends.answered(ref, undefined, await response.json());
    } catch (why) {
      if (!signal.aborted) {
        this.sends.answered(ref, why as Failure);
      }
    }
  }
}
