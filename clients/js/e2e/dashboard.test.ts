/** The dashboard at the API port, as somebody with a mouse, a keyboard or a telephone sees it. */

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import type { Page, WebSocketRoute } from "playwright-core";
import {
  countBytes,
  type Expected,
  openContext,
  openPage,
  PAGE_BYTES_MAX,
  tabTo,
} from "./browser.js";
import { atEnd } from "./ends.js";
import { Encke, until } from "./server.js";
import { Secret } from "./sign.js";

/** Opens the dashboard of `server`, and waits for its first live figures. */
async function dashboard(
  t: TestContext,
  server: Encke,
  more: Expected = {},
  context = openContext(t),
): Promise<Page> {
  const expected = { hosts: [server.listen], ...more };
  const page = await openPage(t, await context, `http://${server.api}/`, expected);
  await state(page, "live");
  return page;
}

async function state(page: Page, state: string): Promise<void> {
  await page.locator(`#state[data-state="${state}"]`).waitFor();
}

/** Waits until the text of `selector` matches. */
async function says(page: Page, selector: string, text: RegExp): Promise<void> {
  await page.locator(selector).filter({ hasText: text }).first().waitFor();
}

async function names(page: Page, list: string): Promise<string[]> {
  return page.locator(`${list} a`).allTextContents();
}

test("charts get points, the table says the same, and little is transferred", async (t) => {
  const server = await Encke.start(t);
  const context = openContext(t);
  const bytes = countBytes(await context);
  const page = await dashboard(t, server, {}, context);
  assert.equal(await page.locator(".plot canvas:visible").count(), 3, "what is zero is folded");
  await page.locator("#figures-details summary").click();
  await page.locator("#figures-table tbody tr:nth-child(4)").waitFor();
  const cells = await page.locator("#figures-table tbody tr:first-child td").allTextContents();
  assert.equal(cells[0], "0", "the page does not count itself");
  const stream = await fetch(`http://${server.listen}/stream/nobody`);
  t.after(() => stream.body?.cancel().catch(() => {}));
  await server.send("nobody", 1);
  await says(page, "#charts article:nth-child(2) .figure", /^1$/);
  await says(page, "#charts article:nth-child(1) .figure", /^1$/);
  assert.equal(await page.locator(".plot canvas:visible").count(), 7);
  await page.setViewportSize({ width: 1280, height: 900 });
  await filled(page);
  const loaded = await bytes();
  assert.ok(loaded > 10_000 && loaded < PAGE_BYTES_MAX, `${loaded} bytes`);
  t.diagnostic(`the dashboard loads ${loaded} bytes`);
  assert.equal(await page.locator("#workers-table tbody tr").count(), 2);
});

/** Waits until each row of charts is as wide as the others: no place of the grid is empty. */
async function filled(page: Page): Promise<void> {
  await page.waitForFunction(() => {
    const charts = [...document.querySelectorAll<HTMLElement>("#charts article:not([hidden])")];
    const right = new Map<number, number>();
    for (const chart of charts) {
      const { top, right: edge } = chart.getBoundingClientRect();
      right.set(top, Math.max(edge, right.get(top) ?? 0));
    }
    const edges = [...right.values()];
    return edges.length > 1 && edges.every((edge) => Math.abs(edge - (edges[0] ?? 0)) < 2);
  });
}

test("a room's members are listed, and what clients send has a chart", async (t) => {
  const secret = await Secret.make();
  atEnd(t, () => secret.remove());
  const server = await Encke.start(t, `--token-key=${secret.file}`);
  const encke = { ids: ["room:7"], send: ["room:7"], info: { name: "Ann" } };
  const token = secret.sign({ sub: "ann", exp: 4102444800, encke });
  const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json" };
  const stream = await fetch(`http://${server.listen}/stream/room:7`, { headers });
  t.after(() => stream.body?.cancel().catch(() => {}));
  const page = await dashboard(t, server);
  const sent = await fetch(`http://${server.listen}/send`, {
    method: "POST",
    headers,
    body: '{"about":"room:7","data":1}',
  });
  assert.equal(sent.status, 200);
  await page.getByRole("heading", { name: "Sent by clients a second" }).waitFor();
  await page.getByLabel("Id", { exact: true }).fill("room:7");
  await page.keyboard.press("Enter");
  await says(page, "#lookup-name", /^room:7$/);
  await says(page, "#members-title", /^Members \(1\)$/);
  assert.deepEqual(await names(page, "#members-list"), ["ann"]);
  await page.locator("#members-list a").click();
  await says(page, "#lookup-name", /^ann$/);
  await page.locator("#members").waitFor({ state: "hidden" });
});

