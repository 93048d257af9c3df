/**
 * Connections for tests: short waits, closed with the test, and awaited by what they tell.
 */

import type { TestContext } from "node:test";
import { connect } from "../src/index.js";
import type { Connection, Failure, Listeners, Options, State } from "../src/index.js";

/** Long enough for a busy machine; only a test that fails waits for it. */
export const DEADLINE_MS = 60_000;

/** Connects as `bob` with short waits. */
export function listen(test: TestContext, url: string, options: Partial<Options> = {}): Connection {
  const connection = connect(url, { ids: "bob", retryMs: 1, retryMaxMs: 10, ...options });
  test.after(() => connection.close());
  // A test that expects errors listens itself; the others need not print them.
  connection.on("error", () => {});
  return connection;
}

/** The next thing of that kind that passes, as the arguments of its listener. */
export function next<K extends keyof Listeners>(
  connection: Connection,
  what: K,
  passes: (...words: Parameters<Listeners[K]>) => boolean = () => true,
): Promise<Parameters<Listeners[K]>> {
  return new Promise((resolve, reject) => {
    const late = () => reject(new Error(`no such ${what} within ${DEADLINE_MS} ms`));
    const timer = setTimeout(late, DEADLINE_MS);
    const off = connection.on(what, ((...words: Parameters<Listeners[K]>) => {
      if (passes(...words)) {
        clearTimeout(timer);
        off();
        resolve(words);
      }
    }) as Listeners[K]);
  });
}

/** Waits until it is in that state; returns the failure that led to it, if one did. */
export async function turned(
  connection: Connection,
  state: State,
): Promise<Failure | undefined> {
  if (connection.state !== state) {
    return (await next(connection, "state", (now) => now === state))[1];
  }
}

/** The ids of the events heard, as they come. */
export function heard(connection: Connection): string[] {
  const ids: string[] = [];
  connection.on("event", ({ id }) => ids.push(id));
  return ids;
}
