/**
 * Runs the test files that it is given, one after another. A test that fails is run once more, if
 * few do: what a browser on a busy machine meets is not only ours. Who passes then is told, and its
 * first failure goes to a file of the folder `ENCKE_SECOND_TRIES`.
 *
 * `node --test` knows neither, and its `--test-timeout` is one of whole files: tests that each
 * waited no longer than they may failed together. Here each wait has its own deadline, and a file
 * is ended only when it hangs.
 */

import { mkdirSync, writeFileSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { finished } from "node:stream/promises";
import { run } from "node:test";
import { tap } from "node:test/reporters";

/** A file that takes longer does not end. */
const FILE_MS = 20 * 60_000;

/** So many tests are tried again, as the Rust tests. */
const SECOND_TRIES_MAX = 3;

// For the files' processes: a page or a server may be open still when their last test has ended.
process.execArgv.push("--test-force-exit");

const files = process.argv.slice(2).map((file) => resolve(file));
if (!files.length) {
  throw new Error("which files? node --import tsx e2e/run.js FILE…");
}
const failures = await attempt(files);
let passed = failures.length === 0;
if (!passed && failures.length <= SECOND_TRIES_MAX) {
  const again = [];
  for (const { file, name } of failures) {
    // The name of a file stands for what it did outside its tests.
    again.push(...(await attempt([file], name === file ? undefined : exactly(name))));
  }
  passed = again.length === 0;
  if (passed) {
    failures.forEach(keep);
  }
}
process.exitCode = passed ? 0 : 1;

/**
 * @param {string[]} files
 * @param {RegExp} [name] of the tests to run, if not all
 * @returns {Promise<{ file: string, name: string, text: string }[]>} what failed
 */
async function attempt(files, name) {
  const failed = [];
  let ran = 0;
  const tests = run({ files, concurrency: 1, timeout: FILE_MS, testNamePatterns: name && [name] });
  tests.on("test:pass", ({ nesting, skip }) => {
    ran += nesting === 0 && skip === undefined ? 1 : 0;
  });
  tests.on("test:fail", ({ nesting, name, file, details }) => {
    // One inside another fails the other, too.
    if (nesting === 0) {
      const { error } = details;
      failed.push({ file: file ?? name, name, text: String(error.cause?.stack ?? error.message) });
    }
  });
  const printed = tests.compose(tap);
  printed.pipe(process.stdout, { end: false });
  await finished(printed);
  if (ran === 0 && failed.length === 0) {
    failed.push({ file: files[0], name: files[0], text: "no test was run" });
  }
  for (const { file, name, text } of failed) {
    console.log(`# failed: ${basename(file)}: ${name}: ${text.split("\n")[0]}`);
  }
  return failed;
}

/** @param {string} name */
function exactly(name) {
  return new RegExp(`^${name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}$`);
}

/** Keeps how a test failed that passed at its second try: its name, then what it said. */
function keep({ file, name, text }, number) {
  console.log(`# passed at the second try: ${basename(file)}: ${name}`);
  const folder = process.env.ENCKE_SECOND_TRIES;
  if (folder) {
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, `${number + 1}.txt`), `${basename(file)} ${name}\n\n${text}\n`);
  }
}
