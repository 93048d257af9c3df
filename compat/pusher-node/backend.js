// Pusher's library for Node: what a backend sends, asks and ends. The last argument is a socket id.
import { answer, backend, done } from "./app.js";

const socket_id = process.argv[7];
const ask = (path, params = {}) => answer(backend.get({ path, params }));
await backend.trigger(["news", "private-rj"], "photo", { photo: 789 }, { socket_id });
await backend.triggerBatch([
  { channel: "news", name: "1", data: "first" }, { channel: "news", name: "2", data: "second" },
]);
await backend.sendToUser("bob", "hello", { to: "bob" });
done({
  channels: (await ask("/channels", { filter_by_prefix: "presence-", info: "user_count" })).channels,
  channel: await ask("/channels/news", { info: "subscription_count" }),
  users: (await ask("/channels/presence-room/users")).users,
});
await backend.terminateUserConnections("bob");
