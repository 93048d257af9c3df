// Builds the site: puts the pages of the tree together in target/site, and has VitePress make
// target/site-pages of them, a folder that any web server serves.
//
// The pages are those of docs/, and a few that lie elsewhere. A page may link to any file of the
// tree. A file that is a page of the site is linked to as that page; of any other the link's text
// stays, since the site has no source files. A link to a file that is not there, or to a heading
// that is not there, ends the build, and so does a page that the sidebar does not lead to.

import { spawnSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import config from "./theme/config.js";

const here = path.dirname(fileURLToPath(import.meta.url));
const root = path.dirname(here);
const target = process.env.CARGO_TARGET_DIR ?? path.join(root, "target");
const pages = path.join(target, "site");

// Pages that lie outside docs/, and where they are on the site.
const elsewhere = new Map([
  ["ARCHITECTURE.md", "architecture.md"],
  ["CONTRIBUTING.md", "contributing.md"],
  ["CHANGELOG.md", "changelog.md"],
  ["clients/js/README.md", "clients/js.md"],
  ["clients/python/README.md", "clients/python.md"],
  ["clients/go/README.md", "clients/go.md"],
  ["clients/erlang/README.md", "clients/erlang.md"],
  ["examples/answers/README.md", "examples/answers.md"],
  ["examples/assistant/README.md", "examples/assistant.md"],
  ["examples/chat/README.md", "examples/chat.md"],
  ["examples/cursors/README.md", "examples/cursors.md"],
  ["examples/dashboard/README.md", "examples/dashboard.md"],
  ["examples/echo/README.md", "examples/echo.md"],
  ["examples/job/README.md", "examples/job.md"],
  ["examples/mercure/README.md", "examples/mercure.md"],
  ["examples/notifications/README.md", "examples/notifications.md"],
  ["examples/socketio/README.md", "examples/socketio.md"],
]);

// What pages were called, and what they are called now: old links lead on.
const moved = new Map([
  ["beginnings.html", "stream-start.html"],
  ["strangers.html", "rate-limits.html"],
  ["watching.html", "monitoring.html"],
]);

/** The page of the site that a file of the tree is, or undefined. */
const pageOf = (file) => elsewhere.get(file) ?? file.match(/^docs\/(.*)$/)?.[1];

/** All files of docs/, and those from elsewhere. */
const sources = [
  ...fs.readdirSync(path.join(root, "docs"), { recursive: true }).map((file) => `docs/${file}`),
  ...elsewhere.keys(),
].filter((file) => fs.statSync(path.join(root, file)).isFile());

const faults = [];
// Of each page the links into other pages that name a heading.
const headed = [];
const headings = new Map();

/** As VitePress names headings. */
const slug = (heading) =>
  heading
    .replace(/\[([^\]]*)\]\([^)]*\)/g, "$1")
    .replace(/`/g, "")
    .normalize("NFKD")
    .replace(/[\u0300-\u036F]/g, "")
    .replace(/[\s~`!@#$%^&*()\-_+=[\]{}|\\;:"'“”‘’<>,.?/]+/g, "-")
    .replace(/-{2,}/g, "-")
    .replace(/^-+|-+$/g, "")
    .toLowerCase();

/** As GitHub and `cargo xtask tidy` name them, which the links in the tree go by. */
const treeSlug = (heading) =>
  heading
    .replace(/\[([^\]]*)\]\([^)]*\)/g, "$1")
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, "")
    .replace(/ /g, "-");

/** Splits a page into fenced code and the rest. */
const parts = (text) => text.split(/(^(?:```|~~~)[\s\S]*?^(?:```|~~~)[ \t]*$)/m);
const isCode = (part) => /^(```|~~~)/.test(part);

for (const file of sources.filter((file) => file.endsWith(".md"))) {
  const prose = parts(fs.readFileSync(path.join(root, file), "utf8")).filter((p) => !isCode(p));
  const found = prose.join("").matchAll(/^#{1,6} (.*)$/gm);
  headings.set(file, new Map([...found].map(([, text]) => [treeSlug(text), slug(text)])));
}

/** What stands in a page in the place of a link. */
function link(file, image, text, to) {
  if (/^[a-z]+:/.test(to)) return `${image}[${text}](${to})`;
  const [name, heading] = to.split("#");
  const source = name ? path.posix.normalize(path.posix.join(path.posix.dirname(file), name)) : file;
  const where = path.join(root, source);
  if (!fs.existsSync(where)) {
    faults.push(`${file} links to ${to}, which is not there`);
    return text;
  }
  const page = fs.statSync(where).isFile() ? pageOf(source) : undefined;
  if (page === undefined) return text;
  let anchor = "";
  if (heading !== undefined) {
    const named = headings.get(source)?.get(heading);
    if (named === undefined) faults.push(`${file} links to ${to}, which has no such heading`);
    anchor = `#${named}`;
  }
  const relative = path.posix.relative(path.posix.dirname(pageOf(file)), page);
  return `${image}[${text}](./${relative}${anchor})`;
}

/** A page as the site has it. */
function rewritten(file, text) {
  const prose = (part) =>
    part
      .replace(
        /(!?)\[((?:[^[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)/g,
        (_, image, words, to) => link(file, image, words, to),
      )
      .replace(/(src|srcset)="(img\/[^"]*)"/g, '$1="./$2"')
      // In VitePress these begin an expression or an element; in our pages they are text.
      .replaceAll("{{", "{&#8203;{");
  return parts(text)
    .map((part) => (isCode(part) ? part : prose(part)))
    .join("");
}

fs.rmSync(pages, { recursive: true, force: true });
for (const file of sources) {
  const to = path.join(pages, pageOf(file));
  fs.mkdirSync(path.dirname(to), { recursive: true });
  const from = path.join(root, file);
  if (!file.endsWith(".md")) fs.copyFileSync(from, to);
  else fs.writeFileSync(to, rewritten(file, fs.readFileSync(from, "utf8")));
}
fs.cpSync(path.join(here, "theme"), path.join(pages, ".vitepress"), { recursive: true });
// VitePress is looked for from there.
fs.symlinkSync(path.join(here, "node_modules"), path.join(pages, "node_modules"));

// A decision has its list, decisions/README.md.
const listed = config.themeConfig.sidebar.flatMap(({ items }) => items.map(({ link }) => link));
for (const file of sources.filter((file) => file.endsWith(".md"))) {
  const page = `/${pageOf(file)}`.replace(/\.md$/, "").replace(/(^|\/)(index|README)$/, "$1");
  if (!page.startsWith("/decisions/0") && !listed.includes(page)) {
    faults.push(`${file} is not in the sidebar of site/theme/config.js`);
  }
}

if (faults.length > 0) {
  console.error(faults.join("\n"));
  process.exit(1);
}
const vitepress = path.join(here, "node_modules/vitepress/bin/vitepress.js");
const out = `${pages}-pages`;
const built = spawnSync(process.execPath, [vitepress, "build", pages, "--outDir", out], {
  stdio: "inherit",
});
if (built.status !== 0) process.exit(built.status ?? 1);
for (const [old, now] of moved) {
  if (!fs.existsSync(path.join(out, now)) || fs.existsSync(path.join(out, old))) {
    console.error(`${old} cannot lead to ${now}`);
    process.exit(1);
  }
  const head = `<!doctype html><title>Moved</title><meta http-equiv="refresh" content="0; url=${now}">`;
  fs.writeFileSync(path.join(out, old), `${head}<p>This page is now <a href="${now}">${now}</a>.</p>\n`);
}