test("charts survive a reload, and a page that comes late sees what was before it", async (t) => {
  const server = await Encke.start(t);
  await until("the server has a past", async () => {
    return (await server.call("/dashboard.json")).past.uptime_seconds.length > 5;
  });
  const page = await dashboard(t, server);
  await page.locator("#figures-details summary").click();
  const rows = page.locator("#figures-table tbody tr");
  await rows.nth(5).waitFor();
  const first = (await page.locator("#figures-table tbody tr:first-child th").textContent())!;
  await page.reload();
  await state(page, "live");
  await page.locator("#figures-details summary").click();
  await page.locator("#figures-table tbody th", { hasText: first }).first().waitFor();
});

test("an id is looked up, and the graph around it walked", async (t) => {
  const server = await Encke.start(t);
  await server.subscribe("bob", "alice");
  await server.subscribe("<b>carol", "alice");
  await server.subscribe("alice", "dave");
  // The browser's own word of the look-up that is refused.
  const page = await dashboard(t, server, { console: /status of 400/ });
  await page.getByLabel("Id", { exact: true }).fill("alice");
  await page.getByRole("button", { name: "Look up" }).click();
  await says(page, "#lookup-name", /^alice$/);
  assert.deepEqual((await names(page, "#followers")).sort(), ["<b>carol", "bob"]);
  assert.deepEqual(await names(page, "#follows"), ["dave"]);
  await says(page, "#lookup-online", /^Offline/);
  await page.locator("#followers a", { hasText: "carol" }).click();
  await says(page, "#lookup-name", /^<b>carol$/);
  assert.equal(await page.locator("#people b").count(), 0, "an id is text");
  assert.deepEqual(await names(page, "#follows"), ["alice"]);
  await page.goBack();
  await says(page, "#lookup-name", /^alice$/);
  await page.getByLabel("Id", { exact: true }).fill("not/an/id");
  await page.keyboard.press("Enter");
  await says(page, "#lookup-error", /./);
});

test("a long list comes in pages", async (t) => {
  const server = await Encke.start(t);
  const fans = Array.from({ length: 60 }, (_, at) => ({ subscriber: at, subscribee: "star" }));
  await server.call("/subscriptions/add", fans);
  const page = await dashboard(t, server);
  await page.getByLabel("Id", { exact: true }).fill("star");
  await page.keyboard.press("Enter");
  await says(page, "#lookup-name", /^star$/);
  const more = page.getByRole("button", { name: "More followers" });
  while (await more.isVisible()) {
    const before = (await names(page, "#followers")).length;
    await more.click();
    await page.locator(`#followers li:nth-child(${before + 1})`).waitFor();
  }
  assert.deepEqual(await names(page, "#followers"), fans.map((fan) => String(fan.subscriber)));
});

test("an event is sent and seen to arrive", async (t) => {
  const server = await Encke.start(t);
  const page = await dashboard(t, server);
  await page.getByLabel("About").fill("alice");
  await page.getByLabel(/^Data/).fill("<i>hello</i>");
  await page.getByRole("button", { name: "Send", exact: true }).click();
  await says(page, "#arrivals .took", /ms$/);
  await says(page, "#send-status", /^Delivered to 1 connection, this page, .* Here after .*ms\.$/);
  const status = (await page.locator("#send-status").textContent())!;
  assert.match(status, /\d\u202fms\. Here after [\d.]+\u202fms\.$/, "no line begins with a unit");
  await says(page, "#arrivals code", /^"<i>hello<\/i>"$/);
  await server.send("alice", { from: "outside" });
  await says(page, "#others", /1 event of others, the last \{"from":"outside"\}/);
});

