// Answers what a page of the AI SDK asks. The answer goes into a durable stream of Encke, and the
// page reads it there: so it goes on when the page is loaded again, and over an end of the server.

import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { readFile } from "node:fs/promises";
import { setTimeout } from "node:timers/promises";
import { createUIMessageStream, readUIMessageStream } from "ai";
import { build } from "esbuild";

const { ENCKE_API = "http://127.0.0.1:8001", ENCKE_URL = "http://127.0.0.1:8000" } = process.env;
const { ENCKE_KEY, PORT = "8080", PAUSE_MS = "80" } = process.env;
const AGAIN_MS = 200;
const CALL_MS = 30_000;
const LATER_MS = 3_600_000;

/** Stands for a model: replace it by `streamText(…).toUIMessageStream()`. */
function model(question) {
  return createUIMessageStream({
    async execute({ writer }) {
      const id = randomUUID();
      writer.write({ type: "start", messageId: id });
      writer.write({ type: "text-start", id });
      const words = `You asked: ${question} Here is an answer that comes word by word.`.split(" ");
      for (const word of words) {
        await setTimeout(Number(PAUSE_MS));
        writer.write({ type: "text-delta", id, delta: `${word} ` });
      }
      writer.write({ type: "text-end", id });
      writer.write({ type: "finish" });
    },
  });
}

/** One call that Encke takes once, however often it is repeated: until the server is back. */
async function call(method, path, fields, body) {
  const headers = { "content-type": "application/json", ...fields };
  if (ENCKE_KEY) headers.authorization = `Bearer ${ENCKE_KEY}`;
  for (;;) {
    const signal = AbortSignal.timeout(CALL_MS);
    const made = fetch(`${ENCKE_API}${path}`, { method, headers, body, signal });
    const reply = await made.catch(() => null);
    const said = await reply?.text().catch(() => "");
    if (reply?.ok) return;
    if (reply && reply.status !== 503) throw new Error(`${path}: ${said}`);
    await setTimeout(AGAIN_MS);
  }
}

/** Writes an answer into its stream, piece by piece. The last one closes it. */
async function write(path, pieces) {
  const writer = { "producer-id": "backend", "producer-epoch": "0" };
  let number = 0;
  for await (const piece of pieces) {
    const fields = { ...writer, "producer-seq": `${number++}` };
    await call("POST", path, fields, JSON.stringify(piece));
  }
  await call("POST", path, { ...writer, "producer-seq": `${number}`, "stream-closed": "true" });
}

/**
 * The chats: what was said before the last answer, its stream, and, when it is complete, its
 * message. Pages read the last answer from its stream, so they have it whole whenever they come.
 */
const chats = new Map();

/** The last answer is one of before. */
function settle(chat, path) {
  if (chat.answer !== path) return;
  if (chat.message) chat.messages.push(chat.message);
  chat.answer = chat.message = null;
}

async function answerTo(chat, path, question) {
  try {
    const [written, kept] = model(question).tee();
    const keep = async () => {
      let message;
      for await (message of readUIMessageStream({ stream: kept }));
      return message;
    };
    const [message] = await Promise.all([keep(), write(path, written)]);
    chat.message = message;
    // Its stream is removed a day after it was read last.
    await setTimeout(LATER_MS, null, { ref: false });
  } catch (error) {
    console.error(error.message);
  }
  settle(chat, path);
}

/** Begins an answer; the path of its stream, or nothing while another one is written. */
async function ask(request) {
  let body = "";
  request.setEncoding("utf8");
  for await (const part of request) body += part;
  const { id, messages } = JSON.parse(body);
  if (!chats.has(id)) chats.set(id, { messages: [], answer: null, message: null });
  const chat = chats.get(id);
  if (chat.answer && !chat.message) return null;
  settle(chat, chat.answer);
  const path = `/v1/stream/chat/${randomUUID()}`;
  chat.answer = path;
  try {
    await call("PUT", path, { "stream-ttl": "86400" });
  } catch (error) {
    settle(chat, path);
    throw error;
  }
  const question = messages.at(-1);
  chat.messages.push(question);
  answerTo(chat, path, question.parts.map((part) => part.text ?? "").join(""));
  return path;
}

const { outputFiles } = await build({
  entryPoints: [new URL("page.jsx", import.meta.url).pathname],
  bundle: true,
  write: false,
  format: "esm",
  jsx: "automatic",
  define: { "process.env.NODE_ENV": '"production"' },
});

/** Where a page reads an answer. */
const at = (path) => [201, { location: `${ENCKE_URL}${path}` }, ""];

async function answer(request) {
  const { pathname } = new URL(request.url, "http://page");
  const [, id, isStream] = pathname.match(/^\/api\/chat\/([\w-]+)(\/stream)?$/) ?? [];
  if (request.method === "POST" && pathname === "/api/chat") {
    const path = await ask(request);
    return path ? at(path) : [409, {}, "An answer is still being written."];
  }
  const chat = chats.get(id);
  if (isStream) return chat?.answer ? at(chat.answer) : [204, {}, ""];
  const json = { "content-type": "application/json" };
  if (id) return [200, json, JSON.stringify(chat?.messages ?? [])];
  const script = { "content-type": "text/javascript; charset=utf-8" };
  if (pathname === "/page.js") return [200, script, outputFiles[0].contents];
  const page = await readFile(new URL("index.html", import.meta.url));
  return [200, { "content-type": "text/html; charset=utf-8" }, page];
}

const server = createServer((request, response) => {
  answer(request).then(
    ([status, head, body]) => response.writeHead(status, head).end(body),
    (error) => response.writeHead(500).end(error.message),
  );
});
server.listen(Number(PORT), "127.0.0.1", () => {
  console.log(`http://127.0.0.1:${server.address().port}/`);
});
