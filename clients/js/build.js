/**
 * Builds `dist/encke.js`, the whole library in one minified module, and its source map.
 *
 * One file, because it is small: a page loads it with one request and no bundler. The licenses are
 * copied beside it, since npm packs nothing from further up.
 */

import { copyFileSync } from "node:fs";
import { build } from "esbuild";

/**
 * Names that the parts use among themselves, and that neither users nor the platform know: short
 * ones take their places, which saves a page 150 bytes. No name of `src/types.ts` may be among them.
 */
const INTERNAL = [
  "addressMax", "again", "answer", "answered", "base", "change", "complain", "dueAt", "ears",
  "end", "ended", "heard", "hush", "opened", "openedAt", "pass", "refusals", "refused",
  "renewed", "rest", "run", "say", "settle", "shared", "speak", "tell", "tokens", "url", "watch",
];

await build({
  entryPoints: ["src/index.ts"],
  outfile: "dist/encke.js",
  bundle: true,
  format: "esm",
  // Private members and `??=`: Chrome 85, Firefox 90, Safari 15, Node 20.
  target: "es2022",
  minify: true,
  mangleProps: new RegExp(`^(${INTERNAL.join("|")})$`),
  sourcemap: true,
  legalComments: "none",
});

for (const license of ["LICENSE-APACHE", "LICENSE-MIT"]) {
  copyFileSync(new URL(`../../${license}`, import.meta.url), new URL(license, import.meta.url));
}
