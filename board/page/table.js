/**
 * A table of keyed rows: sorted by a click on a heading, never more rows in the page than were asked for, and a row
 * whose content did not change stays as it is.
 */

import { h, say } from "./dom.js";

/**
 * @template T
 * @typedef {object} Column
 * @property {string} title
 * @property {string} name the class of its cells
 * @property {(row: T) => import("./dom.js").Child | import("./dom.js").Child[]} cell
 * @property {(row: T) => string | number} [sort] what it is sorted by
 * @property {boolean} [down] whether the greatest comes first
 */

/** How many rows are shown at first, and how many more with each click. */
const STEP = 100;

/** @template T */
export class Table {
  /**
   * @param {HTMLElement} place
   * @param {Column<T>[]} columns
   * @param {{key: (row: T) => string, mark: (row: T) => string, caption: string, none: string}} how `mark` is the
   *   class of a row; a row is made anew when it, or what `key` and `print` give, changes
   */
  constructor(place, columns, how) {
    this.columns = columns;
    this.how = how;
    /** @type {T[]} */
    this.rows = [];
    this.most = STEP;
    this.by = columns[0];
    this.down = columns[0].down ?? false;
    /** @type {Map<string, {print: string, element: HTMLElement}>} */
    this.made = new Map();
    this.body = h("tbody");
    this.headings = columns.map((column) => this.heading(column));
    this.more = h("button", { type: "button", class: "more", hidden: true, onclick: () => this.showMore() });
    this.none = h("p", { class: "none" }, how.none);
    const head = h("thead", {}, h("tr", {}, this.headings));
    this.table = h("table", {}, h("caption", { class: "unseen" }, how.caption), head, this.body);
    place.replaceChildren(this.table, this.none, this.more);
  }

  /**
   * Show these rows.
   * @param {T[]} rows
   */
  show(rows) {
    this.rows = rows;
    const shown = this.sorted().slice(0, this.most);
    const made = new Map(shown.map((row) => [this.how.key(row), this.made.get(this.how.key(row))]));
    for (const [key, old] of this.made) if (!made.has(key)) old.element.remove();
    shown.forEach((row, index) => this.place(row, index));
    for (const key of this.made.keys()) if (!made.has(key)) this.made.delete(key);
    this.table.hidden = rows.length === 0;
    this.none.hidden = rows.length > 0;
    this.more.hidden = rows.length <= this.most;
    say(this.more, `Show more (${rows.length - shown.length} left)`);
  }

  /**
   * @param {T} row
   * @param {number} index
   */
  place(row, index) {
    const key = this.how.key(row);
    const print = JSON.stringify(row);
    let made = this.made.get(key);
    if (made === undefined || made.print !== print) {
      const cells = this.columns.map((column) => h("td", { class: column.name }, column.cell(row)));
      const element = h("tr", { class: this.how.mark(row), "data-key": key }, cells);
      made?.element.replaceWith(element);
      made = { print, element };
      this.made.set(key, made);
    }
    const there = this.body.children[index];
    if (there !== made.element) this.body.insertBefore(made.element, there ?? null);
  }

  sorted() {
    const value = this.by.sort;
    if (value === undefined) return this.rows;
    const sign = this.down ? -1 : 1;
    return this.rows.toSorted((one, other) => {
      const [a, b] = [value(one), value(other)];
      return a < b ? -sign : a > b ? sign : 0;
    });
  }

  /**
   * @param {Column<T>} column
   */
  heading(column) {
    const order = column === this.by ? (this.down ? "descending" : "ascending") : "none";
    if (column.sort === undefined) return h("th", { scope: "col", class: column.name }, column.title);
    const button = h("button", { type: "button", onclick: () => this.sort(column) }, column.title);
    return h("th", { scope: "col", class: column.name, "aria-sort": order }, button);
  }

  /** @param {Column<T>} column */
  sort(column) {
    this.down = this.by === column ? !this.down : column.down ?? false;
    this.by = column;
    this.headings.forEach((heading, index) => {
      if (this.columns[index].sort === undefined) return;
      const order = this.columns[index] === column ? (this.down ? "descending" : "ascending") : "none";
      heading.setAttribute("aria-sort", order);
    });
    this.show(this.rows);
  }

  showMore() {
    this.most += 2 * STEP;
    this.show(this.rows);
  }
}
