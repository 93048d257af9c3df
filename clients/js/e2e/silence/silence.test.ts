/**
 * A network that drops everything without a word for 90 s, with the defaults of both ends: each
 * transport notices it within 38 s, and hears all of it afterwards, once and in order.
 *
 * It takes two minutes and waits for most of them, so it runs beside the others: `npm run silence`.
 */

import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test, type TestContext } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { atEnd } from "../ends.js";
import { FILES } from "../front.js";
import { PROGRAM } from "../program.js";
import { Network, SERVER } from "./network.js";

const CUT_MS = 90_000;
const NOTICED_MS = 38_000;
const RETRY_MAX_MS = 30_000;

/** Who listens, each by the transport of its name. */
const LISTENERS = ["websocket", "sse", "poll", "small"];

/** Each follows all of them, so what comes is merged; each has fewer than its history holds. */
const SUBJECTS = ["ann", "rj", "photo:789", "7"];

/** Between two events. */
const PACE_MS = 500;

/** One thing that a listener told. */
interface Told {
  id: string;
  what: string;
  value?: unknown;
  at: number;
}

/** The server in its own host: calls of its API go there too. */
async function serve(t: TestContext, { server }: Network) {
  const data = await mkdtemp(join(tmpdir(), "encke-silence-"));
  atEnd(t, () => rm(data, { recursive: true, force: true }));
  const options = [`--listen=${SERVER}:0`, "--api=127.0.0.1:0", "--open", "--json", "--data", data];
  const child = server.spawn(t, [PROGRAM, "serve", ...options], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const [line] = await once(createInterface(child.stdout!), "line");
  const { listen, api } = JSON.parse(line);
  const json = ["-sS", "--fail-with-body", "-H", "content-type: application/json"];
  const call = (path: string, body: unknown) =>
    server.run("curl", ...json, "-d", JSON.stringify(body), `http://${api}${path}`);
  return { url: `http://${listen}`, call };
}

/** What all listeners have told so far, and a wait for more of it. */
function listen(t: TestContext, { client }: Network, url: string) {
  const told: Told[] = [];
  const program = join(FILES, "e2e/silence/listeners.js");
  const command = [process.execPath, program, url, ...LISTENERS];
  const child = client.spawn(t, command, { stdio: ["ignore", "pipe", "inherit"], cwd: FILES });
  const lines = createInterface(child.stdout!);
  lines.on("line", (line) => told.push(JSON.parse(line)));
  const until = async (what: string, ms: number, is: (told: Told[]) => boolean) => {
    const deadline = AbortSignal.timeout(ms);
    while (!LISTENERS.every((name) => is(told.filter(({ id }) => id === name)))) {
      await once(lines, "line", { signal: deadline }).catch(() => {
        throw new Error(`not in time: ${what}: ${JSON.stringify(told.slice(-20))}`);
      });
    }
  };
  return { told, until };
}

test("network that is silent for 90 s is noticed within 38 s, and nothing is lost", async (t) => {
  let network: Network;
  try {
    network = await Network.make(t);
  } catch (error) {
    assert.ok(!process.env.CI, `network namespaces cannot be made: ${error}`);
    return t.skip(`network namespaces cannot be made here, as root they can: ${error}`);
  }
  const { url, call } = await serve(t, network);
  const pairs = LISTENERS.flatMap((subscriber) =>
    SUBJECTS.map((subscribee) => ({ subscriber, subscribee })),
  );
  await call("/subscriptions/add", pairs);
  const { told, until } = listen(t, network, url);
  await until("all are open", 60_000, (told) => told.some(({ what }) => what === "open"));

  let sent = 0;
  const send = async () => {
    await call("/send", { about: SUBJECTS[sent % SUBJECTS.length], data: sent });
    sent++;
  };
  // By how much a pause of ours was longer than it should be, at most: how busy the machine is.
  let lateMs = 0;
  const sendUntil = async (at: number) => {
    while (Date.now() < at) {
      await send();
      const pausedAt = Date.now();
      await sleep(PACE_MS);
      lateMs = Math.max(lateMs, Date.now() - pausedAt - PACE_MS);
    }
  };
  await sendUntil(Date.now() + 2000);
  const heard = (count: number) => (told: Told[]) =>
    told.filter(({ what }) => what === "event").length >= count;
  await until("all hear", 60_000, heard(sent));

  await network.cut();
  const cutAt = Date.now();
  await sendUntil(cutAt + CUT_MS);
  await network.mend();
  const mendedAt = Date.now();
  await send();
  // An attempt may have begun just before, and the longest wait may follow. What a WebSocket missed
  // comes before the answer to its ping, by which it is open.
  const hearsAll = heard(sent);
  await until("all have come back", 6 * RETRY_MAX_MS, (told) => {
    const state = told.findLast(({ what }) => what !== "event");
    return hearsAll(told) && state?.what === "open";
  });

  const states = told.filter(({ what }) => what !== "event");
  t.diagnostic(states.map(({ id, what, at }) => `${id} ${what} ${at - cutAt}`).join(", "));
  for (const name of LISTENERS) {
    const own = told.filter(({ id }) => id === name);
    const events = own.filter(({ what }) => what === "event").map(({ value }) => value);
    assert.deepEqual(events, Array.from({ length: sent }, (_, n) => n), `${name} hears all once`);
    const others = own.filter(({ what }) => ["gap", "error", "closed"].includes(what));
    assert.deepEqual(others, [], `${name} is told of no gap and no error`);
    const noticed = own.find(({ what, at }) => what === "waiting" && at >= cutAt);
    assert.ok(noticed, `${name} notices`);
    const noticedMs = noticed.at - cutAt;
    const back = own.find(({ what, at }) => what === "open" && at > noticed.at)!;
    t.diagnostic(
      `${name}: noticed after ${noticedMs} ms (${noticed.value}), back ` +
        `${back.at - mendedAt} ms after the end, ${events.length} of ${sent} events`,
    );
    const noticedMax = NOTICED_MS + 10 * lateMs;
    assert.ok(noticedMs <= noticedMax, `${name} notices after ${noticedMs} ms of ${noticedMax}`);
  }
});
