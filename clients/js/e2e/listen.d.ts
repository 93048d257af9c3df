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

/** How to connect, and where to get a token. */
export type Asked = Options & { tokenUrl?: string };

export function listen(url: string, options: Asked): { connection: Connection; told: Told };
