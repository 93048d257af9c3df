/** The cases that all clients have in common (`clients/cases`), and a server that plays them. */

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import type { ServerResponse } from "node:http";
import { type TestContext, test } from "node:test";
import { type Handler, message } from "./server.js";

const FOLDER = new URL("../../cases/", import.meta.url);

/** Long enough for a busy machine; only a test that fails waits for it. */
const DEADLINE_MS = 60_000;

/** What the server says to one request; as `clients/cases/README.md` has it. */
export interface Answer {
  status?: number;
  head?: Record<string, string>;
  next?: string;
  gap?: boolean;
  stream?: string[];
  problem?: object;
  type?: string;
  body?: string;
  end?: "good";
}

/** The files of cases. */
export function subjects(): string[] {
  const files = readdirSync(FOLDER).filter((name) => name.endsWith(".json"));
  return files.map((name) => name.slice(0, -5));
}

/** Runs each case of a file as a test of its name; `members` are all that it may have. */
export function eachCase<Case>(
  subject: string,
  members: readonly (keyof Case & string)[],
  run: (t: TestContext, one: Case) => void | Promise<void>,
): void {
  const all: { name: string }[] = JSON.parse(
    readFileSync(new URL(`${subject}.json`, FOLDER), "utf8"),
  );
  for (const { name, ...one } of all) {
    test(`${subject}: ${name}`, { timeout: DEADLINE_MS }, async (t) => {
      // A member that nobody reads would be a promise that nobody keeps.
      const unknown = Object.keys(one).filter((key) => !members.includes(key as never));
      assert.deepEqual(unknown, []);
      await run(t, one as Case);
    });
  }
}

/** An item of a stream as Server-Sent Events. */
function sse(item: string): string {
  if (item === "keep-alive") {
    return ":\n";
  }
  if (item.startsWith("gap")) {
    const id = item.slice("gap to ".length);
    return `event: gap\n${id && `id: ${id}\n`}data: {}\n\n`;
  }
  if (item.startsWith("{")) {
    return `data: ${item}\n\n`;
  }
  return item.startsWith("half ") ? message(item.slice(5)).slice(0, -5) : message(item);
}

/** Gives one answer after the other; the last stream stays open for as long as the client does. */
export function play(answers: Answer[]): Handler {
  let count = 0;
  return (response) => {
    const answer = answers[count++];
    if (!answer) {
      // It is counted, and the test fails by that.
      response.destroy();
    } else {
      write(response, answer, count === answers.length);
    }
  };
}

function write(response: ServerResponse, answer: Answer, isLast: boolean): void {
  const { status = 200, head, next, gap, stream, problem, end } = answer;
  const type = stream ? "text/event-stream" : problem ? "application/problem+json" : answer.type!;
  response.writeHead(status, {
    "content-type": type,
    ...head,
    ...(next && { "encke-next": next }),
    ...(gap && { "encke-gap": "true" }),
  });
  if (!stream) {
    response.end(problem ? JSON.stringify(problem) : answer.body);
    return;
  }
  // Cut only when all is written.
  response.write(stream.map(sse).join(""), () => {
    if (end === "good") {
      response.end();
    } else if (!isLast) {
      response.destroy();
    }
  });
}

/** A wait that takes no time: how long each was meant to be, with chance at one half. */
export function recordWaits(t: TestContext): { waits: number[]; isNext: () => void } {
  const waits: number[] = [];
  let isNext = false;
  const real = setTimeout;
  t.mock.method(Math, "random", () => 0.5);
  t.mock.method(globalThis, "setTimeout", (act: () => void, ms = 0) => {
    if (!isNext) {
      return real(act, ms);
    }
    isNext = false;
    waits.push(ms);
    return real(act, 0);
  });
  return { waits, isNext: () => void (isNext = true) };
}

