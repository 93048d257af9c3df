// What the page asks of the API, which lets it do just this.

export interface Facts {
  api_port: number;
  users: number;
  events_per_second: number;
  /** By which one is any of the users, where streams ask for tokens. */
  token: string | null;
}

/** Ids that a list shows are counted up to here. */
export const COUNT_MAX = 1000;

export interface Sent {
  delivered: number;
  id: string;
}

export interface Ids {
  ids: string[];
  /** There are more. */
  next: string | null;
}

/** An answer that says what is wrong. */
export class Refused extends Error {}

export class Api {
  readonly #base: string;

  constructor(port: number) {
    this.#base = `${location.protocol}//${location.hostname}:${port}`;
  }

  /** Who hears `id`. */
  followers(id: string, signal: AbortSignal): Promise<Ids> {
    return this.#ask(`/subscribers/${encodeURIComponent(id)}?limit=${COUNT_MAX}`, { signal });
  }

  /** Whom `id` hears. */
  following(id: string, signal?: AbortSignal): Promise<Ids> {
    const path = `/subscriptions/${encodeURIComponent(id)}?limit=${COUNT_MAX}`;
    return this.#ask(path, signal === undefined ? {} : { signal });
  }

  /** How many streams `id` has open. */
  async streams(id: string, signal: AbortSignal): Promise<number> {
    const path = `/connections/${encodeURIComponent(id)}`;
    const { connections } = await this.#ask<{ connections: number }>(path, { signal });
    return connections;
  }

  send(about: string, data: unknown): Promise<Sent> {
    const body = JSON.stringify({ about, data });
    const headers = { "Content-Type": "application/json" };
    return this.#ask("/send", { method: "POST", headers, body });
  }

  async #ask<T>(path: string, init: RequestInit): Promise<T> {
    const answer = await fetch(this.#base + path, init);
    const body = await answer.json();
    if (!answer.ok) throw new Refused(String(body.detail ?? answer.statusText));
    return body as T;
  }
}
