/**
 * Makes the pictures of the examples' pages anew, into `docs/img` (`npm run pictures`): people in a
 * chat room, and pointers that pages share.
 */

import { join } from "node:path";
import { test, type TestContext } from "node:test";
import type { Page } from "playwright-core";
import { openContext, openPage } from "../browser.js";
import { files } from "../files.js";
import { Program, root } from "../program.js";
import { Encke } from "../server.js";
import { Secret } from "../sign.js";

async function keep(page: Page, name: string): Promise<void> {
  await page.emulateMedia({ colorScheme: "light", reducedMotion: "reduce" });
  await page.screenshot({ path: join(root(), `docs/img/${name}.png`) });
}

async function comeIn(t: TestContext, url: string, name: string, hosts: string[]): Promise<Page> {
  const context = await openContext(t, { viewport: { width: 800, height: 460 } });
  const page = await openPage(t, context, url, { hosts });
  await page.getByLabel("Your name").fill(name);
  await page.getByRole("button", { name: "Come in" }).click();
  await page.locator("#members li", { hasText: `${name} (you)` }).waitFor();
  return page;
}

test("a picture of the chat room", async (t) => {
  const secret = await Secret.make();
  t.after(() => secret.remove());
  const server = await Encke.start(t, `--token-key=${secret.file}`, "--allow-origin=*");
  const env = { SECRET: secret.file, ENCKE_URL: `http://${server.listen}`, PORT: "0" };
  const path = join(root(), "examples/chat/backend.mjs");
  const backend = await Program.startIn(env, process.execPath, t, "http://", path);
  const url = `http://${backend.told("http://")}/`;
  const [ann, bob, eve] = [
    await comeIn(t, url, "ann", [server.listen]),
    await comeIn(t, url, "bob", [server.listen]),
    await comeIn(t, url, "eve", [server.listen]),
  ];
  const talk: [Page, string][] = [
    [ann, "Is the comet up already?"],
    [bob, "Over the roofs in the west, since ten minutes."],
    [ann, "I see it!"],
    [eve, "The tail is longer than yesterday."],
  ];
  for (const [page, text] of talk) {
    await page.getByLabel("Message", { exact: true }).fill(text);
    await page.getByRole("button", { name: "Send" }).click();
    await ann.locator("#messages li", { hasText: text }).waitFor();
  }
  await bob.getByLabel("Message", { exact: true }).pressSequentially("So is");
  await ann.locator("#typing", { hasText: "bob is typing" }).waitFor();
  await keep(ann, "chat");
});

test("a picture of shared cursors", async (t) => {
  const origin = await files(t);
  const options = ["--client-send", "--client-send-rate=60", `--allow-origin=${origin}`];
  const server = await Encke.start(t, ...options);
  const context = await openContext(t, { viewport: { width: 800, height: 460 } });
  const places = { ann: [0, 0], bob: [180, 190], eve: [430, 260], rj: [610, 170], tom: [320, 380] };
  const pages: [Page, number[]][] = [];
  for (const [name, place] of Object.entries(places)) {
    const query = new URLSearchParams({ server: `http://${server.listen}`, name });
    const url = `${origin}/examples/cursors/?${query}`;
    const page = await openPage(t, context, url, { hosts: [server.listen] });
    await page.locator("#state", { hasText: "open" }).waitFor();
    pages.push([page, place]);
  }
  const [[first], ...others] = pages;
  for (const [page, [clientX, clientY]] of others) {
    const move = (place: { clientX: number; clientY: number }) =>
      dispatchEvent(new PointerEvent("pointermove", place));
    await page.evaluate(move, { clientX, clientY });
  }
  await first.locator(".cursor").nth(others.length - 1).waitFor();
  await keep(first, "cursors");
});
