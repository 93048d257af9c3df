// undici's WebSocket, which is Node's own: the interface of browsers.
import { WebSocket } from "undici";

import { ASK, address, again, hear } from "./websocket.js";

function open() {
  const socket = new WebSocket(address());
  socket.addEventListener("open", () => socket.send(ASK));
  socket.addEventListener("message", (event) => hear(event.data));
  socket.addEventListener("close", () => again(open));
}

open();
