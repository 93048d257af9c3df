/** A backend's way to the API, on which calls wait until the test lets them through. */

import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { TestContext } from "node:test";
import { atEnd } from "./ends.js";
import type { Encke } from "./server.js";

export class Gate {
  /** Where the backend calls. */
  url = "";
  #left = 0;
  #waiting: (() => void)[] = [];

  static async make(t: TestContext, server: Encke): Promise<Gate> {
    const gate = new Gate();
    const listener = createServer(async (request, answer) => {
      const parts: Buffer[] = [];
      for await (const part of request) parts.push(part);
      while (gate.#left <= 0) await new Promise<void>((go) => gate.#waiting.push(go));
      const { host: _, connection: __, ...headers } = request.headers;
      try {
        const reply = await fetch(`http://${server.api}${request.url}`, {
          method: request.method,
          headers: headers as Record<string, string>,
          body: Buffer.concat(parts),
        });
        gate.#left -= Number(reply.ok);
        answer.writeHead(reply.status).end(await reply.text());
      } catch {
        answer.destroy();
      }
    });
    await new Promise<void>((listening) => listener.listen(0, "127.0.0.1", listening));
    atEnd(t, () => {
      listener.close();
      listener.closeAllConnections();
    });
    gate.url = `http://127.0.0.1:${(listener.address() as AddressInfo).port}`;
    return gate;
  }

  /** So many further calls are answered well; what waits and fails may be repeated. */
  pass(calls: number): void {
    this.#left += calls;
    this.#waiting.splice(0).forEach((go) => go());
  }
}
