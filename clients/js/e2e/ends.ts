/**
 * Ends things in the reverse order of their beginnings: the page before its network, that before
 * its server. The runner's own `after` takes them in the order in which they were registered.
 */

import type { TestContext } from "node:test";

type End = () => unknown;

const ends = new WeakMap<TestContext, End[]>();

/** Calls `end` at the end of the test, before all that were given earlier. */
export function atEnd(test: TestContext, end: End): void {
  const list = ends.get(test);
  if (list) {
    list.push(end);
    return;
  }
  const first = [end];
  ends.set(test, first);
  test.after(async () => {
    const faults: unknown[] = [];
    for (const end of first.reverse()) {
      try {
        await end();
      } catch (fault) {
        faults.push(fault);
      }
    }
    if (faults.length) {
      throw faults[0];
    }
  });
}
