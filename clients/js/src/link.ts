/**
 * The seam between the connection, which knows when and why, and the transports, which know how.
 *
 * A transport makes one attempt: it opens a stream, tells what it hears, and settles when the
 * stream has ended. It never retries, and it stops when the signal says so.
 */

import type { EnckeEvent, Failure } from "./types.js";

/** One attempt, as a transport sees it. */
export interface Link {
  /** Aborted when the attempt must end. */
  readonly signal: AbortSignal;
  readonly shared: { readonly openMs: number; readonly silenceMs: number };
  /** The address of `path` with the ids, and with the cursor as the parameter `after`. */
  url(path: "stream" | "poll", after: string): URL;
  /** Ends the attempt after so much time unless called again; 0 is never. */
  watch(ms: number, act?: () => void): void;
  /** The server has taken the login; `say` sends it further ones on the same stream. */
  opened(say?: (words: object) => void): void;
  event(event: EnckeEvent): void;
  gap(): void;
  /** Everything up to `id` was heard. */
  heard(id: string): void;
  /** The answer to the oldest thing that was said: nothing, or why it was refused. */
  answered(failure?: Failure): void;
}

/** Makes one attempt. */
export type Transport = (link: Link) => Promise<void>;
