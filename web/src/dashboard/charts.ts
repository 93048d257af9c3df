// The charts: one panel for each kind of figure, all over the same five minutes and with one
// common cursor. Each panel says its figures as text too, those under the cursor or the newest;
// the whole is also a table, so for screen readers a chart is a picture with a name.

import uPlot from "uplot";

import { byId, el, setText } from "../shared/dom";
import { bytes, duration, grouped, tick, trimmed } from "../shared/format";
import { type Column, type Row, type Rows, clock } from "./window";

interface Series {
  column: Column;
  /** Empty where the panel has one series and its title says it. */
  name: string;
  /** The CSS variable of its colour. */
  colour: string;
}

interface Panel {
  title: string;
  /** What there is none of while all of it is zero. */
  none?: string;
  series: Series[];
  format(value: number): string;
  /** Shorter, for the axis. */
  tick(value: number): string;
  /** The least that the axis spans, so that noise around zero stays small. */
  span: number;
}

const percent = (value: number): string => `${(100 * value).toFixed(value < 0.1 ? 1 : 0)}\u202f%`;

export const PANELS: Panel[] = [
  {
    title: "Connections",
    none: "connection",
    series: [{ column: "connections_open", name: "", colour: "--accent" }],
    format: grouped,
    tick,
    span: 10,
  },
  {
    title: "Events a second",
    none: "event",
    series: [{ column: "events_per_second", name: "", colour: "--accent" }],
    format: (value) => grouped(Math.round(value)),
    tick,
    span: 10,
  },
  {
    title: "Deliveries a second",
    none: "delivery",
    series: [{ column: "deliveries_per_second", name: "", colour: "--accent" }],
    format: (value) => grouped(Math.round(value)),
    tick,
    span: 10,
  },
  {
    title: "Sent by clients a second",
    none: "event of a client",
    series: [
      { column: "client_sends_per_second", name: "posted", colour: "--accent" },
      { column: "client_sends_refused_per_second", name: "refused", colour: "--second" },
    ],
    format: (value) => grouped(Math.round(value)),
    tick,
    span: 10,
  },
  {
    title: "From a send to its deliveries",
    none: "send",
    series: [
      { column: "send_p50_seconds", name: "p50", colour: "--accent" },
      { column: "send_p99_seconds", name: "p99", colour: "--second" },
    ],
    format: duration,
    tick: (value) => trimmed(duration(value)),
    span: 1e-3,
  },
  {
    title: "Memory of the server",
    series: [
      { column: "resident_anonymous_bytes", name: "heap and stacks", colour: "--accent" },
      { column: "resident_file_bytes", name: "pages of files", colour: "--second" },
    ],
    format: bytes,
    tick: (value) => trimmed(bytes(value)),
    span: 1e6,
  },
  {
    title: "Memory of sockets, whole machine",
    series: [{ column: "kernel_socket_bytes", name: "", colour: "--accent" }],
    format: bytes,
    tick: (value) => trimmed(bytes(value)),
    span: 1e6,
  },
  {
    title: "Processor time of the server",
    series: [{ column: "cpu_share", name: "of one core", colour: "--accent" }],
    format: percent,
    tick: (value) => trimmed(percent(value)),
    span: 0.05,
  },
];

const HEIGHT_PX = 150;

/** The least width of a chart. */
const WIDTH_PX_MIN = 340;

/** Columns of the grid: rows of one, two, three and four charts fill it. */
const COLUMNS = 12;

/** What a chart spans at least; the rows bound it above. */
const WINDOW_SECONDS_MIN = 60;

class Chart {
  readonly element: HTMLElement;
  private readonly figures: HTMLElement[];
  private readonly plotted: HTMLElement;
  private plot: uPlot | null = null;

  constructor(
    private readonly panel: Panel,
    private readonly rows: Rows,
    private readonly onCursor: (row: Row | undefined) => void,
  ) {
    this.figures = panel.series.map(() => el("span", { class: "figure" }, "–"));
    const isOne = panel.series.length === 1;
    const legend = panel.series.map((series, at) => {
      const mark = el("span", { class: `mark ${series.colour.slice(2)}`, "aria-hidden": "true" });
      const figure = this.figures[at] ?? "";
      const name = series.name === "" ? [] : [el("span", { class: "name" }, series.name)];
      return el("p", { class: "value" }, ...(isOne ? [] : [mark]), figure, ...name);
    });
    const title = el("h3", {}, panel.title);
    this.plotted = el("div", {
      class: "plot",
      role: "img",
      "aria-label": `${panel.title}, a chart of the last five minutes`,
    });
    const head = el("div", { class: "values number" }, ...legend);
    this.element = el("article", { class: "panel chart" }, title, head, this.plotted);
  }

  /** What there was none of in all this time; then it takes no room. */
  fold(): string | null {
    const { none, series } = this.panel;
    const isZero = series.every(({ column }) => this.rows.column(column).every((value) => !value));
    const folded = none !== undefined && isZero ? none : null;
    const wasHidden = this.element.hidden;
    this.element.hidden = folded !== null;
    // What was hidden had no width.
    if (wasHidden && folded === null) this.resize();
    return folded;
  }

