// The page's fields and buttons. What they do is in room.js.
import { enter } from "./room.js";

const at = (id) => document.getElementById(id);
const room = () => `room:${at("room").value}`;

function show(about, text) {
  const line = document.createElement("li");
  line.textContent = text;
  // The visitor may be in another room by now.
  if (about === room()) at("lines").append(line);
}

at("door").onsubmit = async (event) => {
  event.preventDefault();
  const name = at("name").value;
  const here = (names) => (at("here").value = names.sort().join(", "));
  const state = (now) => (at("state").textContent = now);
  const { join, say, roll } = await enter(name, room(), { show, here, state });
  at("door").hidden = true;
  at("talk").hidden = false;
  at("room").onchange = () => {
    at("lines").replaceChildren();
    join(room());
  };
  at("say").onsubmit = (event) => {
    event.preventDefault();
    const [about, text] = [room(), at("text").value];
    at("say").reset();
    // The sender does not hear it, and shows it when it is acknowledged.
    const said = () => show(about, `${name}: ${text}`);
    say(text).then(said, (error) => show(about, `Not sent. ${error.message}`));
  };
  at("roll").onclick = async () => {
    const { number } = await roll();
    at("yours").value = `You have a ${number}.`;
  };
};
