// The stream of one user, through the client library: events as they come, and how the line is.

import { connect, type State, type TransportName } from "encke";
import type { Event } from "./news";

export type { State, TransportName };

export interface Ears {
  event(event: Event): void;
  state(state: State, transport: TransportName): void;
  /** Some news was missed that the server does not remember any more. */
  gap(): void;
  /** The server does not let this user in, and says why. */
  refused(why: string): void;
}

/** A page that somebody looks at comes back sooner than a program would. */
const RETRY_MAX_MS = 5000;

/** Listens as `id`, with `token` if streams ask for one; the function that it returns ends that. */
export function listen(id: string, token: string | null, ears: Ears): () => void {
  const options = { ids: id, token: token ?? "", retryMaxMs: RETRY_MAX_MS };
  const connection = connect<unknown>("/", options);
  let isLeft = false;
  ears.state(connection.state, connection.transport);
  connection.on("event", (event) => ears.event(event));
  connection.on("gap", () => ears.gap());
  connection.on("state", (state) => {
    if (!isLeft) ears.state(state, connection.transport);
  });
  connection.on("error", (error) => {
    // All else is tried again, which the state says.
    if (error.final) ears.refused(error.message);
  });
  return () => {
    isLeft = true;
    connection.close();
  };
}
