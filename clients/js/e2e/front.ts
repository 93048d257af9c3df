/**
 * What stands between a page and the server: the page's files, and a network that can fail.
 *
 * A TCP relay that looks at each request's head. `/e2e/…` are files of this package, everything else
 * goes to the server untouched, so page and server have one origin; or one front serves the page
 * and another one, of another origin, is the way to the server. A test can cut the network, freeze
 * it, or do what firewalls and proxies do.
 */

import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { extname, join, normalize } from "node:path";
import type { TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import type { Encke } from "./server.js";
import { atEnd } from "./ends.js";

/** The folder of this package. */
export const FILES = fileURLToPath(new URL("..", import.meta.url));

const TYPES: Record<string, string> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
};

/**
 * `refuse`: it is answered 403; `reset`: the connection breaks; `hold`: nothing of the answer but its
 * head comes through.
 */
export type Rule = "pass" | "refuse" | "reset" | "hold";

export class Front {
  /** `http://127.0.0.1:PORT`, the origin of page and server. */
  origin = "";
  /** What a firewall or proxy does with the request that has this head. */
  rule: (head: string) => Rule = () => "pass";
  /** The first lines of the requests that came for the server. */
  readonly asked: string[] = [];
  #server: Server;
  #sockets = new Set<Socket>();
  #cut = false;
  #frozen = false;

  private constructor(readonly backend?: Encke) {
    this.#server = createServer((socket) => this.#accept(socket));
  }

  /** Starts one before `backend`, or before files alone, that ends with the test. */
  static async start(test: TestContext, backend?: Encke): Promise<Front> {
    const front = new Front(backend);
    front.#server.listen(0, "127.0.0.1");
    await once(front.#server, "listening");
    front.origin = `http://127.0.0.1:${(front.#server.address() as AddressInfo).port}`;
    atEnd(test, () => {
      front.cut();
      front.#server.close();
    });
    return front;
  }

  /** The network is gone: what was open breaks, and nothing new comes through. */
  cut(): void {
    this.#cut = true;
    this.#sockets.forEach((socket) => socket.resetAndDestroy());
  }

  /** No byte comes through any more on what is open, and nobody is told. */
  freeze(): void {
    this.#frozen = true;
    this.#sockets.forEach((socket) => socket.unpipe().pause());
  }

  /** The network is back for what is opened from now on. */
  mend(): void {
    this.#cut = this.#frozen = false;
  }

  #keep(socket: Socket): void {
    this.#sockets.add(socket);
    socket.on("error", () => socket.destroy());
    socket.on("close", () => this.#sockets.delete(socket));
  }

  #accept(socket: Socket): void {
    this.#keep(socket);
    if (this.#cut) {
      socket.resetAndDestroy();
      return;
    }
    if (this.#frozen) {
      return;
    }
    socket.once("data", (chunk) => {
      const head = chunk.toString("latin1");
      const path = head.split(" ")[1];
      if (path.startsWith("/e2e/")) {
        void serveFile(socket, path.slice("/e2e/".length).split("?")[0]);
        return;
      }
      this.asked.push(head.split("\r\n")[0]);
      const rule = this.rule(head);
      if (!this.backend!.isUp) {
        // Another test's server may have taken its port meanwhile.
        socket.resetAndDestroy();
      } else if (rule === "refuse") {
        socket.end("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
      } else if (rule === "reset") {
        socket.resetAndDestroy();
      } else {
        this.#relay(socket, chunk, rule === "hold");
      }
    });
  }

  #relay(client: Socket, first: Buffer, holds: boolean): void {
    const [host, port] = this.backend!.listen.split(":");
    const server = connect(Number(port), host);
    this.#keep(server);
    server.write(first);
    client.pipe(server);
    if (holds) {
      passHead(server, client);
    } else {
      server.pipe(client);
    }
    // An end that is no orderly one is passed on too.
    client.on("close", () => server.destroy());
    server.on("close", () => client.destroy());
  }
}

/** Passes on what `server` says up to the first blank line, and swallows the rest. */
function passHead(server: Socket, client: Socket): void {
  let said = "";
  server.on("data", (chunk) => {
    const before = said.length;
    said += chunk.toString("latin1");
    const end = said.indexOf("\r\n\r\n");
    client.write(Buffer.from(end < 0 ? said.slice(before) : said.slice(before, end + 4), "latin1"));
  });
}

/** Answers with a file of this package and closes. */
async function serveFile(socket: Socket, path: string): Promise<void> {
  const file = join(FILES, normalize(`/${path}`));
  const body = await readFile(file).catch(() => null);
  const status = body ? "200 OK" : "404 Not Found";
  const type = TYPES[extname(file)] ?? "application/octet-stream";
  const length = body?.length ?? 0;
  socket.write(
    `HTTP/1.1 ${status}\r\nContent-Type: ${type}\r\nContent-Length: ${length}\r\n` +
      "Connection: close\r\n\r\n",
  );
  socket.end(body ?? "");
}