test("the machine's limits are shown for a number of users", async (t) => {
  const server = await Encke.start(t);
  const page = await dashboard(t, server);
  await page.locator("#machine summary").click();
  await says(page, "#tune-sum", /^10,000 users .*fit/);
  assert.ok((await page.locator("#tune-table tbody tr").count()) > 5);
  await page.getByLabel("Users").fill("1000");
  await page.keyboard.press("Enter");
  await says(page, "#tune-sum", /^1,000 users fit/);
  await page.getByLabel("their clients are here, too").check();
  await says(page, "#tune-sum", /^1,000 users with their clients fit/);
});

test("everything can be done with the keyboard", async (t) => {
  const server = await Encke.start(t);
  await server.subscribe("bob", "alice");
  const page = await dashboard(t, server);
  await tabTo(page, ".skip");
  await page.keyboard.press("Enter");
  await tabTo(page, "#lookup-id");
  await page.keyboard.type("alice");
  await page.keyboard.press("Enter");
  await says(page, "#lookup-name", /^alice$/);
  await tabTo(page, "#followers a");
  await page.keyboard.press("Enter");
  await says(page, "#lookup-name:focus", /^bob$/);
  await tabTo(page, "#send-about");
  await page.keyboard.type("bob");
  await tabTo(page, "#send-form button");
  await page.keyboard.press("Enter");
  await says(page, "#arrivals .took", /ms$/);
  await tabTo(page, "#machine summary");
  await page.keyboard.press("Enter");
  await tabTo(page, "#tune-users");
});

test("a telephone shows the names of parts, and a link opens one", async (t) => {
  const server = await Encke.start(t);
  const stream = await fetch(`http://${server.listen}/stream/alice`);
  t.after(() => stream.body?.cancel().catch(() => {}));
  const context = openContext(t, { viewport: { width: 390, height: 844 } });
  const page = await dashboard(t, server, {}, context);
  await page.locator("#welcome").waitFor({ state: "hidden" });
  assert.equal(await page.locator("#workers-table").isVisible(), false);
  const screens = await page.evaluate(() => document.documentElement.scrollHeight / innerHeight);
  assert.ok(screens < 4, `${screens} screens`);
  await page.locator('nav a[href="#workers"]').click();
  await page.locator("#workers-table tbody tr").first().waitFor();
});

test("every control has a name, and headings go down one by one", async (t) => {
  const server = await Encke.start(t);
  const page = await dashboard(t, server);
  const nameless = await page.evaluate(() => {
    const controls = [...document.querySelectorAll<HTMLElement>("input, textarea, button, a")];
    return controls
      .filter((one) => !one.textContent?.trim() && !(one as HTMLInputElement).labels?.length)
      .map((one) => one.outerHTML);
  });
  assert.deepEqual(nameless, []);
  const levels = await page.evaluate(() =>
    [...document.querySelectorAll("h1, h2, h3, h4")].map(({ tagName }) => Number(tagName[1])),
  );
  levels.reduce((before, level) => {
    assert.ok(level <= before + 1, levels.join(" "));
    return level;
  });
  for (const region of await page.locator("section").all()) {
    const label = await region.getAttribute("aria-labelledby");
    assert.ok(label ?? (await region.getAttribute("aria-label")));
  }
});

test("a telephone needs no scrolling sideways, and the dark is dark", async (t) => {
  const server = await Encke.start(t);
  const page = await dashboard(t, server);
  await page.setViewportSize({ width: 390, height: 844 });
  const width = await page.evaluate(() => document.documentElement.scrollWidth);
  assert.equal(width, 390);
  const paper = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  await page.emulateMedia({ colorScheme: "light" });
  const light = await paper();
  await page.emulateMedia({ colorScheme: "dark" });
  assert.notEqual(await paper(), light);
});

test("the page says when the server is gone, and goes on when it is back", async (t) => {
  const server = await Encke.start(t);
  // What the browser itself says of connections that break.
  const page = await dashboard(t, server, { console: /net::ERR_/ });
  await server.kill();
  await state(page, "lost");
  await says(page, "#state", /Trying again/);
  // What is shown is of before, and says so.
  await says(page, "#figures-title", /^Figures as of \d+\ss ago, \d\d:\d\d:\d\d$/);
  await page.locator("body[data-stale]").waitFor();
  // A machine that sleeps holds the page's own time, not the clock.
  await page.evaluate(() => {
    const now = Date.now;
    Date.now = () => now() + 3 * 3_600_000;
  });
  await says(page, "#figures-title", /^Figures as of 3\sh ago/);
  // It says so for a moment only, so it is looked at meanwhile.
  const restarted = says(page, "#state", /restarted/);
  await server.start(server.listen, server.api);
  await state(page, "live");
  await restarted;
  await says(page, "#figures-title", /^Figures$/);
  assert.equal(await page.locator("body[data-stale]").count(), 0);
  // That is worth a word for a while.
  await says(page, "#state", /^Live$/);
});

