/**
 * Attempts inside a test. Where a machine that stands still can spoil one, and there is no event to
 * wait for instead, a test makes another and says so: it counts with those that passed at their
 * second try (`run.js`), of which more than three fail a run of all checks.
 */

import { appendFileSync, existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import type { TestContext } from "node:test";

/** Says that the test makes an attempt once more, and how the one before failed. */
export function triedAgain(test: TestContext, why: string): void {
  test.diagnostic(`tried again: ${why}`);
  const folder = process.env.ENCKE_SECOND_TRIES;
  if (folder) {
    mkdirSync(folder, { recursive: true });
    // One for each test, whose first line is its name: xtask/src/second_tries.rs.
    const file = join(folder, `inside-${test.name.replace(/\W/g, "-")}.txt`);
    appendFileSync(file, existsSync(file) ? `${why}\n` : `${test.name}\n\n${why}\n`);
  }
}
