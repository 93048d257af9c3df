/**
 * A server that says what a test tells it to, on a port of its own, and remembers what it was asked.
 *
 * It speaks the three transports by hand (WebSocket by the `ws` package), so that a test can break
 * each rule that the real server keeps.
 */

import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { json } from "node:stream/consumers";
import type { TestContext } from "node:test";
import { type WebSocket, WebSocketServer } from "ws";

/** Answers one request. */
export type Handler = (answer: ServerResponse, url: URL, request: IncomingMessage) => void;

/** Serves one WebSocket. */
export type SocketHandler = (socket: WebSocket, url: URL, request: IncomingMessage) => void;

/** What a test scripts. */
export interface Script {
  stream?: Handler;
  poll?: Handler;
  /** Answers a `POST /send`, whose body has been read. */
  send?: (answer: ServerResponse, body: any, request: IncomingMessage) => void;
  websocket?: SocketHandler;
}

export class FakeServer {
  /** Method-less: `websocket /stream/bob?…`, `sse /stream/bob?…`, `poll /poll/bob?…`. */
  readonly asked: string[] = [];
  url = "";
  #http: Server;
  #sockets = new Set<Socket>();

  private constructor(readonly script: Script) {
    const websockets = new WebSocketServer({ noServer: true });
    this.#http = createServer((request, answer) => {
      const url = new URL(request.url!, "http://server.test");
      if (script.send && request.method === "POST" && url.pathname === "/send") {
        void json(request).then((body) => script.send!(answer, body, request));
        return;
      }
      const poll = url.pathname.startsWith("/poll/");
      this.asked.push(`${poll ? "poll" : "sse"} ${request.url}`);
      const handler = (poll ? script.poll : script.stream) ?? refuse(404, "There is nothing here.");
      handler(answer, url, request);
    });
    this.#http.on("connection", (socket: Socket) => {
      this.#sockets.add(socket);
      socket.on("close", () => this.#sockets.delete(socket));
    });
    this.#http.on("upgrade", (request, socket: Socket, head) => {
      const url = new URL(request.url!, "http://server.test");
      // Each asks for its connection's id, too.
      this.asked.push(`websocket ${request.url!.replace(/[?&]next=1$/, "")}`);
      if (!script.websocket) {
        socket.end("HTTP/1.1 501 Not Implemented\r\nConnection: close\r\n\r\n");
        return;
      }
      websockets.handleUpgrade(request, socket, head, (open) =>
        script.websocket!(open, url, request),
      );
    });
  }

  /** Starts one that ends with the test. */
  static async start(test: TestContext, script: Script): Promise<FakeServer> {
    const server = new FakeServer(script);
    server.#http.listen(0, "127.0.0.1");
    await once(server.#http, "listening");
    server.url = `http://127.0.0.1:${(server.#http.address() as AddressInfo).port}/`;
    test.after(() => {
      server.cut();
      server.#http.close();
    });
    return server;
  }

  /** Ends all connections as a lost network does. */
  cut(): void {
    this.#sockets.forEach((socket) => socket.destroy());
  }
}

/** Refuses with a problem. */
export function refuse(status: number, detail: string, head: Record<string, string> = {}): Handler {
  return (answer) => {
    answer.writeHead(status, { "content-type": "application/problem+json", ...head });
    answer.end(JSON.stringify({ type: "errors#forbidden", title: "Refused", status, detail }));
  };
}

/** A stream of SSE that begins with `messages` and stays open. */
export function stream(...messages: string[]): Handler {
  return (answer) => {
    answer.writeHead(200, { "content-type": "text/event-stream" });
    answer.write(messages.join(""));
  };
}

/** Answers the first request by the first handler, and so on; further ones by the last. */
export function inTurn(...handlers: Handler[]): Handler {
  return (...request) => (handlers.length > 1 ? handlers.shift()! : handlers[0])(...request);
}

/** An event as SSE. */
export function message(id: string, data: unknown = null): string {
  return `id: ${id}\ndata: ${JSON.stringify({ id, about: "bob", data })}\n\n`;
}

/** The head of a stream: the cursor alone. */
export function cursor(id: string): string {
  return `id: ${id}\n\n`;
}

/** Answers polls that do not wait with the cursor alone, and lets the others wait. */
export function idle(id: string): Handler {
  return (...request) => {
    if (request[1].searchParams.get("wait") === "0") {
      answers([], id)(...request);
    }
  };
}

/** A poll's answer. */
export function answers(events: string[], next: string, head: Record<string, string> = {}): Handler {
  return (answer) => {
    answer.writeHead(200, { "content-type": "application/json", "encke-next": next, ...head });
    answer.end(JSON.stringify(events.map((id) => ({ id, about: "bob", data: null }))));
  };
}
