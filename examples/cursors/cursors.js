import { connect } from "../../clients/js/dist/encke.js";

/** How often a page says where its pointer is: 30 times a second. */
const SAY_MS = 1000 / 30;

/** A page that says nothing for so long is gone; each says where it is at least this often. */
const GONE_MS = 10_000;

const query = new URLSearchParams(location.search);
const room = `cursors:${query.get("room") ?? "demo"}`;
const server = query.get("server") ?? "http://127.0.0.1:8000";
const name = query.get("name") ?? `Guest ${Math.floor(1000 * Math.random())}`;
const hue = Math.floor(360 * Math.random());

/** By name, the cursors of the others. */
const others = new Map();
let place;
let saidAt = 0;

document.querySelector("#name").textContent = name;
const connection = connect(server, { ids: room });

connection.on("state", (state) => (document.querySelector("#state").textContent = state));
connection.on("error", (error) => (document.querySelector("#state").textContent = error.message));

connection.on("event:moved", ({ data: { name, hue, x, y } }) => {
  let other = others.get(name);
  if (!other) {
    const element = document.querySelector("#cursor").content.firstElementChild.cloneNode(true);
    element.querySelector("span").textContent = name;
    element.style.setProperty("--hue", hue);
    document.body.append(element);
    others.set(name, (other = { element }));
  }
  // In parts of the window, which is of another size elsewhere.
  other.element.style.transform = `translate(${x * innerWidth}px, ${y * innerHeight}px)`;
  clearTimeout(other.timer);
  other.timer = setTimeout(() => forget(name), GONE_MS);
  count();
});

connection.on("event:gone", ({ data }) => forget(data.name));

addEventListener("pointermove", ({ clientX, clientY }) => {
  place = { x: clientX / innerWidth, y: clientY / innerHeight };
});
addEventListener("pagehide", () => say("gone", { name }));

setInterval(() => {
  const isLong = performance.now() - saidAt > GONE_MS / 2;
  if (place && connection.state === "open" && (isLong || !place.isSaid)) {
    place.isSaid = true;
    saidAt = performance.now();
    say("moved", { name, hue, x: place.x, y: place.y });
  }
}, SAY_MS);

/** Says it now or never: where a pointer was is of no use. */
function say(event, data) {
  connection.send(room, data, { event, queueMs: 500 }).catch(() => {});
}

function forget(name) {
  clearTimeout(others.get(name)?.timer);
  others.get(name)?.element.remove();
  others.delete(name);
  count();
}

function count() {
  document.querySelector("#others").textContent = others.size;
}
