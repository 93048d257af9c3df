// What a browser says goes through this backend, which knows who says it, to Encke.
import { createServer } from "node:http";

// Stands for your own: who is logged in with which cookie.
const SESSIONS = new Map([["s-4711", "rj"]]);
const { ENCKE_API = "http://127.0.0.1:8001", ENCKE_KEY, PORT = "0" } = process.env;

async function say(request) {
  const session = /(?:^|; )session=([^;]*)/.exec(request.headers.cookie ?? "")?.[1];
  const user = SESSIONS.get(session);
  if (!user) return [401, {}];
  let body = "";
  request.setEncoding("utf8");
  for await (const part of request) {
    body += part;
    if (body.length > 10_000) return [413, {}];
  }
  let said;
  try {
    said = JSON.parse(body);
  } catch {
    return [400, {}];
  }
  const { text, id } = said ?? {};
  if (typeof text !== "string" || !text || text.length > 1000) return [400, {}];
  if (typeof id !== "string" || !/^[\w-]{36}$/.test(id)) return [400, {}];
  const headers = { "Content-Type": "application/json" };
  if (ENCKE_KEY) headers.Authorization = `Bearer ${ENCKE_KEY}`;
  // The page's own id lets a message that it sends twice be posted once.
  const event = { about: user, data: { text }, key: `${user}:${id}` };
  const signal = AbortSignal.timeout(10_000);
  const post = { method: "POST", redirect: "error", headers, signal, body: JSON.stringify(event) };
  const answer = await fetch(`${ENCKE_API}/send`, post);
  if (!answer.ok) throw new Error(`${answer.status} ${await answer.text()}`);
  return [200, { delivered: (await answer.json()).delivered }];
}

const server = createServer(async (request, response) => {
  const isSay = request.method === "POST" && request.url === "/say";
  const failed = (error) => (console.error(error), [502, {}]);
  const [status, body] = isSay ? await say(request).catch(failed) : [404, {}];
  response.writeHead(status, { "Content-Type": "application/json" }).end(JSON.stringify(body));
});
server.listen(Number(PORT), "127.0.0.1", () => {
  console.log(`http://127.0.0.1:${server.address().port}`);
});
