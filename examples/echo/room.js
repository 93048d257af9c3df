import Echo from "./echo.js";

const at = (id) => document.getElementById(id);
const { key, ws } = await (await fetch("app.json")).json();
const [wsHost, wsPort] = ws.split(":");

at("door").addEventListener("submit", (event) => {
  event.preventDefault();
  enter(at("name").value);
});

function enter(name) {
  const echo = new Echo({
    broadcaster: "reverb",
    Pusher: window.Pusher,
    key,
    wsHost,
    wsPort: Number(wsPort),
    forceTLS: false,
    enabledTransports: ["ws"],
    authEndpoint: `/broadcasting/auth?name=${name}`,
  });
  let here = [];
  const show = (users) => {
    here = users;
    at("here").value = here.map((user) => user.name).join(", ");
  };
  const say = (said) => {
    const line = document.createElement("li");
    line.textContent = `${said.name}: ${said.text}`;
    at("messages").append(line);
  };
  let silence;
  const room = echo
    .join("room.1")
    .here(show)
    .joining((user) => show([...here, user]))
    .leaving((user) => show(here.filter((other) => other.name !== user.name)))
    .listen(".Said", say)
    .listenForWhisper("typing", (user) => {
      at("typing").textContent = `${user.name} is typing`;
      clearTimeout(silence);
      silence = setTimeout(() => (at("typing").textContent = ""), 2000);
    });
  at("text").addEventListener("input", () => room.whisper("typing", { name }));
  at("say").addEventListener("submit", async (event) => {
    event.preventDefault();
    const text = at("text").value;
    const body = new URLSearchParams({ text, socket_id: echo.socketId() });
    await fetch(`/say?name=${name}`, { method: "POST", body });
    say({ name, text });
    at("say").reset();
  });
  at("door").hidden = true;
  at("room").hidden = false;
}
