/**
 * Builds the package's entries, each a minified module of its own below `dist`, and source maps.
 *
 * One file each, because they are small: a page loads one with one request and no bundler. The
 * licenses are copied beside them, since npm packs nothing from further up.
 */

import { copyFileSync } from "node:fs";
import { build } from "esbuild";

/**
 * Names that the parts use among themselves, and that neither users nor the platform know: short
 * ones take their places, which saves a page 150 bytes. No name of `src/types.ts` may be among them.
 */
const INTERNAL = [
  "address", "addressMax", "again", "answer", "answered", "ask", "back", "base", "begin", "change",
  "complain", "due", "dueAt", "earliest", "ears", "end", "ended", "endsAt", "failed", "hear",
  "heard", "heardAt", "hush", "isOwn", "kinds", "most", "opened", "openedAt", "options", "own",
  "parsed", "parts", "pass", "past", "proven", "refusals", "refused", "renewal", "rest", "rooms",
  "run", "say", "sends", "settle", "shared", "source", "speak", "spoken", "taken", "talk", "tell",
  "timer", "tokens", "url", "waited", "watch", "way",
];

/** The sources of what is in `dist`: the package's entries, and the worker of the last one. */
const SOURCES = {
  encke: "src/index.ts",
  "only-sse": "src/only-sse.ts",
  shared: "src/shared.ts",
  react: "src/react.ts",
  vue: "src/vue.ts",
  history: "src/history.ts",
  pusher: "src/pusher.ts",
  worker: "src/worker.ts",
};

// Each by itself, since the most frequent names of all together are not those of the smallest.
for (const [name, source] of Object.entries(SOURCES)) {
  await build({
    entryPoints: [source],
    outfile: `dist/${name}.js`,
    bundle: true,
    external: ["pusher-js", "react", "vue"],
    format: "esm",
    // Private members and `??=`: Chrome 85, Firefox 90, Safari 15, Node 20.
    target: "es2022",
    minify: true,
    // Those without a value need no line in a class.
    tsconfigRaw: { compilerOptions: { useDefineForClassFields: false } },
    mangleProps: new RegExp(`^(${INTERNAL.join("|")})$`),
    sourcemap: true,
    legalComments: "none",
  });
}

for (const license of ["LICENSE-APACHE", "LICENSE-MIT"]) {
  copyFileSync(new URL(`../../${license}`, import.meta.url), new URL(license, import.meta.url));
}
