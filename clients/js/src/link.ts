/**
 * The seam between the connection, which knows when and why, and the transports, which know how.
 *
 * A transport makes one attempt: it opens a stream, tells what it hears, and settles when the
 * stream has ended. It never retries, and it stops when the signal says so.
 */

import type { EnckeEvent } from "./types.js";

/** One attempt, as a transport sees it. */
export interface Link {
  /** Aborted when the attempt must end. */
  readonly signal: AbortSignal;
  /** What the server is shown, if anything. */
  readonly token: string;
  /** After how many milliseconds the server wants it back, if it has said so. */
  retry?: string | number;
  readonly shared: {
    readonly openMs: number;
    readonly silenceMs: number;
    /** The id that the server has given the stream. */
    id: string;
  };
  /** The address of `path` with the ids, and with the cursor as the parameter `after`. */
  url(path: "stream" | "poll", after: string): URL;
  /** Ends the attempt after so much time unless called again; 0 is never. */
  watch(ms: number, act?: () => void): void;
  /** The server has taken the login; told again with all that it says. */
  opened(): void;
  /** What the server has sent, which is JSON; else an error is told, and thrown. */
  parsed(text: string): any;
  /** Hears an event, or something else that has no place of its own. */
  event(event?: EnckeEvent | null): void;
  /** Events were missed; all up to `id`, if that is known, was missed or heard. */
  gap(id?: string | null): void;
  /** Everything up to `id` was heard; whether that is news. */
  heard(id?: string | null): boolean;
}

/** Makes one attempt. Resolves when the server ended the stream in good order. */
export type Transport = (link: Link) => Promise<void>;
