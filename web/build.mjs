// Makes the pages that the server carries: src/PAGE/{index.html,main.ts,style.css} become
// dist/PAGE.{html,js,css}. The files in dist are committed, so that cargo needs no npm. The demo
// page is one document, since the public port has a place for no more: its styles and scripts stand
// in it, and dist/demo.csp is the policy that lets these in and nothing else.
//
//   npm run build     writes dist
//   npm run check     fails, with the names, where dist is not what the sources make
//
// Same sources, same bytes: esbuild is pinned in package.json and nothing here knows the time.

import { createHash } from "node:crypto";
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
    alias: { encke: join(here, "..", "clients", "js", "src", "index.ts") },
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
// Not every browser takes a WebSocket of the page's own server for 'self'.
makeWhole("demo", ["connect-src 'self' ws://{host}:* http://{host}:{api_port}"]);

/** Puts a page's style, script and icon into its document, and says so in its policy. */
function makeWhole(page, policy) {
  const [style, script] = [`${page}.css`, `${page}.js`].map((name) => {
    const text = made.get(name).trimEnd();
    made.delete(name);
    return text;
  });
  const icon = encodeURIComponent(made.get("icon.svg").replace(/>\s+</g, "><").trim());
  const parts = {
    [`<link rel="stylesheet" href="${page}.css">`]: `<style>${style}</style>`,
    [`<script type="module" src="${page}.js"></script>`]: `<script type="module">${script}</script>`,
    'href="icon.svg"': `href="data:image/svg+xml,${icon}"`,
  };
  let html = made.get(`${page}.html`);
  for (const [place, text] of Object.entries(parts)) {
    if (!html.includes(place)) throw new Error(`${page}: no ${place}`);
    html = html.replace(place, () => text);
  }
  made.set(`${page}.html`, html);
  const hash = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
  const rules = [
    "default-src 'none'",
    `script-src ${hash(script)}`,
    `style-src ${hash(style)}`,
    "img-src data:",
    ...policy,
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ];
  made.set(`${page}.csp`, `${rules.join("; ")}\n`);
}

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
