// A picture of an id among its neighbours: who follows it on the left, whom it follows on the
// right. It shows what the lists beside it say, so it is hidden from screen readers and keyboards;
// a click walks on.

const SVG = "http://www.w3.org/2000/svg";

/** Neighbours drawn on each side. */
const SIDE_MAX = 12;

/** A drawing is as wide as its place, within these bounds, so that its letters stay readable. */
const WIDTH = { least: 280, most: 520 };

const ROW = 21;

type Side = "left" | "right";

function shape(name: string, attributes: Record<string, string | number>, text = ""): SVGElement {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
  if (text !== "") element.textContent = text;
  return element;
}

/** The start of a name that is too long to draw. */
function cut(name: string, length: number): string {
  const letters = [...name];
  return letters.length > length ? `${letters.slice(0, length - 1).join("")}…` : name;
}

export class Picture {
  private width = WIDTH.most;

  constructor(
    private readonly root: HTMLElement,
    private readonly onWalk: (id: string) => void,
  ) {}

  show(id: string, followers: string[], follows: string[]): void {
    this.width = Math.min(WIDTH.most, Math.max(WIDTH.least, this.root.clientWidth));
    const centre = this.width / 2;
    const rows = Math.max(3, Math.min(SIDE_MAX, Math.max(followers.length, follows.length)));
    const height = (rows + 1) * ROW;
    const drawing = shape("svg", {
      viewBox: `0 0 ${this.width} ${height}`,
      class: "picture",
      "aria-hidden": "true",
    });
    const middle = height / 2;
    drawing.append(
      ...this.side("left", followers, middle, id),
      ...this.side("right", follows, middle, id),
      shape("circle", { cx: centre, cy: middle, r: 9, class: "centre" }),
      shape("text", { x: centre, y: middle + 26, class: "self" }, cut(id, 14)),
    );
    this.root.replaceChildren(drawing);
  }

  private side(side: Side, names: string[], middle: number, self: string): SVGElement[] {
    const shown = names.slice(0, SIDE_MAX);
    const top = middle - ((shown.length - 1) * ROW) / 2;
    const centre = this.width / 2;
    const x = side === "left" ? 0.3 * this.width : 0.7 * this.width;
    return shown.flatMap((name, at) => {
      const y = top + at * ROW;
      const bend = (x + centre) / 2;
      const line = shape("path", {
        d: `M${x} ${y}C${bend} ${y} ${bend} ${middle} ${centre} ${middle}`,
        class: `line ${side}`,
      });
      const text = shape(
        "text",
        { x: side === "left" ? x - 10 : x + 10, y: y + 4, class: `name ${side}` },
        cut(name, Math.floor(this.width / 29)),
      );
      const dot = shape("circle", { cx: x, cy: y, r: 4.5, class: `dot ${side}` });
      const group = shape("g", { class: "walk" });
      group.append(dot, text);
      if (name !== self) group.addEventListener("click", () => this.onWalk(name));
      return [line, group];
    });
  }
}
