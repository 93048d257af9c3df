/** The settings: which pages hold a token, and what becomes of one that is taken back. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { openContext } from "../../../clients/js/e2e/browser.js";
import { Daemon } from "./daemon.js";

test("pages that were let in are listed, and one that is revoked may ask no more", async (t) => {
  const daemon = await Daemon.start(t);
  const page = await daemon.open(t, await openContext(t));
  await page.locator("#tokens-none").waitFor();
  const radio = await daemon.letIn("Radio <b>Nine</b>", "http://radio.example.org/");
  const blog = await daemon.letIn("Blog", "http://blog.example.org/");
  assert.ok(await maySearch(daemon, radio) && await maySearch(daemon, blog));

  await page.evaluate("dispatchEvent(new Event('focus'))");
  const row = page.locator("#tokens li", { hasText: "Radio <b>Nine</b>" });
  await row.locator("button", { hasText: "Revoke" }).waitFor();
  assert.equal(await page.locator("#tokens li").count(), 2);
  assert.match((await row.locator(".muted").textContent())!, /^http:\/\/radio\.example\.org\/, since /);
  assert.doesNotMatch(await page.content(), new RegExp(`${radio}|${blog}`));

  await row.locator("button").click();
  await page.locator("#tokens-said", { hasText: "Radio <b>Nine</b> may ask no more." }).waitFor();
  await row.waitFor({ state: "detached" });
  assert.equal(await page.locator("#tokens li").count(), 1);
  assert.equal(await maySearch(daemon, radio), false);
  assert.equal(await maySearch(daemon, blog), true);
});

/** Whether a page with this token is answered. */
async function maySearch(daemon: Daemon, token: string): Promise<boolean> {
  const asked = { method: "resolve", artist: "a", track: "b", jsonp: "f", auth: token };
  const answer = await fetch(`${daemon.origin}/api/?${new URLSearchParams(asked)}`);
  await answer.arrayBuffer();
  return answer.ok;
}
