/** Tokens, by the real server: shown, renewed before they end without loss, and refused. */

import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { after, before, test, type TestContext } from "node:test";
import type { TransportName } from "../src/index.js";
import { triedAgain } from "./attempts.js";
import { openContext, openPage } from "./browser.js";
import { type Client, openClient, PLACES } from "./client.js";
import { Front } from "./front.js";
import { startDemo } from "./program.js";
import { Encke, until } from "./server.js";
import { Secret } from "./sign.js";
import { atEnd } from "./ends.js";

const TRANSPORTS: TransportName[] = ["websocket", "sse", "poll"];

/** What Chromium says by itself of requests that fail. */
const FAILED = /Failed to load resource|WebSocket connection to/;

let secret: Secret;

before(async () => {
  secret = await Secret.make();
});

after(() => secret.remove());

/** A token for `sub`, as an application signs it. */
function sign(sub: string, seconds: number): string {
  const now = Math.floor(Date.now() / 1000);
  // One that is over was good once.
  return secret.sign({ sub, iat: Math.min(now, now + 2 * seconds), exp: now + seconds });
}

/** An application that gives `bob` his tokens, which last so many seconds, and counts them. */
async function application(test: TestContext, seconds: number) {
  const given: string[] = [];
  const server = createServer((_, answer) => {
    given.push(sign("bob", seconds));
    answer.writeHead(200, { "access-control-allow-origin": "*" });
    answer.end(given.at(-1));
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  atEnd(test, () => void server.close());
  return { given, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/` };
}

/** A guarded server of another origin than its pages. */
async function open(t: TestContext, ...options: string[]) {
  const pages = await Front.start(t);
  const key = `--token-key=${secret.file}`;
  const server = await Encke.start(t, key, `--allow-origin=${pages.origin}`, ...options);
  return { pages, server, way: await Front.start(t, server) };
}

for (const place of PLACES) {
  // In Node the same program asks a scripted server (test/tokens.test.ts), but for polls.
  for (const transport of place === "page" ? TRANSPORTS : (["poll"] as const)) {
    test(`${transport} in a ${place} goes on with token after token`, async (t) => {
      const { pages, server, way } = await open(t, "--token-leeway=0");
      // Where the machine stands still one may come when the last is over: then they last for longer,
      // and that is told. How long they last is by the clock, for the server as for its clients.
      let client: Client | undefined;
      for (const seconds of [3, 12, 48]) {
        const { given, url } = await application(t, seconds);
        const hosts = [new URL(way.origin).host, new URL(url).host];
        await client?.close();
        way.asked.length = 0;
        client = await openClient(t, place, pages.origin, { hosts, console: FAILED });
        await client.listen({ ids: "bob", transports: [transport], tokenUrl: url }, way.origin);
        await client.turned("open", transport);
        let sent = 0;
        while (given.length < 3) {
          await server.send("bob", sent++);
          await new Promise((resolve) => setTimeout(resolve, 10));
        }
        const numbers = Array.from({ length: sent }, (_, n) => n);
        assert.deepEqual(await client.heard(sent), numbers, "each once, in order");
        const told = await client.told();
        assert.equal(told.gaps, 0);
        if (!told.states.some((state) => state.startsWith("waiting"))) {
          assert.deepEqual(told.errors, []);
          break;
        }
        assert.ok(seconds < 48, told.states.join());
        triedAgain(t, `a token of ${seconds} s was over before the next one came`);
      }
      assert.ok(client);
      if (transport === "websocket") {
        assert.equal(way.asked.length, 1, "it was opened once");
        assert.ok(await client.login("bob"));
        assert.equal(await client.login("alice"), false, "which no token of bob's grants");
      }
      assert.ok(!way.asked.some((line) => line.includes("token")), "never in an address");
    });
  }

  test(`stream whose token is revoked comes back with another one in a ${place}`, async (t) => {
    const { pages, server, way } = await open(t);
    const { given, url } = await application(t, 600);
    const hosts = [new URL(way.origin).host, new URL(url).host];
    const client = await openClient(t, place, pages.origin, { hosts, console: FAILED });
    await client.listen({ ids: "bob", tokenUrl: url }, way.origin);
    await client.turned("open", "websocket");
    await server.send("bob", 1);
    const second = Math.floor(Date.now() / 1000);
    await until("the next token is of another second", async () => Date.now() / 1000 > second + 1);
    await server.call("/tokens/revoke", { sub: "bob", before: second + 1 });
    await server.send("bob", 2);
    assert.deepEqual(await client.heard(2), [1, 2]);
    assert.equal(given.length, 2);
    assert.equal((await client.told()).gaps, 0);
  });

  test(`tokens that are refused end the connection of a ${place} with the reason`, async (t) => {
    const { pages, way } = await open(t);
    const { given, url } = await application(t, -60);
    const hosts = [new URL(way.origin).host, new URL(url).host];
    const client = await openClient(t, place, pages.origin, { hosts, console: FAILED });
    await client.listen({ ids: "bob", tokenUrl: url }, way.origin);
    await client.turned("closed");
    const { errors } = await client.told();
    assert.deepEqual(errors, ["Unauthorized: The token is refused: it has expired: get a new one."]);
    assert.equal(given.length, 3);
  });
}

test("dashboard hears its figures, and sends, where streams ask for tokens", async (t) => {
  const { server } = await open(t);
  const page = await openPage(t, await openContext(t), `http://${server.api}/`, {
    hosts: [server.listen],
    console: FAILED,
  });
  await page.locator('#state[data-state="live"]').waitFor();
  await page.getByLabel("About").fill("alice");
  await page.getByRole("button", { name: "Send", exact: true }).click();
  const status = page.locator("#send-status");
  await status.filter({ hasText: /^Delivered to 0 connections, .* hears nothing of it: / }).waitFor();
});

test("demo page hears the users of a demo whose streams ask for tokens", async (t) => {
  const key = `--token-key=${secret.file}`;
  const { url, api } = await startDemo(t, "--users=300", "--rate=600", key);
  const page = await openPage(t, await openContext(t), url, { hosts: [api] });
  await page.locator("#state-words", { hasText: "live over" }).waitFor();
  await page.waitForFunction(() => document.querySelectorAll("#feed .listens").length > 4);
});
