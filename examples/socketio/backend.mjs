// What the page asks of the server: a token, and a throw of the dice.
import { match } from "node:assert";
import { createHmac, randomInt } from "node:crypto";
import { readFileSync } from "node:fs";
import { serve } from "./serve.mjs";

const { SECRET = "secret", API = "127.0.0.1:8001", WS = "127.0.0.1:8000" } = process.env;
const secret = readFileSync(SECRET, "utf8").trimEnd();
const part = (claims) => Buffer.from(JSON.stringify(claims)).toString("base64url");
const hash = (text) => createHmac("sha256", secret).update(text).digest("base64url");

async function emit(room, event, data) {
  const headers = { "Content-Type": "application/json" };
  const body = JSON.stringify({ about: room, event, data });
  const answer = await fetch(`http://${API}/send`, { method: "POST", headers, body });
  if (!answer.ok) throw new Error(`Encke answers ${answer.status}`);
}

async function login({ name }) {
  match(name, /^[\w-]{1,20}$/);
  const [exp, rooms] = [Math.floor(Date.now() / 1000) + 3600, ["room:*"]];
  const claims = { sub: name, exp, encke: { ids: rooms, send: rooms, members: rooms } };
  const text = `${part({ alg: "HS256" })}.${part(claims)}`;
  return { token: `${text}.${hash(text)}`, url: `http://${WS}` };
}

async function roll({ name, room }) {
  match(room, /^room:\w{1,20}$/);
  const number = randomInt(1, 7);
  await emit(room, "rolled", { name, number });
  return { number };
}

serve({ login, roll });
