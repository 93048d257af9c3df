import type { Connection, EnckeEvent, Options } from "../src/index.js";

/** What a connection told. */
export interface Told {
  events: EnckeEvent[];
  gaps: number;
  /** Each with its transport: `open sse`. */
  states: string[];
  /** How long each failure after which it waited asked it to. */
  waits: number[];
  errors: string[];
  /** The payloads of the events, and `"gap"` where one was told. */
  log: unknown[];
}

export function listen(url: string, options: Options): { connection: Connection; told: Told };
