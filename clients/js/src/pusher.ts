/**
 * `encke/pusher`: pusher-js that misses nothing while it is away.
 *
 * Each event of a channel has an id. This notes the last one of each channel, and names it when
 * pusher-js subscribes again: the server sends what was missed, or `encke:gap` on the channel where
 * it no longer knows. All else is pusher-js.
 */

import Base from "pusher-js";

/** A `Pusher`, and after which event each of its channels goes on. */
interface Page {
  places: Map<string, string>;
  pusher?: WeakRef<Base>;
}

/** By the number of each. */
const pages: Page[] = [];

const { Runtime } = Base;
const open = Runtime.createWebSocket;

// pusher-js says a URL and nothing else, so the path begins with the number, which is taken out.
Runtime.createWebSocket = function (url: string): WebSocket {
  const [, before, number, path] = /^(.*)\/~(\d+)(\/app\/.*)$/.exec(url) ?? [];
  const page = pages[Number(number)];
  if (!page) return open.call(this, url);
  const socket = open.call(this, `${before}${path}`);
  socket.addEventListener("message", ({ data }) => {
    const { channel, id } = JSON.parse(data);
    // What was on its way to a channel that was left is no place to go on from.
    if (id && page.pusher?.deref()?.channel(channel)) page.places.set(channel, id);
  });
  const send = socket.send.bind(socket);
  socket.send = (text: string) => {
    const frame = JSON.parse(text);
    const { event, data } = frame;
    if (event === "pusher:unsubscribe") page.places.delete(data.channel);
    if (event === "pusher:subscribe") {
      // Without one yet it is told one.
      data.after = page.places.get(data.channel) ?? "";
      text = JSON.stringify(frame);
    }
    send(text);
  };
  return socket;
};

/** `Pusher` of pusher-js, whose channels go on where they were after a connection was lost. */
export default class Pusher extends Base {
  readonly #page: Page;

  constructor(key: string, options: ConstructorParameters<typeof Base>[1]) {
    const page: Page = { places: new Map() };
    super(key, { ...options, wsPath: `${options.wsPath ?? ""}/~${pages.push(page) - 1}` });
    page.pusher = new WeakRef<Base>(this);
    this.#page = page;
  }

  /** Leaves a channel, also while there is no connection: who subscribes again begins anew. */
  override unsubscribe(channel: string): void {
    this.#page.places.delete(channel);
    super.unsubscribe(channel);
  }
}
