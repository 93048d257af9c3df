// Laravel Echo as Laravel's documentation has it, with the broadcaster that is named.
import assert from "node:assert/strict";
import Echo from "laravel-echo";
import Pusher from "pusher-js";
import { backend, done, first, page } from "./app.js";

for (const broadcaster of ["reverb", "pusher"]) {
  const echoOf = async (user) => new Echo({ ...(await page(user)), broadcaster, Pusher });
  const [bob, eve] = [await echoOf("bob"), await echoOf("eve")];
  const orders = bob.private("orders.7");
  const shipped = first((seen) => orders.listen("OrderShipped", seen));
  await first((seen) => orders.subscribed(seen));
  await backend.trigger("private-orders.7", "App\\Events\\OrderShipped", { order: 7 });
  assert.deepEqual((await shipped)[0], { order: 7 });
  done(`${broadcaster}: private`);

  const refused = await first((seen) => bob.private("no").error(seen));
  assert.equal(refused[0].status, 403);
  done(`${broadcaster}: refused`);

  const room = bob.join("room.7");
  const joining = first((seen) => room.joining(seen));
  const typing = first((seen) => room.listenForWhisper("typing", seen));
  const leaving = first((seen) => room.leaving(seen));
  assert.deepEqual((await first((seen) => room.here(seen)))[0], [{ name: "BOB" }]);
  const evesRoom = eve.join("room.7");
  assert.equal((await first((seen) => evesRoom.here(seen)))[0].length, 2);
  assert.deepEqual((await joining)[0], { name: "EVE" });
  done(`${broadcaster}: presence`);
  evesRoom.whisper("typing", { name: "eve" });
  assert.deepEqual((await typing)[0], { name: "eve" });
  done(`${broadcaster}: typing`);
  eve.leave("room.7");
  assert.deepEqual((await leaving)[0], { name: "EVE" });
  done(`${broadcaster}: leaving`);
  bob.disconnect();
  eve.disconnect();
}
process.exit(0);
