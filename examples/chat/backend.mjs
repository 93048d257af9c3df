// Serves the page, and gives whoever says a name a token of that name. An application of yours
// would first ask for a password.
import { createHmac } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";

const { SECRET = "secret", ENCKE_URL = "http://127.0.0.1:8000", PORT = "8080" } = process.env;
const secret = readFileSync(SECRET, "utf8").trimEnd();
const file = (path) => readFileSync(new URL(path, import.meta.url));
const FILES = {
  "/": ["text/html; charset=utf-8", file("index.html")],
  "/chat.css": ["text/css", file("chat.css")],
  "/chat.js": ["text/javascript", file("chat.js")],
  "/encke.js": ["text/javascript", file("../../clients/js/dist/encke.js")],
};

function sign(claims) {
  const part = (json) => Buffer.from(JSON.stringify(json)).toString("base64url");
  const text = `${part({ alg: "HS256", typ: "JWT" })}.${part(claims)}`;
  return `${text}.${createHmac("sha256", secret).update(text).digest("base64url")}`;
}

const server = createServer((request, answer) => {
  const { pathname, searchParams } = new URL(`http://page/${request.url.slice(1)}`);
  const name = searchParams.get("name");
  if (pathname === "/token" && /^[\w-]{1,20}$/.test(name)) {
    const now = Math.floor(Date.now() / 1000);
    const rooms = ["room:*", "typing:*"];
    const encke = { ids: rooms, send: rooms, members: rooms, info: { since: now } };
    const token = sign({ sub: name, iat: now, exp: now + 3600, encke });
    answer.setHeader("Content-Type", "application/json");
    answer.end(JSON.stringify({ token, url: ENCKE_URL }));
  } else {
    const [type, body] = FILES[pathname] ?? ["text/plain", "There is nothing here."];
    answer.writeHead(FILES[pathname] ? 200 : 404, { "Content-Type": type }).end(body);
  }
});
const ready = () => console.log(`http://127.0.0.1:${server.address().port}`);
server.listen(Number(PORT), "127.0.0.1", ready);
