/** `encke/pusher`: pages with pusher-js over a network that is cut lose nothing, and hear of gaps. */

import assert from "node:assert/strict";
import { cp, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { connect, createServer, type AddressInfo, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { pathToFileURL } from "node:url";
import { atEnd } from "./ends.js";
import { root } from "./program.js";
import { Encke, until } from "./server.js";

/** What `cargo xtask programs` has fetched: pusher-js and the library for backends. */
const PACKAGES = join(root(), "target/tools/compat/pusher-node/node_modules");
const SECRET = "a-secret-of-some-length";

/** A page's way to the server, which can be cut. */
class Line {
  #sockets = new Set<Socket>();
  #isCut = false;
  port = 0;

  static async make(t: TestContext, server: Encke): Promise<Line> {
    const line = new Line();
    const [host, port] = server.listen.split(":");
    const listener = createServer((near) => {
      if (line.#isCut) return near.destroy();
      const far = connect(Number(port), host);
      for (const [one, other] of [[near, far], [far, near]]) {
        line.#sockets.add(one);
        one.on("error", () => other.destroy());
        one.on("close", () => other.destroy());
        one.pipe(other);
      }
    });
    await new Promise<void>((done) => listener.listen(0, "127.0.0.1", done));
    atEnd(t, () => listener.close());
    line.port = (listener.address() as AddressInfo).port;
    return line;
  }

  cut(): void {
    this.#isCut = true;
    for (const socket of this.#sockets) socket.destroy();
    this.#sockets.clear();
  }

  mend(): void {
    this.#isCut = false;
  }
}

/** A server, a page's `Pusher` behind a line, and a backend. */
async function begin(t: TestContext, ...options: string[]) {
  const folder = await mkdtemp(join(tmpdir(), "encke-pusher-"));
  atEnd(t, () => rm(folder, { recursive: true, force: true }));
  await symlink(PACKAGES, join(folder, "node_modules"));
  await cp(join(root(), "clients/js/dist/pusher.js"), join(folder, "pusher.mjs"));
  const apps = join(folder, "apps.json");
  await writeFile(apps, JSON.stringify([{ id: "1", key: "app-1", secret: SECRET }]));
  const server = await Encke.start(t, `--pusher-apps=${apps}`, ...options);
  const line = await Line.make(t, server);
  const { default: Pusher } = await import(pathToFileURL(join(folder, "pusher.mjs")).href);
  const require = createRequire(join(folder, "node_modules/"));
  const Backend = require("pusher");
  const [host, port] = server.api.split(":");
  const backend = new Backend({ appId: "1", key: "app-1", secret: SECRET, host, port, useTLS: false });
  const open = () => {
    const pusher = new Pusher("app-1", {
      wsHost: "127.0.0.1", wsPort: line.port, forceTLS: false, enabledTransports: ["ws"],
      cluster: "",
      channelAuthorization: {
        customHandler: ({ socketId, channelName }: Record<string, string>, done: Function) =>
          done(null, backend.authorizeChannel(socketId, channelName)),
      },
    });
    atEnd(t, () => pusher.disconnect());
    return pusher;
  };
  return { line, backend, open };
}

/** What comes to a channel, each as it is waited for. */
function hear(channel: { bind_global(listener: Function): void }) {
  const heard: string[] = [];
  const waiting: (() => void)[] = [];
  channel.bind_global((event: string, data: unknown) => {
    heard.push(event === "n" ? String(data) : event);
    waiting.splice(0).forEach((wake) => wake());
  });
  return {
    heard,
    async until(what: string) {
      while (!heard.includes(what)) await new Promise<void>((wake) => waiting.push(wake));
    },
    take: () => heard.splice(0).filter((what) => !what.startsWith("encke:place")),
  };
}

const SUBSCRIBED = "pusher:subscription_succeeded";

test("pusher: a cut connection loses nothing, with events before it and without", async (t) => {
  const { line, backend, open } = await begin(t);
  const [page, other] = [open(), open()];
  const [news, own] = ["news", "private-rj"].map((name) => hear(page.subscribe(name)));
  const others = hear(other.subscribe("news"));
  await Promise.all([news, own, others].map((channel) => channel.until(SUBSCRIBED)));
  await backend.trigger("news", "n", 1);
  await Promise.all([news.until("1"), others.until("1")]);
  assert.deepEqual([news.take(), own.take()], [[SUBSCRIBED, "1"], [SUBSCRIBED]]);
  others.take();
  for (const number of [2, 4]) {
    line.cut();
    for (const channel of ["news", "private-rj"]) {
      await backend.trigger(channel, "n", number);
      await backend.trigger(channel, "n", number + 1);
    }
    line.mend();
    const last = String(number + 1);
    await Promise.all([news, own, others].map((channel) => channel.until(last)));
    const all = [SUBSCRIBED, String(number), last];
    assert.deepEqual([news.take(), own.take(), others.take()], [all, all, all]);
  }
  // A channel that was left begins anew.
  page.unsubscribe("news");
  await until("the server knows it", async () => {
    const params = { info: "subscription_count" };
    const channel = await (await backend.get({ path: "/channels/news", params })).json();
    return channel.subscription_count === 1;
  });
  await backend.trigger("news", "n", 6);
  await others.until("6");
  const again = hear(page.subscribe("news"));
  await again.until(SUBSCRIBED);
  await backend.trigger("news", "n", 7);
  await again.until("7");
  assert.deepEqual(again.take(), [SUBSCRIBED, "7"]);
});

test("pusher: a channel that is left while the line is cut begins anew", async (t) => {
  const { line, backend, open } = await begin(t);
  const page = open();
  const news = hear(page.subscribe("news"));
  const other = hear(page.subscribe("other"));
  await Promise.all([news, other].map((channel) => channel.until(SUBSCRIBED)));
  await backend.trigger("news", "n", 1);
  await news.until("1");
  other.take();
  line.cut();
  // Before, pusher-js would send a frame that goes nowhere.
  await until("the page knows it", async () => page.connection.state !== "connected");
  page.unsubscribe("news");
  await backend.trigger("news", "n", 2);
  line.mend();
  await other.until(SUBSCRIBED);
  const again = hear(page.subscribe("news"));
  await again.until(SUBSCRIBED);
  await backend.trigger("news", "n", 3);
  await again.until("3");
  assert.deepEqual(again.take(), [SUBSCRIBED, "3"]);
});

test("pusher: what is forgotten is told as a gap on its channel", async (t) => {
  const { line, backend, open } = await begin(t, "--history-events=2");
  const page = open();
  const news = hear(page.subscribe("news"));
  await news.until(SUBSCRIBED);
  await backend.trigger("news", "n", 1);
  await news.until("1");
  news.take();
  line.cut();
  for (let number = 2; number <= 5; number++) await backend.trigger("news", "n", number);
  line.mend();
  await news.until("5");
  assert.deepEqual(news.take(), [SUBSCRIBED, "encke:gap", "4", "5"]);
});
