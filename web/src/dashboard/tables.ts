// Tables that are kept up to date: rows are made once, later only their texts change, so that
// neither a screen reader's place nor a selection is lost.

import { el, setText } from "../shared/dom";

/** A cell: a text, or a text with a bar behind it whose length is a share of 1. */
export type Cell = string | { text: string; share: number };

export class Table {
  private readonly body: HTMLTableSectionElement;
  private readonly columns: number;

  /** `table` is empty but for its caption, head and body; the first column names the rows. */
  constructor(table: HTMLTableElement, head: string[]) {
    const body = table.tBodies[0];
    if (body === undefined || table.tHead === null) throw new Error("a table has a head and a body");
    this.body = body;
    this.columns = head.length;
    table.tHead.append(el("tr", {}, ...head.map((name) => el("th", { scope: "col" }, name))));
  }

  /** Shows `rows`; `marks` are classes of theirs. */
  show(rows: Cell[][], marks: string[] = []): void {
    while (this.body.rows.length > rows.length) this.body.deleteRow(-1);
    rows.forEach((cells, at) => {
      const row = this.body.rows[at] ?? this.append();
      const mark = marks[at] ?? "";
      if (row.className !== mark) row.className = mark;
      cells.forEach((cell, column) => fill(row.cells[column], cell));
    });
  }

  private append(): HTMLTableRowElement {
    const row = el("tr", {}, el("th", { scope: "row" }));
    for (let column = 1; column < this.columns; column += 1) row.append(el("td"));
    this.body.append(row);
    return row;
  }
}

function fill(element: Element | undefined, cell: Cell): void {
  if (element === undefined) return;
  if (typeof cell === "string") return setText(element, cell);
  let [text, bar] = element.children as unknown as (HTMLElement | undefined)[];
  if (text === undefined || bar === undefined) {
    text = el("span");
    bar = el("span", { class: "meter", "aria-hidden": "true" }, el("i"));
    element.replaceChildren(text, bar);
  }
  setText(text, cell.text);
  const length = bar.firstElementChild as HTMLElement;
  length.style.width = `${(100 * Math.min(1, cell.share)).toFixed(1)}%`;
}
