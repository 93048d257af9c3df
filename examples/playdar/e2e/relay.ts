/**
 * A relay before a daemon and its streams, which are one origin through it: it can cut the streams,
 * or refuse them, while the daemon is still there to be asked.
 */

import { once } from "node:events";
import {
  createServer,
  type IncomingMessage,
  request as ask,
  type Server,
  type ServerResponse,
} from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { text } from "node:stream/consumers";
import type { TestContext } from "node:test";
import { atEnd } from "../../../clients/js/e2e/ends.js";
import type { Daemon } from "./daemon.js";

export class Relay {
  /** What becomes of requests for streams. */
  rule: "pass" | "cut" | "refuse" = "pass";
  /** The heads of the requests for streams: what `Last-Event-ID` each had. */
  readonly asked: (string | undefined)[] = [];
  readonly #streams = new Set<Socket>();
  readonly #server: Server;
  /** The origin of page and streams. */
  origin = "";

  private constructor(private readonly daemon: Daemon) {
    this.#server = createServer((request, answer) => void this.#serve(request, answer));
  }

  /** Starts one before `daemon` that ends with the test. */
  static async start(test: TestContext, daemon: Daemon): Promise<Relay> {
    const relay = new Relay(daemon);
    relay.#server.listen(0, "127.0.0.1");
    await once(relay.#server, "listening");
    relay.origin = `http://127.0.0.1:${(relay.#server.address() as AddressInfo).port}`;
    atEnd(test, () => {
      relay.#server.closeAllConnections();
      relay.#server.close();
    });
    return relay;
  }

  /** Streams break, and until the rule is another one none begins. */
  cut(): void {
    this.rule = "cut";
    this.#streams.forEach((socket) => socket.resetAndDestroy());
  }

  async #serve(request: IncomingMessage, answer: ServerResponse): Promise<void> {
    const url = request.url!;
    const isStream = url.startsWith("/stream/");
    if (isStream) this.asked.push(request.headers["last-event-id"] as string | undefined);
    if (isStream && this.rule !== "pass") {
      if (this.rule === "cut") request.socket.resetAndDestroy();
      else answer.writeHead(403).end();
      return;
    }
    const to = new URL(url, isStream ? this.daemon.streams : this.daemon.origin);
    const onward = ask(to, { method: request.method, headers: request.headers });
    request.pipe(onward);
    answer.on("close", () => onward.destroy());
    onward.on("error", () => answer.destroy());
    onward.on("response", (came) => {
      if (isStream) {
        this.#streams.add(request.socket);
        answer.on("close", () => this.#streams.delete(request.socket));
      }
      void this.#pass(url, came, answer);
    });
  }

  /** Where the daemon names its streams, this is named. */
  async #pass(url: string, came: IncomingMessage, answer: ServerResponse): Promise<void> {
    const named = (words: string) => words.replaceAll(this.daemon.streams, this.origin);
    const { "content-length": length, ...headers } = came.headers;
    const policy = headers["content-security-policy"];
    if (policy) headers["content-security-policy"] = named(String(policy));
    if (url.includes("method=stat")) {
      answer.writeHead(came.statusCode!, headers).end(named(await text(came)));
      return;
    }
    answer.writeHead(came.statusCode!, length ? { ...headers, "content-length": length } : headers);
    answer.flushHeaders();
    came.on("error", () => answer.destroy());
    came.pipe(answer);
  }
}
