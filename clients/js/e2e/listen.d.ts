import type { Connection, EnckeEvent, Id, SendOptions } from "../src/index.js";
import type { SharedOptions } from "../src/shared.js";

/** What a connection told. */
export interface Told {
  events: EnckeEvent[];
  /** When each was heard, by the clock. */
  times: number[];
  gaps: number;
  /** Each with its transport: `open sse`. */
  states: string[];
  /** How long each failure after which it waited asked it to. */
  waits: number[];
  errors: string[];
  /** The payloads of the events, and `"gap"` where one was told. */
  log: unknown[];
}

/** How to connect, where to get a token, and whether with all tabs. */
export type Asked = SharedOptions & { tokenUrl?: string; shared?: boolean };

export function listen(url: string, options: Asked): { connection: Connection; told: Told };

export function send(
  connection: Connection,
  about: Id | Id[],
  data: unknown,
  options?: SendOptions,
): Promise<number>;

export function sees(connection: Connection, room: string, ids: string[]): Promise<void>;
