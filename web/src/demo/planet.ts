// Everybody is a planet: a small face out of an id, as SVG, with bands or craters, some with a ring
// or a moon. Drawn once per id and copied.

import { hash } from "./people";

const SVG = "http://www.w3.org/2000/svg";

/** The planet's radius; the drawing is 40 units wide, its middle at 0. */
const R = 15;

/** Drawings to keep: what a feed and two lists of friends show, several times. */
const KEPT_MAX = 500;

const kept = new Map<string, SVGSVGElement>();

/** The planet of `id`, for eyes only: its name stands beside it. */
export function planet(id: string): SVGSVGElement {
  let drawn = kept.get(id);
  if (drawn === undefined) {
    if (kept.size >= KEPT_MAX) kept.clear();
    drawn = draw(hash(id));
    kept.set(id, drawn);
  }
  return drawn.cloneNode(true) as SVGSVGElement;
}

function draw(seed: number): SVGSVGElement {
  const pick = (shift: number, count: number): number => (seed >>> shift) % count;
  const hue = pick(3, 36) * 10;
  const skin = `hsl(${hue} 62% 62%)`;
  const dark = `hsl(${(hue + 18) % 360} 55% 50%)`;
  const light = `hsl(${(hue + 340) % 360} 70% 74%)`;
  const ringed = pick(13, 4) === 0;
  const svg = shape("svg", { viewBox: "-20 -20 40 40", class: "planet", "aria-hidden": "true" });
  const tilt = pick(9, 7) * 8 - 24;
  const body = shape("g", { transform: `rotate(${tilt})` });
  const ring = { rx: 19.5, ry: 4.8, fill: "none", stroke: light, "stroke-width": 2.2 };
  if (ringed) body.append(shape("ellipse", ring));
  body.append(shape("circle", { r: R, fill: skin }));
  if (pick(16, 2) === 0) {
    body.append(band(-10 + pick(18, 3), -5, dark), band(5, 9 + pick(20, 3), dark));
  } else {
    for (const [x, y, r] of [[-6, -9, 2.6], [9, -5, 1.9], [6, 10, 2.3], [-10, 6, 1.5]] as const) {
      body.append(shape("circle", { cx: x, cy: y, r, fill: dark }));
    }
  }
  if (ringed) {
    const front = "M-19.5 0A19.5 4.8 0 0 0 19.5 0";
    body.append(shape("path", { d: front, fill: "none", stroke: light, "stroke-width": 2.2 }));
  }
  svg.append(body, ...face(pick(22, 4)));
  if (!ringed && pick(24, 3) === 0) {
    svg.append(shape("circle", { cx: 16, cy: -13.5, r: 2.6, fill: light }));
  }
  return svg;
}

/** Two eyes and a mouth. */
function face(mood: number): SVGElement[] {
  const ink = "#1b2135";
  const mouths = [
    "M-3.5 3.2Q0 7 3.5 3.2",
    "M-3 4Q0 6.2 3 4",
    "M-2.5 3.6h5",
    "M-3 3a3 3 0 0 0 6 0Z",
  ];
  const eye = (x: number): SVGElement => shape("circle", { cx: x, cy: -1.5, r: 1.8, fill: ink });
  const mouth = {
    d: mouths[mood] ?? "",
    fill: mood === 3 ? ink : "none",
    stroke: ink,
    "stroke-width": 1.5,
    "stroke-linecap": "round",
  };
  return [eye(-4.8), eye(4.8), shape("path", mouth)];
}

/** The part of the disc between two heights. */
function band(top: number, bottom: number, fill: string): SVGElement {
  const [a, b] = [top, bottom].map((y) => Math.sqrt(R * R - y * y).toFixed(2));
  const right = `M-${a} ${top}H${a}A${R} ${R} 0 0 1 ${b} ${bottom}`;
  return shape("path", { d: `${right}H-${b}A${R} ${R} 0 0 1 -${a} ${top}Z`, fill });
}

function shape<K extends keyof SVGElementTagNameMap>(
  name: K,
  attributes: Record<string, string | number>,
): SVGElementTagNameMap[K] {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
  return element;
}
