// Serves the page's files, and answers a POST with what the handler of that name returns.
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { json } from "node:stream/consumers";

const file = (path) => readFileSync(new URL(path, import.meta.url));
const FILES = {
  "/": ["text/html; charset=utf-8", file("index.html")],
  "/page.js": ["text/javascript", file("page.js")],
  "/room.js": ["text/javascript", file("room.js")],
  "/encke.js": ["text/javascript", file("../../clients/js/dist/encke.js")],
};

export function serve(handlers) {
  const handlerAt = new Map(Object.entries(handlers).map(([name, does]) => [`/${name}`, does]));
  const server = createServer(async (request, answer) => {
    const handler = handlerAt.get(request.url);
    const [type, body] = FILES[request.url] ?? ["text/plain", "There is nothing here."];
    if (!handler) {
      answer.writeHead(FILES[request.url] ? 200 : 404, { "Content-Type": type }).end(body);
      return;
    }
    try {
      const acknowledgement = JSON.stringify(await handler(await json(request)));
      answer.setHeader("Content-Type", "application/json").end(acknowledgement);
    } catch (error) {
      console.error(error.message);
      answer.writeHead(500).end();
    }
  });
  const ready = () => console.log(`http://127.0.0.1:${server.address().port}`);
  server.listen(Number(process.env.PORT ?? 8080), "127.0.0.1", ready);
}
