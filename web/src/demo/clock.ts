// How long news took. Both ends of the demo are on one machine, so the time at which an event was
// to be sent can be subtracted from the time at which it is here.
//
// `Date.now` is whole milliseconds, which is more than most news takes, and `performance.now` is
// finer and does not know the calendar. Their difference is never seen larger than it is, so the
// largest of many is the truth to a few microseconds; it is forgotten after a while, since the
// calendar's clock may be set.

const PERIOD_MS = 10_000;
let period = { from: 0, offset: -Infinity };
let before = -Infinity;

/** Milliseconds since 1970, with fractions. */
export function nowMs(): number {
  const fine = performance.now();
  if (fine - period.from > PERIOD_MS) {
    before = period.offset;
    period = { from: fine, offset: -Infinity };
  }
  period.offset = Math.max(period.offset, Date.now() - fine);
  const settled = period.offset - before;
  // A clock that was set back shows at the end of the period.
  return fine + (settled > 0 || settled < -2 ? period.offset : before);
}

/** Looks at the clocks a few times, so that the first news finds them compared. */
export function compareClocks(times = 40): void {
  nowMs();
  if (times > 0) setTimeout(() => compareClocks(times - 1), 7);
}

/** The travel times of the newest arrivals. */
export class Travels {
  #times: number[] = [];
  #fastest = 0;

  constructor(private readonly max: number) {}

  /** Takes a time; one below nothing says that the clocks of the two ends differ. */
  add(ms: number): number {
    this.#fastest = Math.min(this.#fastest, ms);
    const time = ms - this.#fastest;
    this.#times.push(time);
    if (this.#times.length > this.max) this.#times.shift();
    return time;
  }

  /** Whether times are counted from the fastest arrival, for want of one clock. */
  get areRelative(): boolean {
    return this.#fastest < -1;
  }

  get all(): readonly number[] {
    return this.#times;
  }

  get last(): number | undefined {
    return this.#times.at(-1);
  }

  get median(): number | undefined {
    const sorted = [...this.#times].sort((a, b) => a - b);
    return sorted[sorted.length >> 1];
  }
}

/** How often something happens, over the last seconds. */
export class Rate {
  #seconds = new Array<number>(5).fill(0);
  #second = 0;
  #since = performance.now();

  add(): void {
    this.#turn();
    this.#seconds[0] = (this.#seconds[0] ?? 0) + 1;
  }

  /** A second. */
  get now(): number {
    this.#turn();
    const seconds = (performance.now() - this.#since) / 1000;
    const span = Math.min(seconds, this.#seconds.length - 1 + (seconds % 1));
    return this.#seconds.reduce((sum, count) => sum + count, 0) / Math.max(1, span);
  }

  #turn(): void {
    const second = Math.floor((performance.now() - this.#since) / 1000);
    for (; this.#second < second; this.#second++) {
      this.#seconds.pop();
      this.#seconds.unshift(0);
      if (second - this.#second > this.#seconds.length) this.#second = second - 1;
    }
  }
}

/** 0.62 ms, 12 ms, 1.4 s */
export function travel(ms: number): string {
  if (ms < 1) return `${ms.toFixed(2)}\u202fms`;
  if (ms < 10) return `${ms.toFixed(1)}\u202fms`;
  return ms < 1000 ? `${ms.toFixed(0)}\u202fms` : `${(ms / 1000).toFixed(1)}\u202fs`;
}
