// The figures as they come: asks the API for the id that they are sent about, opens a stream of it
// on the public port, and begins again whenever either is lost. A server that was started anew has
// another id, so what it counts is not mixed with what the last one counted.

import { type Facts, type Sample, facts, streamUrl } from "./api";

export type State = "wait" | "live" | "lost" | "unreachable";

export interface Listener {
  /** The connection's state, and a sentence about it. */
  state(state: State, text: string): void;
  /** What the server says of itself; `restarted` when it is another run than before. */
  server(facts: Facts, restarted: boolean): void;
  sample(sample: Sample): void;
}

/** Waits between tries: double each time, up to the longest, each shortened by chance so that many
    pages do not come at once. */
const WAIT_MS = { first: 500, longest: 5_000 };

/** Without a sample for so many intervals the stream counts as lost, whatever the browser says. */
const INTERVALS_OF_SILENCE = 5;

export class Live {
  private id: string | null = null;
  private tries = 0;
  private heard = false;
  private stream: EventSource | null = null;
  private silence: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly to: Listener) {}

  async start(): Promise<void> {
    try {
      const told = await facts();
      this.open(told);
    } catch {
      this.again("lost", "The server does not answer. Trying again");
    }
  }

  private open(told: Facts): void {
    const restarted = this.id !== null && this.id !== told.id;
    this.id = told.id;
    this.heard = false;
    this.to.server(told, restarted);
    const stream = new EventSource(streamUrl(told.public_url, told.id));
    this.stream = stream;
    stream.onmessage = ({ data }: MessageEvent<string>) => {
      this.heard = true;
      this.tries = 0;
      this.to.state("live", restarted ? "Live again: the server was restarted" : "Live");
      this.to.sample((JSON.parse(data) as { data: Sample }).data);
      this.mind(told);
    };
    stream.onerror = () => this.lost(told);
    this.mind(told);
  }

  /** Gives the stream its time until the next event. */
  private mind(told: Facts): void {
    clearTimeout(this.silence);
    const patience = INTERVALS_OF_SILENCE * told.interval_seconds * 1000;
    this.silence = setTimeout(() => this.lost(told), patience);
  }

  private lost(told: Facts): void {
    this.stream?.close();
    clearTimeout(this.silence);
    if (this.heard) {
      this.again("lost", "Connection lost. Trying again");
    } else {
      this.again("unreachable", `No stream from ${told.public_url}. Trying again`);
    }
  }

  private again(state: State, text: string): void {
    this.to.state(state, text);
    const wait = Math.min(WAIT_MS.longest, WAIT_MS.first * 2 ** this.tries);
    this.tries += 1;
    setTimeout(() => void this.start(), wait * (0.5 + Math.random() / 2));
  }
}
