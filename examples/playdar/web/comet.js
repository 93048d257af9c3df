// The sky: stars, and the comet, whose tail is the answers. Each throws grains off its head, and
// the more there are, the longer the tail. Drawn while something moves, and not at all in a tab
// that nobody sees. Who prefers no motion gets a still comet, whose tail alone tells how many.

const FRAME_MS = 33;

/** Grains at one time: more look the same and cost more. */
const GRAINS_MAX = 420;
const GRAINS_PER_ANSWER = 26;

export class Comet {
  #canvas;
  #answers;
  #context;
  #stars = document.createElement("canvas");
  #grains = [];
  #glow = 0;
  #length = 0.33;
  #drawnAt = 0;
  #isAwake = false;
  #still = matchMedia("(prefers-reduced-motion: reduce)");

  /** `answers` tells how many there are. */
  constructor(canvas, answers) {
    this.#canvas = canvas;
    this.#answers = answers;
    this.#context = canvas.getContext("2d");
    new ResizeObserver(() => this.#resize()).observe(canvas);
    const wake = () => this.#wake();
    this.#still.addEventListener("change", wake);
    document.addEventListener("visibilitychange", wake);
  }

  /** An answer has come. */
  event() {
    this.#glow = Math.min(1, this.#glow + 0.5);
    if (!this.#still.matches) {
      for (let each = 0; each < GRAINS_PER_ANSWER; each += 1) this.#grains.push(grain());
    }
    this.#wake();
  }

  #resize() {
    const ratio = Math.min(2, devicePixelRatio);
    const { clientWidth, clientHeight } = this.#canvas;
    for (const canvas of [this.#canvas, this.#stars]) {
      canvas.width = Math.round(clientWidth * ratio);
      canvas.height = Math.round(clientHeight * ratio);
    }
    drawStars(this.#stars, ratio);
    this.#draw();
    this.#wake();
  }

  #wake() {
    if (this.#isAwake || document.visibilityState === "hidden") return;
    this.#isAwake = true;
    requestAnimationFrame((now) => this.#turn(now));
  }

  #turn(now) {
    this.#isAwake = false;
    const passed = now - this.#drawnAt;
    const isMoving = passed < FRAME_MS || this.#move(Math.min(0.1, passed / 1000));
    if (passed >= FRAME_MS) {
      this.#drawnAt = now;
      this.#draw();
    }
    if (isMoving) this.#wake();
  }

  /** Goes on by so many seconds; whether there is more to move. */
  #move(seconds) {
    const wanted = Math.min(1, 0.36 + Math.log10(1 + this.#answers()) * 0.36);
    if (this.#still.matches) {
      [this.#length, this.#glow, this.#grains] = [wanted, 0, stillGrains()];
      return false;
    }
    this.#length += (wanted - this.#length) * Math.min(1, seconds * 1.5);
    this.#glow *= Math.exp(-seconds * 2);
    for (const one of this.#grains) one.at += one.speed * seconds;
    this.#grains = this.#grains.filter((one) => one.at < 1).slice(-GRAINS_MAX);
    return this.#grains.length > 0 || this.#glow > 0.01 || Math.abs(wanted - this.#length) > 0.005;
  }

  #draw() {
    const { width, height } = this.#canvas;
    const context = this.#context;
    context.globalCompositeOperation = "source-over";
    context.clearRect(0, 0, width, height);
    if (width === 0 || height === 0) return;
    context.drawImage(this.#stars, 0, 0);
    // The head is low on the right, and the tail points away from the sun behind the hill.
    // On a phone it flies flatter, below the words.
    const isNarrow = width < height * 2.2;
    const [x, y] = isNarrow ? [width * 0.36, height * 0.83] : [width * 0.66, height * 0.6];
    const rise = isNarrow ? height * 0.12 : y * 1.02;
    const reach = Math.hypot(width - x, rise) * 0.94 * this.#length;
    const unit = isNarrow ? height / 520 : height / 300;
    context.globalCompositeOperation = "lighter";
    context.save();
    context.translate(x, y);
    context.rotate(Math.atan2(-rise, width - x));
    drawTail(context, reach, unit);
    drawGrains(context, this.#grains, reach, unit);
    context.restore();
    drawHead(context, x, y, (26 + 16 * this.#glow) * unit);
  }
}

/** The gas in a straight line, and the dust that stays behind it a little; soft at the edges. */
function drawTail(context, reach, unit) {
  for (const [bend, width, colour] of [
    [0, 30, "110 205 240"],
    [34, 46, "255 226 180"],
  ]) {
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
}

function drawGrains(context, grains, reach, unit) {
  for (const { at, beside, size } of grains) {
    const y = beside * (6 + 30 * at) * unit + at * at * 26 * unit;
    context.fillStyle = `rgb(220 244 255 / ${(1 - at) * 0.9})`;
    context.beginPath();
    context.arc(at * reach, y, size * unit * (1 - at * 0.5), 0, 2 * Math.PI);
    context.fill();
  }
}

function drawHead(context, x, y, radius) {
  const halo = context.createRadialGradient(x, y, 0, x, y, radius);
  halo.addColorStop(0, "rgb(255 255 255 / 1)");
  halo.addColorStop(0.17, "rgb(255 250 235 / .95)");
  halo.addColorStop(0.4, "rgb(150 220 240 / .35)");
  halo.addColorStop(1, "rgb(120 200 240 / 0)");
  context.fillStyle = halo;
  context.fillRect(x - radius, y - radius, 2 * radius, 2 * radius);
}

function grain(random = Math.random) {
  return {
    at: random() * 0.05,
    speed: 0.16 + random() * 0.5,
    beside: random() + random() - 1,
    size: 0.7 + random() * 1.3,
  };
}

/** A tail that stands, each time the same one. */
function stillGrains() {
  const random = sameEachTime();
  return Array.from({ length: 60 }, () => ({ ...grain(random), at: random() }));
}

/** Numbers from 0 to 1 that look random (Park and Miller, 1988). */
function sameEachTime() {
  let seed = 42;
  return () => (seed = (seed * 16807) % 2147483647) / 2147483647;
}

/** The same sky every night. */
function drawStars(canvas, ratio) {
  const context = canvas.getContext("2d");
  const random = sameEachTime();
  const stars = Math.round((canvas.width * canvas.height) / (ratio * ratio) / 1700);
  for (let star = 0; star < stars; star += 1) {
    const [x, y] = [random() * canvas.width, random() ** 1.4 * canvas.height * 0.86];
    const alpha = (0.25 + 0.75 * random()) * (1 - y / canvas.height);
    context.fillStyle = `rgb(255 255 ${random() < 0.2 ? 210 : 255} / ${alpha})`;
    context.beginPath();
    context.arc(x, y, (0.4 + 0.9 * random() ** 3) * ratio, 0, 2 * Math.PI);
    context.fill();
  }
}
