// The stream of one user: events as they come, and how the line is.

import type { Event } from "./news";

export type State = "connecting" | "live" | "away";

export interface Ears {
  event(event: Event): void;
  state(state: State): void;
  /** Some news was missed that the server does not remember any more. */
  gap(): void;
}

/** A browser tries a cut line again by itself, but not one that was answered with an error. */
const RETRY_MS = 3000;

/** Listens as `id`; the function that it returns ends that. */
export function listen(id: string, ears: Ears): () => void {
  let source: EventSource;
  let timer = 0;
  const open = (): void => {
    source = new EventSource(`/stream/${encodeURIComponent(id)}`);
    source.onopen = () => ears.state("live");
    source.onmessage = ({ data }) => ears.event(JSON.parse(data) as Event);
    source.addEventListener("gap", () => ears.gap());
    source.onerror = () => {
      ears.state("away");
      if (source.readyState === EventSource.CLOSED) timer = window.setTimeout(open, RETRY_MS);
    };
  };
  ears.state("connecting");
  open();
  return () => {
    clearTimeout(timer);
    source.close();
  };
}
