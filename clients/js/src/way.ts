/**
 * Which transport a connection takes, where there is but one.
 *
 * `ways.ts` has the choice between several.
 */

import type { Token } from "./token.js";
import type { Failure, TransportName } from "./types.js";

/** The choice of one connection. */
export class Way {
  name: TransportName = "sse";

  /** With the names in the order in which they are to be tried, for a server at `base`. */
  constructor(_names: readonly TransportName[] | undefined, _base: string) {}

  /** The stream has opened, and its address had room for all ids if `isWhole`. */
  proven(_isWhole: boolean): void {}

  /** Begins at what is best; at the first that was named if the address `isOther`. */
  begin(_isOther: boolean): void {}

  /** It did not open; whether the next one is tried at once. */
  failed(_why: Failure, _tokens: Token): boolean | void {}
}
