// Sends the answer of a language model piece by piece. The page hears the pieces from Encke, so it
// can be reloaded, or opened on a second device, in the middle of an answer.

import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { readFile } from "node:fs/promises";
import { setTimeout } from "node:timers/promises";

const { ENCKE_API = "http://127.0.0.1:8001", ENCKE_KEY, PORT = "8080", PAUSE_MS = "80" } =
  process.env;
const headers = { "content-type": "application/json" };
if (ENCKE_KEY) headers.authorization = `Bearer ${ENCKE_KEY}`;

/** Stands for a model: replace it by the stream of the one that you use. */
async function* model(question) {
  const words = `You asked: ${question} Here is an answer that comes word by word.`.split(" ");
  for (const word of words) {
    await setTimeout(Number(PAUSE_MS));
    yield `${word} `;
  }
}

/** One event. The number of the piece is its idempotency key, so that a repeat is heard once. */
async function send(answer, number, event, text) {
  const body = JSON.stringify({ about: answer, event, text, key: `${answer}-${number}` });
  const reply = await fetch(`${ENCKE_API}/send`, { method: "POST", headers, body });
  if (!reply.ok) throw new Error(`Encke answers ${reply.status}: ${await reply.text()}`);
}

async function answerTo(question, answer) {
  let number = 0;
  for await (const text of model(question)) await send(answer, number++, "piece", text);
  await send(answer, number, "end", "");
}

async function serve(request, response) {
  if (request.method === "POST" && request.url === "/ask") {
    let question = "";
    request.setEncoding("utf8");
    for await (const part of request) question = (question + part).slice(0, 1000);
    const answer = `answer:${randomUUID()}`;
    answerTo(question, answer).catch((error) => console.error(error.message));
    response.writeHead(200, { "content-type": "application/json" });
    response.end(JSON.stringify({ answer }));
  } else {
    const page = await readFile(new URL("index.html", import.meta.url));
    response.writeHead(200, { "content-type": "text/html" }).end(page);
  }
}

createServer((request, response) => {
  // A visitor may leave in the middle of a question.
  serve(request, response).catch((error) => response.writeHead(500).end(error.message));
}).listen(Number(PORT), "127.0.0.1", () => console.log(`http://127.0.0.1:${PORT}/`));
