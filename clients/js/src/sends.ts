/**
 * What a client sends: what waits for the stream to open, and what waits for its answer.
 *
 * What was said to a stream that ended without an answer is said again to the next one. Each send
 * has an idempotency key, by which the server posts it once. The server leaves the sender's own
 * connection out; where it cannot (a poll has none of its own, a stream that is resumed is another
 * one, tabs share theirs) the event comes back, and is recognised here.
 */

import type { EnckeEvent, Failure, Id, SendOptions, Sent } from "./types.js";

/** A send, as it is said to the server. */
export interface Body {
  about: string[];
  event?: string;
  data: unknown;
  key: string;
  echo?: true;
}

/** Says a send to the server; whether the next one may be said before the answer is here. */
export type Say = (ref: number, body: Body, endsAt: number, signal: AbortSignal) => boolean;

interface Send {
  readonly body: Body;
  /** When it is of no use any more, by the clock. */
  readonly endsAt: number;
  readonly resolve: (sent: Sent) => void;
  readonly reject: (why: Failure) => void;
  timer?: ReturnType<typeof setTimeout>;
  /** Ends what was said; it has ended when that is to be said again, and may be posted already. */
  request?: AbortController;
  /** It had to wait, so a rate limit is no news to its sender. */
  waited?: boolean;
  /** Why it was not taken yet. */
  why?: Failure;
  /** Events that may be this one, come back before the answer. */
  readonly back: EnckeEvent[];
}

/** So many of its own events are recognised that have been answered. */
const OWN_MAX = 100;

const CLOSED = "The connection is closed";

/** How long after a failure that passes, if the server does not say. */
const AGAIN_MS = 500;

/** The sends of one client. */
export class Sends {
  /** Those without an answer, oldest first, by the number that the answer repeats. */
  #all = new Map<number, Send>();
  #count = 0;
  #say?: Say;
  /** What was said, and wants its answer before the next one is. */
  #alone?: Send;
  #isClosed = false;
  #pause?: ReturnType<typeof setTimeout>;
  /** Events of its own that have not come back, and mostly will not. */
  #own = new Set<string>();
  #lot = crypto.getRandomValues(new Uint32Array(4)).join("-");

  /** At most `most` wait, each for so long; `tell` hears what was held back in vain. */
  constructor(
    readonly tell: (event: EnckeEvent) => void,
    readonly most = 100,
    readonly ms = 30_000,
  ) {}

  send(about: Id | readonly Id[], data: unknown, options: SendOptions = {}): Promise<Sent> {
    const ref = ++this.#count;
    const { event, echo, key = `${this.#lot}-${ref}`, queueMs = this.ms } = options;
    return new Promise((resolve, reject) => {
      if (this.#isClosed || this.#all.size >= this.most) {
        const why = `${this.most} sends wait for an answer`;
        return reject(new Error(this.#isClosed ? CLOSED : why));
      }
      const subjects = [...new Set([about].flat().map(String))];
      const body = { about: subjects, event, data: data ?? null, key, echo: echo || undefined };
      const send: Send = {
        // As it is now, whatever becomes of the object until it is said.
        body: JSON.parse(JSON.stringify(body)),
        endsAt: queueMs ? Date.now() + queueMs : Infinity,
        resolve,
        reject,
        waited: !this.#say || !!this.#pause,
        back: [],
      };
      if (queueMs) {
        const late = new Error(`No answer within ${queueMs} ms`);
        send.timer = setTimeout(() => this.#done(ref, send.why ?? late), queueMs);
      }
      this.#all.set(ref, send);
      this.#go();
    });
  }

  /** The stream is open. */
  open(say: Say): void {
    this.#say = say;
    this.#go();
  }

  /** It has ended: what it did not answer is said to the next one. */
  hush(): void {
    clearTimeout(this.#pause);
    this.#say = this.#pause = undefined;
    this.#all.forEach((send) => this.#back(send));
  }

  /** Nobody is told anything any more. */
  end(): void {
    this.hush();
    this.#isClosed = true;
    [...this.#all.keys()].forEach((ref) => this.#done(ref, new Error(CLOSED)));
  }

  /** The server's answer to the send of that number. */
  answered(ref: number, failure?: Failure, sent?: Sent): void {
    const send = this.#all.get(ref);
    if (send?.request?.signal.aborted !== false) {
      return;
    }
    const { status = 0, retryAfterMs } = failure ?? {};
    // A key that is being posted, a token that is renewed, a server that stops or is full.
    const passes =
      !status ||
      status > 499 ||
      [401, 408].includes(status) ||
      (retryAfterMs && (status === 409 || (status === 429 && send.waited)));
    if (failure && passes) {
      this.#back(send);
      send.why = failure;
      this.#pause ??= setTimeout(() => {
        this.#pause = undefined;
        this.#go();
      }, retryAfterMs || AGAIN_MS);
    } else {
      this.#done(ref, failure, sent);
    }
  }

  /** Whether it is one of its own that asked for no echo; or may be, and is kept until then. */
  isOwn(event: EnckeEvent): boolean {
    if (this.#own.delete(event.id)) {
      return true;
    }
    const text = textOf([event.about, ...(event.also ?? [])], event);
    for (const { body, request, back } of this.#all.values()) {
      if (request && !body.echo && text === textOf(body.about, body)) {
        back.push(event);
        return true;
      }
    }
    return false;
  }

  /** Says what was not said, in the order in which it came. */
  #go(): void {
    for (const [ref, send] of this.#all) {
      if (!this.#say || this.#pause || this.#alone) {
        return;
      }
      if (send.request?.signal.aborted !== false) {
        send.request = new AbortController();
        if (!this.#say(ref, send.body, send.endsAt, send.request.signal)) {
          this.#alone = send;
        }
      }
    }
  }

  /** It is to be said again. */
  #back(send: Send): void {
    send.request?.abort();
    send.waited = true;
    if (this.#alone === send) {
      this.#alone = undefined;
    }
  }

  #done(ref: number, failure?: Failure, sent?: Sent): void {
    const send = this.#all.get(ref)!;
    this.#all.delete(ref);
    clearTimeout(send.timer);
    this.#back(send);
    const others = send.back.filter(({ id }) => id !== sent?.id);
    if (sent && !send.body.echo && others.length === send.back.length) {
      this.#own.add(sent.id);
      if (this.#own.size > OWN_MAX) {
        this.#own.delete([...this.#own][0]);
      }
    }
    if (sent) {
      send.resolve(sent);
    } else {
      send.reject(failure ?? new Error("The answer is none"));
    }
    others.forEach(this.tell);
    this.#go();
  }
}

/** What a send and the event that it becomes have in common. */
function textOf(subjects: readonly string[], { event, data }: { event?: string; data: unknown }) {
  return JSON.stringify([subjects, event, data]);
}
