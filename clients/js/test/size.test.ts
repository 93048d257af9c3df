/** What a page pays for each entry of the library, measured on the built files. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { gzipSync } from "node:zlib";

/** Minified and gzipped, as a server sends it, each is smaller than this. */
const BYTES_BOUNDS = {
  "only-sse": 3200,
  encke: 6500,
  shared: 9050,
  worker: 8000,
  react: 450,
  vue: 380,
  history: 1050,
  pusher: 600,
};

test("shared looks for its worker where bundlers do", () => {
  const text = readFileSync(new URL("../dist/shared.js", import.meta.url), "utf8");
  assert.match(text, /new URL\("\.\/worker\.js",import\.meta\.url\)/);
});

for (const [entry, bound] of Object.entries(BYTES_BOUNDS)) {
  test(`${entry} is small`, (t) => {
    const file = readFileSync(new URL(`../dist/${entry}.js`, import.meta.url));
    const bytes = gzipSync(file, { level: 9 }).length;
    t.diagnostic(`${bytes} bytes minified and gzipped, fewer than ${bound}`);
    assert.ok(bytes < bound, `${bytes} bytes`);
  });
}
