// ws.
import WebSocket from "ws";

import { ASK, address, again, hear } from "./websocket.js";

function open() {
  const socket = new WebSocket(address());
  socket.on("open", () => socket.send(ASK));
  socket.on("message", (data) => hear(data.toString()));
  // A close follows each error.
  socket.on("error", () => {});
  socket.on("close", () => again(open));
}

open();
