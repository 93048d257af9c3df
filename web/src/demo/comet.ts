// The sky: stars, and the comet, whose tail is the news. Each event throws a grain off its head,
// and the more come, the longer the tail. Drawn thirty times a second while something moves, and
// not at all in a tab that nobody sees. Who prefers no motion gets a still comet, whose tail alone
// is as long as there is news, looked at once in a while.

const FRAME_MS = 33;
const STILL_MS = 2000;

/** Grains at one time, and new ones a frame: more look the same and cost more. */
const GRAINS_MAX = 420;
const GRAINS_PER_FRAME = 10;

interface Grain {
  /** How far along the tail, from 0 to 1, and how fast. */
  at: number;
  speed: number;
  /** How far beside its middle, from -1 to 1. */
  beside: number;
  size: number;
  isMine: boolean;
}

export class Comet {
  #context: CanvasRenderingContext2D;
  #stars = document.createElement("canvas");
  #grains: Grain[] = [];
  #due = 0;
  #glow = 0;
  #length = 0.33;
  #drawnAt = 0;
  #isAwake = false;
  #still = matchMedia("(prefers-reduced-motion: reduce)");

  /** `rate` tells how many events come a second. */
  constructor(
    private readonly canvas: HTMLCanvasElement,
    private readonly rate: () => number,
  ) {
    const context = canvas.getContext("2d");
    if (context === null) throw new Error("no canvas");
    this.#context = context;
    new ResizeObserver(() => this.#resize()).observe(canvas);
    const wake = (): void => this.#wake();
    this.#still.addEventListener("change", wake);
    document.addEventListener("visibilitychange", wake);
  }

  /** An event has come. */
  event(isMine: boolean): void {
    this.#due = Math.min(this.#due + 1, GRAINS_PER_FRAME);
    this.#glow = Math.min(1, this.#glow + (isMine ? 1 : 0.35));
    if (isMine) this.#grains.push(grain(true));
    this.#wake();
  }

  #resize(): void {
    const ratio = Math.min(2, devicePixelRatio);
    const { clientWidth, clientHeight } = this.canvas;
    for (const canvas of [this.canvas, this.#stars]) {
      canvas.width = Math.round(clientWidth * ratio);
      canvas.height = Math.round(clientHeight * ratio);
    }
    drawStars(this.#stars, ratio);
    this.#draw();
    this.#wake();
  }

  #wake(): void {
    if (this.#isAwake || document.visibilityState === "hidden") return;
    this.#isAwake = true;
    const turn = (): void => void requestAnimationFrame((now) => this.#turn(now));
    if (this.#still.matches) setTimeout(turn, STILL_MS);
    else turn();
  }

  #turn(now: number): void {
    this.#isAwake = false;
    const passed = now - this.#drawnAt;
    if (passed >= FRAME_MS) {
      this.#drawnAt = now;
      this.#move(Math.min(0.1, passed / 1000));
      this.#draw();
    }
    if (this.#still.matches) return;
    if (this.#grains.length > 0 || this.#due > 0 || this.#glow > 0.01) this.#wake();
  }

  #move(seconds: number): void {
    const isStill = this.#still.matches;
    const wanted = Math.min(1, 0.33 + Math.log10(1 + this.rate()) * 0.27);
    this.#length += (wanted - this.#length) * (isStill ? 1 : Math.min(1, seconds * 1.5));
    this.#glow *= isStill ? 0 : Math.exp(-seconds * 3);
    if (isStill) {
      this.#grains = stillGrains();
      this.#due = 0;
      return;
    }
    for (let each = 0; each < this.#due; each++) {
      for (let part = 0; part < 7; part++) this.#grains.push(grain(false));
    }
    this.#due = 0;
    for (const one of this.#grains) one.at += one.speed * seconds;
    this.#grains = this.#grains.filter((one) => one.at < 1).slice(-GRAINS_MAX);
  }

  #draw(): void {
    const { width, height } = this.canvas;
    const context = this.#context;
    context.globalCompositeOperation = "source-over";
    context.clearRect(0, 0, width, height);
    context.drawImage(this.#stars, 0, 0);
    if (width === 0) return;
    // The head is low on the right, and the tail points away from the sun behind the hill.
    // On a phone it flies flatter, below the words.
    const isNarrow = width < height * 2.2;
    const [x, y] = isNarrow ? [width * 0.4, height * 0.76] : [width * 0.63, height * 0.62];
    const rise = isNarrow ? height * 0.2 : y * 1.02;
    const reach = Math.hypot(width - x, rise) * 0.94 * this.#length;
    const angle = Math.atan2(-rise, width - x);
    const unit = isNarrow ? height / 420 : height / 280;
    context.globalCompositeOperation = "lighter";
    context.save();
    context.translate(x, y);
    context.rotate(angle);
    this.#drawTail(reach, unit);
    context.restore();
    const radius = (26 + 16 * this.#glow) * unit;
    const halo = context.createRadialGradient(x, y, 0, x, y, radius);
    halo.addColorStop(0, "rgb(255 255 255 / 1)");
    halo.addColorStop(0.17, "rgb(255 250 235 / .95)");
    halo.addColorStop(0.4, "rgb(150 220 240 / .35)");
    halo.addColorStop(1, "rgb(120 200 240 / 0)");
    context.fillStyle = halo;
    context.fillRect(x - radius, y - radius, 2 * radius, 2 * radius);
  }

  #drawTail(reach: number, unit: number): void {
    const context = this.#context;
    // The gas in a straight line, and the dust that stays behind it a little; each in layers, so
    // that its edges are soft.
    for (const [bend, width, colour] of [
      [0, 30, "110 205 240"],
      [34, 46, "255 226 180"],
    ] as const) {
      const fade = context.createLinearGradient(0, 0, reach, 0);
      fade.addColorStop(0, `rgb(${colour} / .14)`);
      fade.addColorStop(0.4, `rgb(${colour} / .075)`);
      fade.addColorStop(1, `rgb(${colour} / 0)`);
      context.fillStyle = fade;
      for (const share of [1, 0.78, 0.58, 0.4, 0.25, 0.12]) {
        const [near, far] = [4 * share * unit, width * share * unit];
        const [middle, end] = [bend * 0.3 * unit, bend * unit];
        context.beginPath();
        context.moveTo(0, -near);
        context.quadraticCurveTo(reach * 0.55, middle - far * 0.5, reach, end - far);
        context.lineTo(reach, end + far);
        context.quadraticCurveTo(reach * 0.55, middle + far * 0.5, 0, near);
        context.fill();
      }
    }
    for (const one of this.#grains) {
      const spread = (6 + 30 * one.at) * unit;
      const gx = one.at * reach;
      const gy = one.beside * spread + one.at * one.at * 26 * unit;
      const size = one.size * unit * (one.isMine ? 2.4 : 1) * (1 - one.at * 0.5);
      const alpha = (1 - one.at) * 0.9;
      context.fillStyle = `rgb(${one.isMine ? "255 190 110" : "220 244 255"} / ${alpha})`;
      context.beginPath();
      context.arc(gx, gy, size, 0, 2 * Math.PI);
      context.fill();
    }
  }
}

function grain(isMine: boolean, random = Math.random): Grain {
  return {
    at: isMine ? 0 : random() * 0.05,
    speed: 0.28 + random() * 0.5,
    beside: (random() + random() - 1) * (isMine ? 0.2 : 1),
    size: 0.7 + random() * 1.3,
    isMine,
  };
}

/** A tail that stands, each time the same one. */
function stillGrains(): Grain[] {
  const random = sameEachTime();
  return Array.from({ length: 60 }, () => ({ ...grain(false, random), at: random() }));
}

/** Numbers from 0 to 1 that look random (Park and Miller, 1988). */
function sameEachTime(): () => number {
  let seed = 42;
  return () => (seed = (seed * 16807) % 2147483647) / 2147483647;
}

/** The same sky every night. */
function drawStars(canvas: HTMLCanvasElement, ratio: number): void {
  const context = canvas.getContext("2d");
  if (context === null) return;
  const random = sameEachTime();
  const count = Math.round((canvas.width * canvas.height) / (ratio * ratio) / 1700);
  for (let star = 0; star < count; star++) {
    const [x, y] = [random() * canvas.width, random() ** 1.4 * canvas.height * 0.86];
    const fade = 1 - y / canvas.height;
    const alpha = (0.25 + 0.75 * random()) * fade;
    context.fillStyle = `rgb(255 255 ${random() < 0.2 ? 210 : 255} / ${alpha})`;
    context.beginPath();
    context.arc(x, y, (0.4 + 0.9 * random() ** 3) * ratio, 0, 2 * Math.PI);
    context.fill();
  }
}
