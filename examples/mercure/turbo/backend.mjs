// Messages for one user: private updates that are Turbo streams. A cookie says whose page it is.
import { randomUUID } from "node:crypto";
import { escape, listen, page, publish, serve, token } from "../shared.mjs";

const NAME = /^[A-Za-z0-9]{1,20}$/;
const COOKIE = "Path=/.well-known/mercure; HttpOnly; SameSite=Strict";
// Of each user, the messages and behind which update they stand.
const inboxes = new Map();
const inbox = (name) => inboxes.get(name) ?? { list: [], place: "earliest" };
const topic = (name) => `https://example.com/users/${name}`;
const stream = (action, target, html) =>
  `<turbo-stream action="${action}" target="${target}"><template>${html}</template></turbo-stream>`;

serve({
  "GET /": ({ name = "", after }) => {
    if (!NAME.test(name)) return page(import.meta.url, { name: "", hub: "", list: "" });
    const { list, place } = inbox(name);
    // Whoever asks for a name has it: ask for a password where yours is no toy.
    const jwt = token({ subscribe: [topic(name)] }, 3600);
    const hub = escape(listen(topic(name), after ?? place));
    const shown = page(import.meta.url, { name, hub, list: list.join("") });
    return { ...shown, cookie: `mercureAuthorization=${jwt}; ${COOKIE}` };
  },
  "POST /messages": async ({ to, text = "" }) => {
    if (!NAME.test(to)) return { status: 400 };
    // Turbo shows an id once, though it comes both in the page and as an update.
    const item = `<li id="m${randomUUID()}">${escape(text)}</li>`;
    const data = stream("append", "messages", item);
    const place = await publish({ topic: topic(to), private: "on", data });
    inboxes.set(to, { list: [...inbox(to).list, item], place });
    const body = stream("update", "status", `Sent to ${to}.`);
    return { type: "text/vnd.turbo-stream.html", body };
  },
});
