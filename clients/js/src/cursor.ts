/**
 * How far a client has heard.
 *
 * Ids of events have one length and grow on every connection, so text order is their order, and one
 * id says it all. After a gap the server may be another one with lower ids: then the next id counts
 * whatever it is, and until it comes the old one stays, lest a second failure make a silent hole.
 * Where the place behind the gap comes with it, that is the next id.
 */
export class Cursor {
  #afterGap: boolean;

  constructor(
    /** Everything up to this id was heard; `earliest` is before all ids. */
    public at: string,
  ) {
    this.#afterGap = at === "earliest";
  }

  /** Moves on to `id`; false when that was heard before. */
  pass(id?: string | null): boolean {
    if (!id || (id <= this.at && !this.#afterGap)) {
      return false;
    }
    this.at = id;
    this.#afterGap = false;
    return true;
  }

  /** Events were missed. All up to `id` is done with, if that is known. */
  gap(id?: string | null): void {
    this.#afterGap = true;
    this.pass(id);
  }
}
