// Serves the page, signs for its channel as Laravel does, sends what visitors say to all others.
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { text } from "node:stream/consumers";
import Pusher from "pusher";

const { APP = "app.json", API = "127.0.0.1:8001", WS = "127.0.0.1:8000" } = process.env;
const { id: appId, key, secret } = JSON.parse(readFileSync(APP, "utf8"));
const [host, port] = API.split(":");
const pusher = new Pusher({ appId, key, secret, host, port, useTLS: false });
const file = (path) => readFileSync(new URL(path, import.meta.url));
const FILES = {
  "/": ["text/html; charset=utf-8", file("index.html")],
  "/room.js": ["text/javascript", file("room.js")],
  "/echo.js": ["text/javascript", file("node_modules/laravel-echo/dist/echo.js")],
  "/pusher.js": ["text/javascript", file("node_modules/pusher-js/dist/web/pusher.js")],
  "/app.json": ["application/json", JSON.stringify({ key, ws: WS })],
};

async function serve(request, answer) {
  const { pathname, searchParams } = new URL(`http://page/${request.url.slice(1)}`);
  const form = Object.fromEntries(new URLSearchParams(await text(request)));
  const name = searchParams.get("name") ?? "";
  if (pathname === "/broadcasting/auth" && /^[\w-]{1,20}$/.test(name)) {
    const member = { user_id: name, user_info: { name } };
    answer.end(JSON.stringify(pusher.authorizeChannel(form.socket_id, form.channel_name, member)));
  } else if (pathname === "/say" && /^[\w-]{1,20}$/.test(name)) {
    const said = { name, text: (form.text ?? "").slice(0, 1000) };
    await pusher.trigger("presence-room.1", "Said", said, { socket_id: form.socket_id });
    answer.end();
  } else {
    const [type, body] = FILES[pathname] ?? ["text/plain", "There is nothing here."];
    answer.writeHead(FILES[pathname] ? 200 : 404, { "Content-Type": type }).end(body);
  }
}
const failed = (answer) => (error) => answer.writeHead(502).end(error.message);
const server = createServer((request, answer) => serve(request, answer).catch(failed(answer)));
const ready = () => console.log(`http://127.0.0.1:${server.address().port}`);
server.listen(Number(process.env.PORT ?? 8080), "127.0.0.1", ready);
