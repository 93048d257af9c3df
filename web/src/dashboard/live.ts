// The figures as they come: asks the API for the id that they are sent about, and listens to it on
// the public port by the client library, which comes back by itself and hears what it missed. A
// server that was started anew has another id, so what it counts is not mixed with what the last
// one counted: whatever looks like that, a gap or a silence, is a reason to ask again.
//
// Each answer of the API has the figures of the last minutes too. So a hole is filled with the next
// one, and a page that cannot reach the public port goes on with answers alone.

import { type Connection, connect, type State as LineState } from "encke";
import { type Facts, type Sample, facts } from "./api";

export type State = "wait" | "live" | "lost" | "unreachable";

export interface Listener {
  /** The connection's state, and a sentence about it. */
  state(state: State, text: string): void;
  /** What the server says of itself, for the first time or of another run than before. */
  server(facts: Facts, restarted: boolean): void;
  /** The figures of an answer: of this moment, and of the last minutes. */
  told(facts: Facts): void;
  sample(sample: Sample): void;
}

/** Somebody looks at this page: it comes back sooner than a program would. */
const RETRY_MAX_MS = 5_000;

/** Without a sample for so many intervals something is wrong, whatever the line says. */
const INTERVALS_OF_SILENCE = 5;

/** The same where there is no line: then answers are all there is. */
const INTERVALS_WITHOUT_LINE = 2;

/** How long a line may be lost before it is taken for out of reach. */
const LOST_MS = 10_000;

/** How long a restart is worth a word. */
const RESTARTED_MS = 10_000;

export class Live {
  private told: Facts | null = null;
  private line: Connection<{ "": Sample }> | null = null;
  private heard = false;
  private asking = false;
  /** Whether the API has answered, when it was asked last. */
  private answers = false;
  private lostAt: number | null = null;
  /** When another run of the server was met. */
  private restartedAt = -Infinity;
  private silence: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly to: Listener) {}

  /** Asks what to listen to, and listens to it unless that is done already. */
  async start(): Promise<void> {
    if (this.asking) return;
    this.asking = true;
    try {
      const told = await facts();
      this.answers = true;
      if (told.id !== this.told?.id || this.line?.state === "closed") this.open(told);
      this.to.told(told);
      if (this.lostAt !== null) this.lost();
    } catch {
      this.answers = false;
      this.to.state("lost", "The server does not answer. Trying again");
    } finally {
      this.asking = false;
      this.mind();
    }
  }

  private open(told: Facts): void {
    const restarted = this.told !== null && this.told.id !== told.id;
    if (restarted) this.restartedAt = performance.now();
    this.line?.close();
    this.told = told;
    this.heard = false;
    this.lostAt = null;
    this.to.server(told, restarted);
    const { public_url: url, interval_seconds: seconds, id, token } = told;
    const silenceMs = INTERVALS_OF_SILENCE * seconds * 1000;
    const options = { ids: id, token, retryMaxMs: RETRY_MAX_MS, silenceMs };
    const line = connect<{ "": Sample }>(url, options);
    this.line = line;
    line.on("event", ({ data }) => {
      this.heard = true;
      this.lostAt = null;
      const isNews = performance.now() - this.restartedAt < RESTARTED_MS;
      this.to.state("live", isNews ? "Live again: the server was restarted" : "Live");
      this.to.sample(data);
      this.mind();
    });
    line.on("gap", () => void this.start());
    line.on("state", (state) => this.turned(state));
    line.on("error", (error) => this.to.state("unreachable", error.message));
  }

  /** The line is in another state. It is live with its first sample, not before. */
  private turned(state: LineState): void {
    if (state !== "waiting") return;
    this.lostAt ??= performance.now();
    this.lost();
    this.mind();
  }

  /** There is no line: because the server is gone, or because it is out of this page's reach. */
  private lost(): void {
    const isLong = performance.now() - (this.lostAt ?? Infinity) > LOST_MS;
    if (!this.answers) this.to.state("lost", "The server does not answer. Trying again");
    else if (this.heard && !isLong) this.to.state("lost", "Connection lost. Trying again");
    else this.to.state("unreachable", "No stream. Trying again");
  }

  /** Gives the next sample its time; after that the server is asked again. */
  private mind(): void {
    clearTimeout(this.silence);
    const hasLine = this.heard && this.line?.state === "open";
    const intervals = hasLine ? INTERVALS_OF_SILENCE : INTERVALS_WITHOUT_LINE;
    const patience = intervals * (this.told?.interval_seconds ?? 1) * 1000;
    this.silence = setTimeout(() => void this.start(), patience * (0.75 + Math.random() / 4));
  }
}
