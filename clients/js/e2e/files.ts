/** The repository's files by HTTP, as the examples' READMEs have Python serve them. */

import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { extname, join, normalize } from "node:path";
import type { TestContext } from "node:test";
import { atEnd } from "./ends.js";
import { root } from "./program.js";

const TYPES: Record<string, string> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
};

/** Serves them until the test ends, from an origin of their own. */
export async function files(t: TestContext): Promise<string> {
  const server = createServer(async ({ url = "/" }, answer) => {
    const { pathname } = new URL(url, "http://files");
    const path = join(root(), normalize(pathname.replace(/\/$/, "/index.html")));
    const body = await readFile(path).catch(() => null);
    answer.writeHead(body ? 200 : 404, { "content-type": TYPES[extname(path)] ?? "text/plain" });
    answer.end(body);
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  atEnd(t, () => void server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
