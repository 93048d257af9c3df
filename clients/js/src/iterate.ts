/**
 * A connection's events for `for await`.
 *
 * What arrives while the body of the loop is at work waits in a list without a bound: a page that
 * cannot keep up says so by its memory, not by a hole.
 */

import type { AnyEvent, BaseConnection, Failure } from "./types.js";

/**
 * Events from the first `next` on, until the connection is closed. What `refused` tells then is
 * thrown, however long ago it came.
 */
export async function* iterate<E>(
  connection: Pick<BaseConnection<E>, "on" | "state">,
  refused: () => Failure | undefined,
): AsyncGenerator<AnyEvent<E>, void> {
  const queue: AnyEvent<E>[] = [];
  let wake = () => {};
  const ends = [
    connection.on("event", (event) => {
      queue.push(event);
      wake();
    }),
    connection.on("state", () => wake()),
  ];
  try {
    while (queue[0] || connection.state !== "closed") {
      if (queue[0]) {
        yield queue.shift()!;
      } else {
        await new Promise<void>((resolve) => (wake = resolve));
      }
    }
    const why = refused();
    if (why) {
      throw why;
    }
  } finally {
    ends.forEach((end) => end());
  }
}
