// What both pages share: the app, as its backend has it with Pusher's own library, and the endpoint
// at which its pages ask for signatures.
import { createServer } from "node:http";
import { once } from "node:events";
import Pusher from "pusher";

/**
 * `HOST:PORT` of clients and of the API, then id, key and secret of the app. With `PUSHER_TLS` in
 * the environment both speak TLS.
 */
const [listen, api, appId, key, secret] = process.argv.slice(2);
const [host, port] = api.split(":");
const useTLS = Boolean(process.env.PUSHER_TLS);

export const backend = new Pusher({
  appId, key, secret, host, port, useTLS,
  encryptionMasterKeyBase64: Buffer.alloc(32, 7).toString("base64"),
});

/** Options of a page whose user is `user`. */
export async function page(user) {
  const [wsHost, wsPort] = listen.split(":");
  const at = await endpoint(user);
  return {
    key, wsHost, wsPort: Number(wsPort), wssPort: Number(wsPort), cluster: "", forceTLS: useTLS,
    enabledTransports: ["ws", "wss"],
    authEndpoint: `${at}/broadcasting/auth`,
    channelAuthorization: { endpoint: `${at}/broadcasting/auth`, transport: "ajax" },
    userAuthentication: { endpoint: `${at}/broadcasting/user-auth`, transport: "ajax" },
  };
}

/** Signs for `user`, but nothing called `private-no`. */
async function endpoint(user) {
  const server = createServer(async (request, response) => {
    const parts = [];
    for await (const part of request) parts.push(part);
    const form = new URLSearchParams(Buffer.concat(parts).toString());
    const socket = form.get("socket_id");
    const channel = form.get("channel_name");
    if (channel === "private-no") return response.writeHead(403).end();
    const user_info = { name: user.toUpperCase() };
    const member = channel?.startsWith("presence-") ? { user_id: user, user_info } : undefined;
    const signed = request.url.endsWith("/user-auth")
      ? backend.authenticateUser(socket, { id: user, user_info, watchlist: ["eve"] })
      : backend.authorizeChannel(socket, channel, member);
    response.setHeader("Content-Type", "application/json").end(JSON.stringify(signed));
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  server.unref();
  return `http://127.0.0.1:${server.address().port}`;
}

/** Prints what has been seen to work. */
export const done = (step) => console.log(JSON.stringify(step));

/** The JSON of an answer. */
export const answer = async (promise) => (await promise).json();

/** What `bind` calls its argument with the first time. */
export const first = (bind) => new Promise((resolve) => bind((...seen) => resolve(seen)));