test("a lost network leaves no hole in the charts", async (t) => {
  const server = await Encke.start(t);
  const context = openContext(t);
  const lines: WebSocketRoute[] = [];
  let isCut = false;
  await (await context).routeWebSocket(/\/stream\//, (line) => {
    if (isCut) {
      void line.close({ code: 4000 });
      return;
    }
    line.connectToServer();
    lines.push(line);
  });
  // Other transports are cut as well.
  await (await context).route(/\/(stream|poll)\//, (route) =>
    isCut ? route.abort() : route.continue(),
  );
  const page = await dashboard(t, server, { console: /net::ERR_/ }, context);
  await page.locator("#figures-details summary").click();
  const second = async () => (await server.call("/dashboard.json")).now.uptime_seconds as number;
  isCut = true;
  await Promise.all(lines.map((line) => line.close({ code: 4000 })));
  await state(page, "lost");
  const cutAt = await second();
  await until("some seconds have passed", async () => (await second()) > cutAt + 5);
  const cutSeconds = (await second()) - cutAt;
  isCut = false;
  await state(page, "live");
  const rows = page.locator("#figures-table tbody tr");
  await rows.nth(4).waitFor();
  const times = await rows.evaluateAll((rows) => rows.map((row) => row.firstElementChild?.textContent));
  const seconds = times.map((time) => time!.split(":").reduce((sum, part) => 60 * sum + Number(part), 0));
  const steps = seconds.slice(1).map((second, at) => seconds[at] - second);
  // A row a second, which a busy machine may pass over, as the server itself then does; a hole is as
  // long as the network was lost.
  const own: number[] = (await server.call("/dashboard.json")).past.uptime_seconds;
  const stood = Math.max(...own.slice(1).map((second, at) => second - own[at]));
  const most = Math.max(cutSeconds / 2, stood + 1);
  assert.ok(steps.every((step) => step <= most), `${cutSeconds} s without: ${times}`);
});

test("who has logged in by a key logs out again, and no page of others can do it", async (t) => {
  const server = await Encke.start(t);
  const open = await dashboard(t, server);
  assert.equal(await open.getByRole("button", { name: "Log out" }).count(), 0, "no key is needed");
  const key = await server.newKey("read,send,graph");
  await open.close();
  const context = await openContext(t);
  const page = await openPage(t, context, `http://${server.api}/`, { hosts: [server.listen] });
  assert.match(page.url(), /\/session$/);
  await page.getByLabel("Key").fill(key);
  await page.getByRole("button", { name: "Log in" }).click();
  await state(page, "live");
  for (const command of ["#welcome-send", "#welcome-follow"]) {
    await says(page, command, /^curl .* -H 'Authorization: Bearer KEY'$/);
  }
  // With the cookies of the browser: the page to log in on may itself ask for nothing.
  const status = async (path: string) =>
    (await context.request.get(`http://${server.api}${path}`)).status();
  assert.equal(await status("/stats"), 200);
  const [cookie] = await context.cookies();
  assert.ok(cookie?.httpOnly && cookie.sameSite === "Strict");
  // As a page of another port would: the browser takes it for the same site and sends the cookie.
  const foreign = await fetch(`http://${server.api}/session/end`, {
    method: "POST",
    headers: { cookie: `${cookie.name}=${cookie.value}`, origin: `http://${server.listen}` },
    redirect: "manual",
  });
  assert.equal(foreign.status, 403);
  assert.equal(await status("/stats"), 200);
  await page.getByRole("button", { name: "Log out" }).click();
  await page.waitForURL(/\/session$/);
  assert.equal(await status("/stats"), 401);
  assert.deepEqual(await context.cookies(), []);
  // Nor is the cookie of any use to who has kept it.
  const kept = { cookie: `${cookie.name}=${cookie.value}` };
  assert.equal((await fetch(`http://${server.api}/stats`, { headers: kept })).status, 401);
});
