import { connect } from "./encke.js";

const ROOMS = ["lobby", "music", "code"];

/** Who types says so this often, and is taken for still typing a little longer. */
const TYPING_MS = 2000;

const $ = (id) => document.getElementById(id);

/** The room that is open, and how many were opened before. */
let leave = () => {};
let entered = 0;

$("login").onsubmit = (event) => {
  event.preventDefault();
  sessionStorage.setItem("name", $("name").value);
  enter();
};
addEventListener("hashchange", enter);
enter();

/** Opens the room that the address names. */
async function enter() {
  const name = sessionStorage.getItem("name");
  const turn = ++entered;
  leave();
  $("door").hidden = !!name;
  $("chat").hidden = !name;
  if (!name) {
    return;
  }
  const room = ROOMS.find((room) => location.hash === `#${room}`) ?? ROOMS[0];
  const getToken = async () => (await fetch(`token?name=${encodeURIComponent(name)}`)).json();
  const { url } = await getToken();
  if (turn !== entered) {
    // Another room was opened meanwhile.
    return;
  }
  const connection = connect(url, {
    ids: [`room:${room}`, `typing:${room}`],
    token: async () => (await getToken()).token,
    // What was said before: messages stay when the page is loaded again.
    last: 50,
    retryMaxMs: 5000,
  });
  leave = () => connection.close();
  show(connection, room, name);
}

function show(connection, room, name) {
  const typing = new Map();
  $("room").textContent = `#${room}`;
  $("messages").replaceChildren();
  $("members").replaceChildren();
  $("count").textContent = 0;
  $("typing").textContent = $("error").textContent = "";
  $("rooms").replaceChildren(
    ...ROOMS.map((one) => {
      const link = make("a", `#${one}`, { href: `#${one}` });
      link.ariaCurrent = one === room ? "page" : null;
      return link;
    }),
  );

  connection.on("state", (state) => {
    $("state").textContent = { open: "", closed: "You are gone." }[state] ?? "Connecting …";
  });
  connection.on("error", (error) => ($("error").textContent = error.message));
  connection.on("gap", () => write(make("li", "Some messages are missing here.")));

  connection.on("event:said", ({ from, data }) => {
    const time = new Date(data.at).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
    const line = make("li", "");
    line.append(make("b", from), make("time", time), make("span", data.text));
    line.toggleAttribute("data-own", from === name);
    typing.delete(from);
    tellTyping();
    write(line);
  });

  connection.on("event:typing", ({ from, data }) => {
    // What somebody typed before this page was there is over.
    if (Date.now() - data.at < 2 * TYPING_MS) {
      clearTimeout(typing.get(from));
      typing.set(from, setTimeout(() => typing.delete(from) && tellTyping(), 1.5 * TYPING_MS));
      tellTyping();
    }
  });

  const members = connection.members(`room:${room}`);
  members.on("change", ({ list, count }) => {
    $("count").textContent = count;
    $("members").replaceChildren(
      ...list
        .map(({ id }) => id)
        .sort()
        .map((id) => make("li", id === name ? `${id} (you)` : id)),
    );
  });

  let typedAt = 0;
  $("text").oninput = () => {
    if (connection.state === "open" && Date.now() - typedAt > TYPING_MS) {
      typedAt = Date.now();
      const data = { at: typedAt };
      // Nobody minds if that gets lost, and later it would be wrong.
      connection.send(`typing:${room}`, data, { event: "typing", queueMs: 500 }).catch(() => {});
    }
  };
  $("say").onsubmit = async (event) => {
    event.preventDefault();
    const text = $("text").value;
    $("text").value = $("error").textContent = "";
    typedAt = 0;
    try {
      // With the echo a message stands where the others have it, too.
      await connection.send(`room:${room}`, { text, at: Date.now() }, { event: "said", echo: true });
    } catch (error) {
      $("text").value ||= text;
      $("error").textContent = `Not sent. ${error.message}`;
    }
  };
  $("text").focus();

  function tellTyping() {
    if (connection.state === "closed") {
      // Another room is open, which has its own.
      return;
    }
    const names = [...typing.keys()].join(" and ");
    $("typing").textContent = names && `${names} ${typing.size > 1 ? "are" : "is"} typing …`;
  }
}

function write(line) {
  const messages = $("messages");
  messages.append(line);
  messages.scrollTop = messages.scrollHeight;
}

function make(name, text, attributes = {}) {
  return Object.assign(document.createElement(name), { textContent: text }, attributes);
}
