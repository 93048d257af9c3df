// What the three backends share: updates for the hub, and a small web server.
import { createHmac } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";

const { HUB = "http://127.0.0.1:8000/.well-known/mercure", KEY = "mercure.key" } = process.env;
const { PUBLIC_HUB = HUB, PORT = "8080" } = process.env;
const secret = readFileSync(KEY, "utf8").trim();
const file = (path) => readFileSync(new URL(path, import.meta.url));
const LIBRARIES = {
  "/htmx.js": file("node_modules/htmx.org/dist/htmx.min.js"),
  "/htmx-sse.js": file("node_modules/htmx-ext-sse/dist/sse.min.js"),
  "/turbo.js": file("node_modules/@hotwired/turbo/dist/turbo.es2017-esm.js"),
};

/** A token that is good for so many seconds. */
export function token(mercure, seconds) {
  const part = (json) => Buffer.from(JSON.stringify(json)).toString("base64url");
  const exp = Math.floor(Date.now() / 1000) + seconds;
  const signed = `${part({ alg: "HS256", typ: "JWT" })}.${part({ mercure, exp })}`;
  return `${signed}.${createHmac("sha256", secret).update(signed).digest("base64url")}`;
}

let before = Promise.resolve();

/** Publishes an update behind those before it. Returns its id, a place where clients may go on. */
export function publish(update) {
  const headers = { authorization: `Bearer ${token({ publish: ["*"] }, 60)}` };
  const send = async () => {
    const body = new URLSearchParams(update);
    const answer = await fetch(HUB, { method: "POST", headers, body });
    if (!answer.ok) throw new Error(`the hub answers ${answer.status}: ${await answer.text()}`);
    return answer.text();
  };
  return (before = before.catch(() => {}).then(send));
}

/** Where a page listens: to `topic`, from behind the update `place` on. */
export function listen(topic, place) {
  const query = new URLSearchParams({ topic, lastEventID: place });
  return `${PUBLIC_HUB}?${query}`;
}

/** Text as HTML. */
export const escape = (text) => text.replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt()};`);

/** Serves `routes`: each takes the fields of the query and the form, and returns an answer. */
export function serve(routes) {
  const server = createServer(async (request, answer) => {
    const { pathname, searchParams: fields } = new URL(`http://page/${request.url.slice(1)}`);
    const say = ({ status = 200, type = "text/html; charset=utf-8", cookie, body = "" }) => {
      const headers = { "Content-Type": type, "Cache-Control": "no-store" };
      answer.writeHead(status, cookie ? { ...headers, "Set-Cookie": cookie } : headers).end(body);
    };
    const library = LIBRARIES[pathname];
    if (library) return say({ type: "text/javascript", body: library });
    const route = routes[`${request.method} ${pathname}`];
    const missing = { status: 404, type: "text/plain", body: "There is nothing here." };
    try {
      const parts = [];
      for await (const part of request) parts.push(part);
      new URLSearchParams(Buffer.concat(parts).toString()).forEach((value, name) => {
        fields.set(name, value.slice(0, 1000));
      });
      say(route ? await route(Object.fromEntries(fields)) : missing);
    } catch (error) {
      say({ status: 502, type: "text/plain", body: error.message });
    }
  });
  const ready = () => console.log(`http://127.0.0.1:${server.address().port}`);
  server.listen(Number(PORT), "127.0.0.1", ready);
}

/** The page beside a backend, with each `{{name}}` as `values` say. */
export function page(beside, values) {
  const text = readFileSync(new URL("index.html", beside), "utf8");
  return { body: text.replace(/\{\{(\w+)\}\}/g, (_, name) => values[name]) };
}
