// pusher-js as its documentation has it, against the server that its users would name as `wsHost`.
import assert from "node:assert/strict";
import Pusher from "pusher-js";
import { answer, backend, done, first, page } from "./app.js";

const options = await page("bob");
const bob = new Pusher(options.key, options);
const others = await page("eve");
const eve = new Pusher(others.key, others);
const subscribed = (channel) => first((seen) => channel.bind("pusher:subscription_succeeded", seen));
const connected = (pusher) => first((seen) => pusher.connection.bind("connected", seen));
await Promise.all([connected(bob), connected(eve)]);
done("connected");

const [news, own] = [bob.subscribe("news"), bob.subscribe("private-rj")];
const [evesNews, evesOwn] = [eve.subscribe("news"), eve.subscribe("private-rj")];
await Promise.all([news, own, evesNews, evesOwn].map(subscribed));
done("public and private channels");

const refused = first((seen) => bob.subscribe("private-no").bind("pusher:subscription_error", seen));
assert.equal((await refused)[0].status, 403);
const room = bob.subscribe("presence-room");
await subscribed(room);
assert.deepEqual([room.members.count, room.members.me.info], [1, { name: "BOB" }]);
const added = first((seen) => room.bind("pusher:member_added", seen));
const evesRoom = eve.subscribe("presence-room");
const [members] = await subscribed(evesRoom);
assert.deepEqual([(await added)[0].id, members.count, room.members.count], ["eve", 2, 2]);
done("presence");

const heard = ["news", "private-rj"].map((name) => first((seen) => bob.channel(name).bind("photo", seen)));
evesNews.bind("photo", () => assert.fail("it was left out"));
const told = await answer(backend.trigger(["news", "private-rj"], "photo", { n: "ü\u2028" }, {
  socket_id: eve.connection.socket_id, info: "subscription_count",
}));
const sent = { n: "ü\u2028" };
assert.deepEqual((await Promise.all(heard)).map(([data]) => data), [sent, sent]);
assert.equal(told.channels.news.subscription_count, 2);
const batch = ["1", "2"].map((name) => first((seen) => own.bind(name, seen)));
await backend.triggerBatch([
  { channel: "private-rj", name: "1", data: {} }, { channel: "private-rj", name: "2", data: "text" },
]);
assert.deepEqual((await Promise.all(batch)).map(([data]) => data), [{}, "text"]);
done("triggers");

const typing = first((seen) => room.bind("client-typing", seen));
evesRoom.trigger("client-typing", { at: 1 });
assert.deepEqual(await typing, [{ at: 1 }, { user_id: "eve" }]);
done("client events");

await subscribed(bob.subscribe("private-encrypted-rj"));
const opened = first((seen) => bob.channel("private-encrypted-rj").bind("secret", seen));
await backend.trigger("private-encrypted-rj", "secret", { photo: 789 });
assert.deepEqual((await opened)[0], { photo: 789 });
done("encrypted channels");

const online = first((seen) => bob.user.watchlist.bind("online", seen));
const hello = first((seen) => bob.user.bind("hello", seen));
bob.signin();
await bob.user.signinDonePromise;
// The page is not told when it hears its own channel, so the backend says it again.
const again = setInterval(() => backend.sendToUser("bob", "hello", { to: "bob" }), 100);
assert.deepEqual((await hello)[0], { to: "bob" });
clearInterval(again);
done("users");
eve.signin();
assert.deepEqual((await online)[0].user_ids, ["eve"]);
done("watchlist");

const ask = (path, params = {}) => answer(backend.get({ path, params }));
assert.deepEqual(await ask("/channels", { filter_by_prefix: "presence-", info: "user_count" }),
  { channels: { "presence-room": { user_count: 2 } } });
const users = (await ask("/channels/presence-room/users")).users.map((user) => user.id);
assert.deepEqual(users.sort(), ["bob", "eve"]);
done("looks");

await backend.trigger("cache-song", "song", { title: "Hello" });
const song = bob.subscribe("cache-song");
assert.deepEqual((await first((seen) => song.bind("song", seen)))[0], { title: "Hello" });
const missed = first((seen) => bob.subscribe("cache-none").bind("pusher:cache_miss", seen));
await missed;
done("cache channels");

const left = first((seen) => room.bind("pusher:member_removed", seen));
eve.disconnect();
assert.equal((await left)[0].id, "eve");
const error = first((seen) => bob.connection.bind("error", seen));
const gone = first((seen) => bob.connection.bind("disconnected", seen));
await backend.terminateUserConnections("bob");
assert.equal((await error)[0].data.code, 4009);
await gone;
done("ends");
process.exit(0);
