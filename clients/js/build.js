/**
 * Builds `dist/encke.js`, the whole library in one minified module, and its source map.
 *
 * One file, because it is small: a page loads it with one request and no bundler. The licenses are
 * copied beside it, since npm packs nothing from further up.
 */

import { copyFileSync } from "node:fs";
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

for (const license of ["LICENSE-APACHE", "LICENSE-MIT"]) {
  copyFileSync(new URL(`../../${license}`, import.meta.url), new URL(license, import.meta.url));
}
