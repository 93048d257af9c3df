/**
 * Builds `dist/encke.js`, the whole library in one minified module, and its source map.
 *
 * One file, because it is small: a page loads it with one request and no bundler.
 */

import { build } from "esbuild";

await build({
  entryPoints: ["src/index.ts"],
  outfile: "dist/encke.js",
  bundle: true,
  format: "esm",
  // Private members and `??=`: Chrome 85, Firefox 90, Safari 15, Node 20.
  target: "es2022",
  minify: true,
  sourcemap: true,
  legalComments: "none",
});
