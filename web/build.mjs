// Makes the pages that the server carries: src/PAGE/{index.html,main.ts,style.css} become
// dist/PAGE.{html,js,css}. The files in dist are committed, so that cargo needs no npm.
//
//   npm run build     writes dist
//   npm run check     fails, with the names, where dist is not what the sources make
//
// Same sources, same bytes: esbuild is pinned in package.json and nothing here knows the time.

import { build } from "esbuild";
import { existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const src = join(here, "src");
const dist = join(here, "dist");
/** @type {Map<string, string>} what belongs into dist, by name */
const made = new Map();

const pages = readdirSync(src).filter((name) => existsSync(join(src, name, "index.html")));
for (const page of pages) {
  const bundle = await build({
    entryPoints: { [page]: join(src, page, "main.ts"), [`${page}-style`]: join(src, page, "style.css") },
    outdir: dist,
    bundle: true,
    minify: true,
    write: false,
    format: "esm",
    target: ["es2022", "chrome111", "firefox113", "safari16.4"],
    charset: "utf8",
    legalComments: "inline",
  });
  for (const file of bundle.outputFiles) {
    made.set(file.path.slice(dist.length + 1).replace("-style.css", ".css"), file.text);
  }
  made.set(`${page}.html`, readFileSync(join(src, page, "index.html"), "utf8"));
}
made.set("icon.svg", readFileSync(join(src, "shared", "icon.svg"), "utf8"));

if (process.argv.includes("--check")) {
  const there = existsSync(dist) ? readdirSync(dist) : [];
  const read = (name) => (there.includes(name) ? readFileSync(join(dist, name), "utf8") : null);
  const stale = [...made].filter(([name, text]) => read(name) !== text).map(([name]) => name);
  const strange = there.filter((name) => !made.has(name));
  if (stale.length + strange.length > 0) {
    console.error(`web/dist is not what the sources make: ${[...stale, ...strange].join(", ")}`);
    console.error("run: npm run build --prefix web");
    process.exit(1);
  }
} else {
  mkdirSync(dist, { recursive: true });
  for (const [name, text] of made) {
    writeFileSync(join(dist, name), text);
    console.log(`${name} ${Buffer.byteLength(text)} bytes`);
  }
}
