/**
 * TLS in Chromium: a page that came by https hears by wss, by a `fetch` that streams, by polls and
 * by `EventSource`, from the server's own port of TLS, of another origin than the page's.
 */

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test, type TestContext } from "node:test";
import type { TransportName } from "../src/index.js";
import { openContext } from "./browser.js";
import { openTab, type Tab } from "./client.js";
import { atEnd } from "./ends.js";
import { FILES } from "./front.js";
import { Encke, until } from "./server.js";

const TRANSPORTS: TransportName[] = ["websocket", "sse", "poll"];

/** What Chromium says by itself of connections that break. */
const BROKEN = /Failed to load resource|WebSocket connection to|EventSource/;

let folder = "";

/** A certificate that has signed itself, for both servers. */
const pair = () => [join(folder, "own.pem"), join(folder, "own.key")];

before(async () => {
  folder = await mkdtemp(join(tmpdir(), "encke-tls-"));
  const [certificate, key] = pair();
  const fixed = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=test";
  const names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"];
  const files = ["-keyout", key, "-out", certificate];
  execFileSync("openssl", [...fixed.split(" "), ...names, ...files], { stdio: "pipe" });
});

after(() => rm(folder, { recursive: true, force: true }));

/** Serves the files of this package by https; returns the origin. */
async function pages(test: TestContext): Promise<string> {
  const [cert, key] = await Promise.all(pair().map((file) => readFile(file)));
  const server = createServer({ cert, key }, async (request, answer) => {
    const path = request.url!.replace(/^\/e2e\//, "");
    const type = path.endsWith(".html") ? "text/html; charset=utf-8" : "text/javascript";
    answer.setHeader("content-type", type).end(await readFile(join(FILES, path)));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  atEnd(test, () => {
    server.closeAllConnections();
    server.close();
  });
  return `https://localhost:${(server.address() as AddressInfo).port}`;
}

/** A server that speaks TLS, and a tab of another origin that it lets in. */
async function open(test: TestContext): Promise<{ server: Encke; tab: Tab; url: string }> {
  const origin = await pages(test);
  const [certificate, key] = pair();
  const tls = ["--tls-listen=127.0.0.1:0", `--tls-cert=${certificate}`, `--tls-key=${key}`];
  const server = await Encke.start(test, ...tls, `--allow-origin=${origin}`);
  const host = server.tlsListen.replace("127.0.0.1", "localhost");
  // The certificate is nobody's; that browsers check those of others is not ours to test.
  const context = openContext(test, { ignoreHTTPSErrors: true });
  const tab = await openTab(test, origin, { console: BROKEN, hosts: [host] }, context);
  return { server, tab, url: `https://${host}` };
}

for (const transport of TRANSPORTS) {
  test(`${transport} hears over TLS, and again after kill -9`, async (t) => {
    const { server, tab, url } = await open(t);
    await tab.listen({ ids: "bob", transports: [transport] }, url);
    const said: unknown[] = [];
    for (let round = 0; round < 3; round++) {
      await tab.turned("open", transport);
      await until("bob is online", async () => (await server.connections("bob")) === 1);
      for (const event of [round, "ä 🚀".repeat(5_000), { round }]) {
        await server.send("bob", event);
        said.push(event);
      }
      assert.deepEqual(await tab.heard(said.length), said);
      await server.kill();
      await tab.turned("waiting");
      await server.start();
      await tab.missed(round + 1);
    }
    const { gaps } = await tab.told();
    assert.equal(gaps, 3, "each restart is told once");
  });
}

test("EventSource hears over TLS, and again after kill -9", async (t) => {
  const { server, tab, url } = await open(t);
  await tab.page.evaluate((url) => {
    const source = new EventSource(`${url}/stream/bob`);
    const heard: unknown[] = [];
    source.onmessage = ({ data }) => heard.push(JSON.parse(data).data);
    Object.assign(window, { heard });
  }, url);
  for (let round = 1; round <= 2; round++) {
    await until("bob is online", async () => (await server.connections("bob")) === 1);
    await server.send("bob", round);
    await tab.page.waitForFunction((round) => (window as any).heard.at(-1) === round, round);
    if (round === 1) {
      await server.kill();
      await server.start();
    }
  }
});
