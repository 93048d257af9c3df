/** `examples/answers`: an answer goes on after the page was reloaded in the middle of it. */

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { test } from "node:test";
import { openContext, openPage } from "./browser.js";
import { atEnd } from "./ends.js";
import { leave } from "./leave.js";
import { look } from "./look.js";
import { root } from "./program.js";
import { Encke, freeAddress } from "./server.js";

const ANSWER = "You asked: why? Here is an answer that comes word by word. ";

test("an answer goes on from its first word after a reload in the middle", async (t) => {
  const address = await freeAddress();
  const allow = `--allow-origin=http://${address}`;
  const server = await Encke.start(t, allow, "--remember=answer:*=10000,1h");
  const [, port] = address.split(":");
  const child = spawn(process.execPath, [join(root(), "examples/answers/backend.mjs")], {
    env: { ...process.env, ENCKE_API: `http://${server.api}`, PORT: port, PAUSE_MS: "300" },
  });
  const ended = once(child, "exit");
  atEnd(t, async () => {
    child.kill();
    await ended;
  });
  await once(child.stdout, "data");
  const context = await openContext(t);
  const url = `http://${address}/?server=http://${server.listen}`;
  const page = await openPage(t, context, url, { hosts: [server.listen] });
  await page.getByLabel("Your question").fill("why?");
  await page.getByRole("button", { name: "Ask" }).click();
  await page.waitForFunction(() => document.querySelector("#answer")?.textContent?.includes("Here"));
  await page.reload();
  await page.getByText("the answer is complete").waitFor();
  assert.equal(await page.textContent("#answer"), ANSWER);
  // Another one who has the address reads it too.
  const other = await openPage(t, context, page.url(), { hosts: [server.listen] });
  await other.getByText("the answer is complete").waitFor();
  assert.equal(await other.textContent("#answer"), ANSWER);
  await look(page, "answers");
  await leave(`http://${address}/ask`);
  assert.equal((await fetch(`http://${address}/`)).status, 200, "it serves others still");
  assert.equal(child.exitCode, null);
});
