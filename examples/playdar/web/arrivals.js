// One query and what comes back: over Encke's stream, each answer as it is found, or by asking the
// daemon again and again where that stream cannot be reached.
//
// The page makes up the query's id and listens to it before it asks, so that no answer can come
// before somebody listens. After a break the browser goes on after the last event that it has
// heard (`Last-Event-ID`); what may have been missed all the same is looked up once.

/** How long the stream may take to open before the query goes out without it. */
const OPEN_MS = 1500;

/** How long the daemon may take until it says that there is no more; its cap is 60 s. */
const LONG_MS = 4000;

/** What a daemon that names none gets asked by: the numbers of the old ones. */
const POLL = { poll_interval: 1000, poll_limit: 6 };

/** Calls the daemon's API; the error's text is for people. */
export async function call(method, parameters = {}, signal = undefined) {
  const query = new URLSearchParams({ method, ...parameters });
  const answer = await fetch(`/api/?${query}`, { signal }).catch((error) => {
    throw error instanceof TypeError ? new Error("The daemon does not answer: is it running?") : error;
  });
  if (!answer.ok) throw new Error(`The daemon answered ${answer.status} to ${method}.`);
  return answer.json();
}

/**
 * A query on its way. `on` has `result(result)` for each answer, the same one perhaps twice,
 * `state(name, words)` for where it stands, `done()` once the daemon has asked all, and
 * `failed(words)` where it cannot.
 */
export class Arrivals {
  #qid = crypto.randomUUID().toUpperCase();
  #abort = new AbortController();
  #isAsked = false;
  #isDone = false;
  #hasResult = false;
  #source;

  constructor(query, streams, on) {
    this.query = query;
    this.on = on;
    on.state("waiting", "connecting");
    if (streams) this.#listen(streams);
    else void this.#ask(false);
  }

  /** Hears no more of it. The daemon forgets it at once, unless something of it may be playing. */
  close() {
    this.#source?.close();
    this.#abort.abort();
    const isIdle = !this.#isAsked || this.#isDone || this.#hasResult;
    if (!isIdle) call("cancel", { qid: this.#qid }).catch(() => {});
  }

  #listen(streams) {
    const source = new EventSource(`${streams}/stream/query:${this.#qid}`);
    this.#source = source;
    const late = setTimeout(() => void this.#ask(false), OPEN_MS);
    source.addEventListener("open", () => {
      clearTimeout(late);
      this.on.state("open", "live over SSE");
      if (this.#isAsked) this.#lookUp();
      else void this.#ask(true);
    });
    source.addEventListener("message", ({ data }) => this.#event(data));
    source.addEventListener("gap", () => this.#lookUp());
    source.addEventListener("error", () => {
      if (source.readyState === EventSource.CONNECTING) {
        this.on.state("waiting", "trying again");
        return;
      }
      clearTimeout(late);
      void (this.#isAsked ? this.#poll() : this.#ask(false));
    });
    this.#abort.signal.addEventListener("abort", () => clearTimeout(late));
  }

  #event(line) {
    const { data } = JSON.parse(line);
    const results = Array.isArray(data?.results) ? data.results : [data?.result ?? data];
    for (const result of results) this.#give(result);
  }

  /** Whatever has no `sid` is no result, and nothing that could be played. */
  #give(result) {
    if (typeof result?.sid !== "string") return;
    this.#hasResult = true;
    this.on.result(result);
  }

  /** Sends the query out, once; the stream brings the answers, or else polls do. */
  async #ask(isHeard) {
    if (this.#isAsked) return;
    this.#isAsked = true;
    try {
      await call("resolve", { ...this.query, qid: this.#qid }, this.#abort.signal);
      if (!isHeard) void this.#poll();
      const long = { qid: this.#qid, timeout: LONG_MS };
      this.#take(await call("get_results_long", long, this.#abort.signal));
      this.#isDone = true;
      this.on.done();
    } catch (error) {
      this.#failed(error);
    }
  }

  async #poll() {
    this.on.state("open", "asking again and again");
    try {
      for (let polls = 1; ; polls += 1) {
        const told = await call("get_results", { qid: this.#qid, poll: polls }, this.#abort.signal);
        this.#take(told);
        const { poll_interval, poll_limit } = { ...POLL, ...told };
        if (told.solved || polls >= poll_limit || poll_interval <= 0) return;
        await new Promise((resolve) => setTimeout(resolve, poll_interval));
      }
    } catch (error) {
      this.#failed(error);
    }
  }

  #lookUp() {
    const looked = call("get_results", { qid: this.#qid }, this.#abort.signal);
    looked.then((told) => this.#take(told)).catch((error) => this.#failed(error));
  }

  #take({ results }) {
    for (const result of results ?? []) this.#give(result);
  }

  #failed(error) {
    if (!this.#abort.signal.aborted) this.on.failed(error.message);
  }
}
