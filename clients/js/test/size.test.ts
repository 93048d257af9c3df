/** What a page pays for each entry of the library, measured on the built files. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { gzipSync } from "node:zlib";

/** Minified and gzipped, as a server sends it, each is smaller than this. */
const BYTES_BOUNDS = { "only-sse": 3000, encke: 4600, shared: 6520, worker: 5700 };

for (const [entry, bound] of Object.entries(BYTES_BOUNDS)) {
  test(`${entry} is small`, (t) => {
    const file = readFileSync(new URL(`../dist/${entry}.js`, import.meta.url));
    const bytes = gzipSync(file, { level: 9 }).length;
    t.diagnostic(`${bytes} bytes minified and gzipped, fewer than ${bound}`);
    assert.ok(bytes < bound, `${bytes} bytes`);
  });
}
