/** What a page pays for the library, measured on the built file. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { gzipSync } from "node:zlib";

/** Minified and gzipped, as a server sends it, it is smaller than this. */
const BYTES_BOUND = 4000;

test("library is small", (t) => {
  const file = readFileSync(new URL("../dist/encke.js", import.meta.url));
  const bytes = gzipSync(file, { level: 9 }).length;
  t.diagnostic(`${bytes} bytes minified and gzipped, fewer than ${BYTES_BOUND}`);
  assert.ok(bytes < BYTES_BOUND, `${bytes} bytes`);
});
