// Sends each new row of a PostgreSQL table to the account's browsers, once and in order.
//
// The table is the queue. A row that was not sent, since this program or Encke was down, is sent
// later. Its id is the idempotency key, so a row that was sent twice is heard once.

import os from "node:os";
import pg from "pg";

const api = process.env.ENCKE_API ?? "http://127.0.0.1:8001";
const headers = { "content-type": "application/json" };
if (process.env.ENCKE_KEY) headers.authorization = `Bearer ${process.env.ENCKE_KEY}`;

// PGHOST, PGDATABASE and so on say where. The user is that of `psql`, also where $USER is not set.
const user = process.env.PGUSER ?? process.env.USER ?? os.userInfo().username;
const database = new pg.Client({ user });
await database.connect();

async function send({ id, account, message }) {
  const event = { about: `account:${account}`, event: "notification", data: { id, message } };
  const body = JSON.stringify({ ...event, key: `notification-${id}` });
  const answer = await fetch(`${api}/send`, { method: "POST", headers, body });
  if (answer.ok) return;
  const why = `Encke answers ${answer.status}: ${await answer.text()}`;
  // What it refuses for good would hold up all rows behind it.
  if (![400, 413, 422].includes(answer.status)) throw new Error(why);
  console.error(`Row ${id} is left out. ${why}`);
}

async function sendAll() {
  const unsent = "SELECT id, account, message FROM notifications WHERE NOT sent ORDER BY id";
  for (const row of (await database.query(unsent)).rows) {
    await send(row);
    await database.query("UPDATE notifications SET sent = true WHERE id = $1", [row.id]);
  }
}

// One after another: rows keep their order. After a failure they are tried again.
let work = Promise.resolve();
const wake = () => (work = work.then(sendAll).catch((error) => console.error(error.message)));
database.on("notification", wake);
await database.query("LISTEN notifications");
setInterval(wake, 5000);
await wake();
console.log("sending what the table has");
