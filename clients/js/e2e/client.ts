/**
 * A client under test, in a tab of Chromium or in Node: the same questions to both.
 */

import type { TestContext } from "node:test";
import type { Page } from "playwright-core";
import { WebSocket as Outside } from "ws";
import type { Connection, Id, SendOptions } from "../src/index.js";
import { next } from "../test/hear.js";
import { type Expected, openContext, openPage } from "./browser.js";
import { type Asked, listen, sees, send, type Told } from "./listen.js";

// Node has its own from 22 on.
globalThis.WebSocket ??= Outside as unknown as typeof WebSocket;

/** Where a client can be. */
export const PLACES = ["page", "node"] as const;

export type Place = (typeof PLACES)[number];

/** One that connects when it is told to. */
export interface Client {
  /** Connects to where it came from, or to `url`, with short waits. */
  listen(options: Asked, url?: string): Promise<void>;
  /** Waits until the connection is in that state, over that transport if one is named. */
  turned(state: string, transport?: string): Promise<void>;
  /** Waits for so many events; returns the payloads of all. */
  heard(count: number): Promise<unknown[]>;
  /** Waits for so many gaps. */
  missed(count: number): Promise<void>;
  told(): Promise<Told>;
  login(...ids: Id[]): Promise<boolean>;
  logout(...ids: Id[]): Promise<boolean>;
  /** Sends; returns how many heard it, or the status of a refusal below zero. */
  send(about: Id | Id[], data: unknown, options?: SendOptions): Promise<number>;
  /** Waits until these are in the room. */
  sees(room: string, ids: string[]): Promise<void>;
  close(): Promise<void>;
}

/** One in `place` that comes from `origin`, a front. */
export async function openClient(
  test: TestContext,
  place: Place,
  origin: string,
  expected: Expected = {},
): Promise<Client> {
  if (place === "page") {
    return openTab(test, origin, expected);
  }
  const program = new Program(origin);
  test.after(() => program.close());
  return program;
}

/** A tab of its own with the page under test. */
export async function openTab(
  test: TestContext,
  origin: string,
  expected: Expected = {},
  context = openContext(test),
): Promise<Tab> {
  const url = `${origin}/e2e/e2e/page.html`;
  return new Tab(await openPage(test, await context, url, expected));
}

declare global {
  interface Window {
    listen(url: string, options: Asked): void;
    send: typeof send;
    sees: typeof sees;
    connection: Connection;
    told: Told;
  }
}

/** A tab with `e2e/page.html`. */
export class Tab implements Client {
  constructor(readonly page: Page) {}

  async listen(options: Asked, url = "/"): Promise<void> {
    await this.page.waitForFunction(() => window.listen);
    await this.page.evaluate(([url, options]) => window.listen(url, options), [url, options] as const);
  }

  async turned(state: string, transport = ""): Promise<void> {
    await this.page.waitForFunction(
      ([state, transport]) =>
        window.connection.state === state &&
        (!transport || window.connection.transport === transport),
      [state, transport] as const,
    );
  }

  async heard(count: number): Promise<unknown[]> {
    await this.page.waitForFunction((count) => window.told.events.length >= count, count);
    return (await this.told()).events.map(({ data }) => data);
  }

  async missed(count: number): Promise<void> {
    await this.page.waitForFunction((count) => window.told.gaps >= count, count);
  }

  told(): Promise<Told> {
    return this.page.evaluate(() => window.told);
  }

  login(...ids: Id[]): Promise<boolean> {
    return this.page.evaluate((ids) => window.connection.login(...ids), ids);
  }

  logout(...ids: Id[]): Promise<boolean> {
    return this.page.evaluate((ids) => window.connection.logout(...ids), ids);
  }

  send(about: Id | Id[], data: unknown, options?: SendOptions): Promise<number> {
    return this.page.evaluate(
      ([about, data, options]) => window.send(window.connection, about, data, options),
      [about, data, options] as const,
    );
  }

  sees(room: string, ids: string[]): Promise<void> {
    return this.page.evaluate(
      ([room, ids]) => window.sees(window.connection, room, ids),
      [room, ids] as const,
    );
  }

  close(): Promise<void> {
    return this.page.evaluate(() => window.connection.close());
  }
}

/** A connection in this process. */
class Program implements Client {
  #live?: ReturnType<typeof listen>;

  constructor(readonly origin: string) {}

  async listen(options: Asked, url = this.origin): Promise<void> {
    this.#live = listen(url, options);
  }

  async turned(state: string, transport = ""): Promise<void> {
    const { connection } = this.#now;
    while (connection.state !== state || (transport && connection.transport !== transport)) {
      await next(connection, "state");
    }
  }

  async heard(count: number): Promise<unknown[]> {
    const { connection, told } = this.#now;
    while (told.events.length < count) {
      await next(connection, "event");
    }
    return told.events.map(({ data }) => data);
  }

  async missed(count: number): Promise<void> {
    const { connection, told } = this.#now;
    while (told.gaps < count) {
      await next(connection, "gap");
    }
  }

  async told(): Promise<Told> {
    return this.#now.told;
  }

  login(...ids: Id[]): Promise<boolean> {
    return this.#now.connection.login(...ids);
  }

  logout(...ids: Id[]): Promise<boolean> {
    return this.#now.connection.logout(...ids);
  }

  send(about: Id | Id[], data: unknown, options?: SendOptions): Promise<number> {
    return send(this.#now.connection, about, data, options);
  }

  sees(room: string, ids: string[]): Promise<void> {
    return sees(this.#now.connection, room, ids);
  }

  async close(): Promise<void> {
    this.#live?.connection.close();
  }

  get #now(): ReturnType<typeof listen> {
    if (!this.#live) {
      throw new Error("it listens first");
    }
    return this.#live;
  }
}
