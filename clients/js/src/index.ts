/**
 * The client of Encke: events pushed to browsers and Node over WebSocket, SSE or long poll.
 *
 * The protocol stands in the project's `docs/protocol.md`.
 */

export { connect } from "./connection.js";
export type {
  Connection,
  EnckeEvent,
  Failure,
  Id,
  Listeners,
  Options,
  State,
  TransportName,
} from "./types.js";
