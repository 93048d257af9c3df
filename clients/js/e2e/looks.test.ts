/**
 * How the server's pages look: light and dark, on a telephone and on a desk, calm where calm is
 * asked for.
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import { openContext, openPage } from "./browser.js";
import { look } from "./look.js";
import { firstPaint } from "./axe.js";
import { startDemo } from "./program.js";
import { Encke, until } from "./server.js";

test("both pages fit each screen and can be read, light and dark", async (t) => {
  const { url, api } = await startDemo(t, "--users=300", "--rate=60");
  const context = await openContext(t);

  const page = await openPage(t, context, `${url}#3`, { hosts: [api] });
  await page.locator("#feed .listens").nth(5).waitFor();
  await page.fill("#words", "Good evening from Earth");
  await page.press("#words", "Enter");
  await page.locator("#said", { hasText: "Back here after" }).waitFor();
  await page.waitForSelector("#followers .there.online");
  await look(page, "demo");

  const hosts = [new URL(url).host];
  const dashboard = await openPage(t, context, `http://${api}/#id=3`, { hosts });
  await dashboard.locator('#state[data-state="live"]').waitFor();
  await dashboard.fill("#send-about", "3");
  await dashboard.getByRole("button", { name: "Send", exact: true }).click();
  await dashboard.locator("#arrivals .took").first().waitFor();
  await dashboard.locator("#machine summary").click();
  await dashboard.locator("#tune-sum", { hasText: "fit" }).waitFor();
  await dashboard.locator("#figures-details summary").click();
  await dashboard.locator("#figures-table tbody tr").nth(5).waitFor();
  await dashboard.locator("#figures-details summary").click();
  await look(dashboard, "dashboard");
});

test("an empty server, one that is gone and one out of reach look like what they are", async (t) => {
  const server = await Encke.start(t);
  const context = await openContext(t);
  const expected = { hosts: [server.listen], console: /net::ERR_|Failed to load/ };
  const url = `http://${server.api}/`;
  const page = await openPage(t, context, url, expected);
  await page.locator("#welcome-send", { hasText: `curl http://${server.api}/send` }).waitFor();
  await page.locator("#none", { hasText: "No connection, no event" }).waitFor();
  await look(page, "empty");

  // Somebody who can reach one port only.
  const cut = await openContext(t);
  await cut.addInitScript("globalThis.__name = (of) => of");
  await cut.routeWebSocket(/\/stream\//, (line) => void line.close({ code: 4000 }));
  await cut.route(/\/(stream|poll)\//, (route) => route.abort());
  const blind = await openPage(t, cut, url, expected);
  await blind.locator("#reach", { hasText: "--public-url" }).waitFor();
  await blind.locator("#figures-details summary").click();
  // Figures come all the same. Their number may be all that are shown already.
  const newest = () => blind.textContent("#figures-table tbody tr >> nth=0");
  for (let seconds = 0; seconds < 2; seconds++) {
    const before = await newest();
    await until("another second", async () => (await newest()) !== before);
  }
  await blind.locator("#figures-details summary").click();
  assert.match((await blind.locator("#figures-title").textContent())!, /^Figures$/);
  await look(blind, "unreachable");

  await server.send("nobody", 1);
  await page.locator("#welcome").waitFor({ state: "hidden" });
  await server.kill();
  await page.locator("#figures-title", { hasText: /as of \d+\ss ago/ }).waitFor();
  await look(page, "gone");
});

test("both pages show something before anything but their own text has come", async (t) => {
  const { url, api } = await startDemo(t, "--users=300", "--rate=60");
  const hosts = [new URL(url).host, api];
  for (const page of [url, `http://${api}/`]) {
    const context = await openContext(t);
    const held: string[] = [];
    await context.routeWebSocket(/./, () => {});
    await context.route(/./, (route) => {
      const request = route.request();
      if (["document", "stylesheet"].includes(request.resourceType())) {
        return route.continue();
      }
      held.push(request.url());
    });
    const opened = await openPage(t, context, page, { hosts, until: "commit" });
    const ms = await firstPaint(opened);
    t.diagnostic(`${page} showed something after ${ms} ms, without ${held.join(", ")}`);
    assert.ok((await opened.locator("body").innerText()).trim().length > 20);
  }
});

test("who asks for calm sees nothing move in", async (t) => {
  const { url, api } = await startDemo(t, "--users=300", "--rate=60");
  const context = await openContext(t, { reducedMotion: "reduce" });
  const page = await openPage(t, context, `${url}#3`, { hosts: [api] });
  const row = page.locator("#feed .item").first();
  await row.waitFor();
  const animation = await row.evaluate((row) => {
    row.classList.add("fresh", "says");
    return getComputedStyle(row).animationName;
  });
  assert.equal(animation, "none");
});
