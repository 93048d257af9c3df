// What a page of Socket.IO does with its socket.
import { connect } from "./encke.js";

async function ask(handler, data) {
  const answer = await fetch(handler, { method: "POST", body: JSON.stringify(data) });
  if (!answer.ok) throw new Error(`The backend answers ${answer.status}.`);
  return answer.json();
}

export async function enter(name, room, { show, here, state }) {
  const { url } = await ask("login", { name });
  const token = async () => (await ask("login", { name })).token;
  const connection = connect(url, { ids: room, token });
  connection.on("event:message", ({ about, from, data }) => show(about, `${from}: ${data}`));
  connection.on("event:rolled", ({ about, data }) => show(about, `${data.name}: ${data.number}`));
  connection.on("gap", () => show(room, "Something is missing here."));
  connection.on("state", state);

  const say = (text) => connection.send(room, text, { event: "message" });
  const roll = () => ask("roll", { name, room });

  const watch = () => {
    const members = connection.members(room);
    members.on("change", ({ list }) => here(list.map(({ id }) => id)));
    return members;
  };
  let members = watch();
  const join = (next) => {
    members.stop();
    connection.login(next);
    connection.logout(room);
    room = next;
    members = watch();
  };
  return { join, say, roll };
}
