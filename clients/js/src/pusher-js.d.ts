/** What `encke/pusher` uses of pusher-js, whose own types its users have. */
declare module "pusher-js" {
  interface Options {
    wsPath?: string;
  }

  export default class Pusher {
    static Runtime: { createWebSocket(url: string): WebSocket };
    constructor(key: string, options: Options);
    channel(name: string): object | undefined;
    unsubscribe(name: string): void;
  }
}