  /** Draws it anew, as after a change of colours. */
  draw(): void {
    this.plot?.destroy();
    this.plot = new uPlot(this.options(), this.data(), this.plotted);
  }

  private options(): uPlot.Options {
    const style = getComputedStyle(document.documentElement);
    const colour = (name: string): string => style.getPropertyValue(name).trim();
    const muted = colour("--muted");
    const font = `11px ${colour("--font")}`;
    const grid = { stroke: colour("--rule"), width: 1 };
    const { panel } = this;
    return {
      width: Math.max(this.plotted.clientWidth, 100),
      height: HEIGHT_PX,
      // To the right half of a time's width, or the last one is cut.
      padding: [8, 30, 0, 0],
      legend: { show: false },
      cursor: { sync: { key: "figures" }, y: false, drag: { x: false, y: false } },
      scales: {
        x: { range: (_, min, max) => [Math.min(min, max - WINDOW_SECONDS_MIN), max] },
        y: { range: (_, _min, max) => [0, Math.max((max ?? 0) * 1.15, panel.span)] },
      },
      axes: [
        {
          stroke: muted,
          font,
          grid: { show: false },
          ticks: { show: false },
          size: 26,
          space: 76,
          gap: 6,
          values: (_, splits) => splits.map(clock),
        },
        {
          stroke: muted,
          font,
          grid,
          ticks: { show: false },
          size: 62,
          space: 34,
          gap: 8,
          values: (_, splits) => splits.map((value) => (value === 0 ? "0" : panel.tick(value))),
        },
      ],
      series: [
        {},
        ...panel.series.map((series) => ({
          stroke: colour(series.colour),
          width: 1.75,
          points: { show: false },
          ...(panel.series.length === 1 ? { fill: `${colour(series.colour)}1f` } : {}),
        })),
      ],
      hooks: {
        setCursor: [(plot) => this.onCursor(this.rows.rows[plot.cursor.idx ?? -1])],
      },
    };
  }

  private data(): uPlot.AlignedData {
    const columns = this.panel.series.map((series) => this.rows.column(series.column));
    return [this.rows.column("unix_seconds") as number[], ...columns];
  }

  update(): void {
    this.plot?.setData(this.data());
  }

  resize(): void {
    const width = this.plotted.clientWidth;
    if (this.plot !== null && width > 0 && width !== this.plot.width) {
      this.plot.setSize({ width, height: HEIGHT_PX });
    }
  }

  /** Says the figures of `row`. */
  say(row: Row | undefined): void {
    this.panel.series.forEach((series, at) => {
      const value = row?.[series.column] ?? null;
      const figure = this.figures[at];
      if (figure !== undefined) setText(figure, value === null ? "–" : this.panel.format(value));
    });
  }
}

export class Charts {
  private readonly charts: Chart[];
  /** The row under the cursor. */
  private pointed: Row | undefined;
  /** Charts that are not folded. */
  private shown = 0;

  constructor(
    private readonly root: HTMLElement,
    private readonly rows: Rows,
    private readonly onPoint: (row: Row | undefined) => void,
  ) {
    const point = (row: Row | undefined): void => {
      if (row === this.pointed) return;
      this.pointed = row;
      this.say();
      this.onPoint(row);
    };
    this.charts = PANELS.map((panel) => new Chart(panel, rows, point));
    root.append(...this.charts.map((chart) => chart.element));
    this.charts.forEach((chart) => chart.draw());
    new ResizeObserver(() => this.arrange()).observe(root);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    dark.addEventListener("change", () => this.charts.forEach((chart) => chart.draw()));
  }

  /** Fills each row: of seven charts where three fit beside each other, three, two and two. */
  private arrange(): void {
    const shown = this.charts.filter((chart) => !chart.element.hidden);
    const fitting = Math.floor(this.root.clientWidth / WIDTH_PX_MIN);
    const rows = Math.ceil(shown.length / Math.min(4, Math.max(1, fitting)));
    for (let row = 0, first = 0; row < rows; row++) {
      const inRow = Math.ceil((shown.length - first) / (rows - row));
      for (const { element } of shown.slice(first, first + inRow)) {
        element.style.gridColumn = `span ${COLUMNS / inRow}`;
      }
      first += inRow;
    }
    this.charts.forEach((chart) => chart.resize());
  }

  update(): void {
    const none = this.charts.map((chart) => chart.fold()).filter((name) => name !== null);
    const last = none.pop();
    const names = none.length > 0 ? `${none.join(", no ")} and no ${last}` : last;
    setText(byId("none"), last === undefined ? "" : `No ${names} in the last five minutes.`);
    const shown = this.charts.filter((chart) => !chart.element.hidden).length;
    if (shown !== this.shown) {
      this.shown = shown;
      this.arrange();
    }
    this.charts.forEach((chart) => chart.update());
    this.say();
  }

  private say(): void {
    const row = this.pointed ?? this.rows.last();
    this.charts.forEach((chart) => chart.say(row));
  }
}
