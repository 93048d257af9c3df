/**
 * `examples/job`: what a job prints, or a model says, is whole in a page with a bare `EventSource`,
 * over a reload, a kill and an upgrade in the middle of it, and the page knows when it has ended.
 * A user who follows the job hears the same.
 */

import assert from "node:assert/strict";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import type { Page } from "playwright-core";
import { openContext, openPage } from "./browser.js";
import { files } from "./files.js";
import { Gate } from "./gate.js";
import { look } from "./look.js";
import { Program, root } from "./program.js";
import { Encke } from "./server.js";

const LINES = 150;

/** A job that prints its lines. */
const JOB = `
for n in range(${LINES}):
    print(f"line {n}.", flush=True)
`;

const LOG = `${Array.from({ length: LINES }, (_, n) => `line ${n}.\n`).join("")}The exit code is 0.\n`;

const QUESTION = Array.from({ length: LINES }, (_, n) => `w${n}.`).join(" ");

const ANSWER = `You asked: ${QUESTION} \n\nThis answer comes word by word – and it stays.\n`;

/** Runs a program of the example with a reload, a second tab, a kill and an upgrade in the middle. */
async function run(t: TestContext, program: string[], says: (n: number) => string, text: string) {
  const origin = await files(t);
  const events = ["--streams-events=job:*", "--streams-events=answer:*", "--keep=*=1h"];
  const server = await Encke.start(t, "--streams", ...events, `--allow-origin=${origin}`);
  const gate = await Gate.make(t, server);
  gate.pass(1);
  const page = `${origin}/examples/job/index.html`;
  const env = { ENCKE_API: gate.url, PAGE: page };
  const [file, ...rest] = program;
  const path = join(root(), "examples/job", file!);
  const job = await Program.startIn(env, "python3", t, "job=", path, ...rest);
  const query = new URLSearchParams({ server: `http://${server.listen}`, job: job.told("job=") });
  // The line that breaks.
  const expected = { hosts: [server.listen], console: /net::ERR/ };
  const context = await openContext(t);
  const first = await openPage(t, context, `${page}?${query}`, expected);
  const shows = (page: Page, n: number) => page.locator("#log", { hasText: says(n) }).waitFor();
  gate.pass(30);
  await shows(first, 20);
  await first.reload();
  const second = await openPage(t, context, `${page}?${query}`, expected);
  gate.pass(30);
  await shows(first, 50);
  await server.kill();
  await server.start(server.listen, server.api);
  gate.pass(30);
  await shows(first, 80);
  await server.upgrade();
  gate.pass(Infinity);
  const isWhole = async (page: Page) => {
    await page.getByText("The job has ended.").waitFor();
    assert.equal(await page.textContent("#log"), text);
  };
  await isWhole(first);
  await isWhole(second);
  // Who comes when all is over has it too.
  await first.reload();
  await isWhole(first);
  // Who follows the job has heard all of it, too, with all else on one stream.
  await server.subscribe("alice", job.told("job="));
  assert.equal(await heard(`http://${server.listen}/stream/alice?after=earliest`), text);
  return first;
}

test("a job's log is whole over a reload, kill -9 and an upgrade, and it ends", async (t) => {
  const command = ["job.py", "python3", "-c", JOB];
  await look(await run(t, command, (n) => `line ${n}.`, LOG), "job");
});

test("a model's answer from Python is whole over the same, and it ends", async (t) => {
  await look(await run(t, ["answer.py", QUESTION], (n) => `w${n}.`, ANSWER), "answer");
});

/** The texts of the events of a stream, up to the one that closes. */
async function heard(url: string): Promise<string> {
  const ends = new AbortController();
  const headers = { accept: "application/x-ndjson" };
  const { body } = await fetch(url, { headers, signal: ends.signal });
  const reader = body!.pipeThrough(new TextDecoderStream()).getReader();
  let [text, rest] = ["", ""];
  for (let read = await reader.read(); !read.done; read = await reader.read()) {
    const lines = (rest + read.value).split("\n");
    rest = lines.pop()!;
    for (const line of lines.filter((line) => line)) {
      const { event, data } = JSON.parse(line);
      // A close may have none.
      text += data.text ?? "";
      if (event === "close") {
        ends.abort();
        return text;
      }
    }
  }
  throw new Error(`it ended after ${text}`);
}
