/**
 * `encke/pusher`: pusher-js that misses nothing while it is away.
 *
 * Each event of a channel has an id. This notes the last one of each channel, and names it when
 * pusher-js subscribes again: the server sends what was missed, or `encke:gap` on the channel where
 * it no longer knows. All else is pusher-js.
 */

import Base from "pusher-js";

/** By the number of each `Pusher`: after which event each of its channels goes on. */
const places: Map<string, string>[] = [];

const { Runtime } = Base;
const open = Runtime.createWebSocket;

// pusher-js says a URL and nothing else, so the path begins with the number, which is taken out.
Runtime.createWebSocket = function (url: string): WebSocket {
  const [, before, number, path] = /^(.*)\/~(\d+)(\/app\/.*)$/.exec(url) ?? [];
  const of = places[Number(number)];
  if (!of) return open.call(this, url);
  const socket = open.call(this, `${before}${path}`);
  socket.addEventListener("message", ({ data }) => {
    const { channel, id } = JSON.parse(data);
    if (channel && id) of.set(channel, id);
  });
  const send = socket.send.bind(socket);
  socket.send = (text: string) => {
    const frame = JSON.parse(text);
    const { event, data } = frame;
    if (event === "pusher:unsubscribe") of.delete(data.channel);
    if (event === "pusher:subscribe") {
      // Without one yet it is told one.
      data.after = of.get(data.channel) ?? "";
      text = JSON.stringify(frame);
    }
    send(text);
  };
  return socket;
};

/** `Pusher` of pusher-js, whose channels go on where they were after a connection was lost. */
export default class Pusher extends Base {
  private places: Map<string, string>;

  constructor(key: string, options: ConstructorParameters<typeof Base>[1]) {
    const of = new Map<string, string>();
    super(key, { ...options, wsPath: `${options.wsPath ?? ""}/~${places.push(of) - 1}` });
    this.places = of;
  }

  // pusher-js sends nothing of it while it is offline.
  unsubscribe(name: string): void {
    this.places.delete(name);
    super.unsubscribe(name);
  }
}
