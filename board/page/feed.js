/**
 * The list of notes, the newest first: followed while it is looked at from its top, held still while it is read.
 *
 * However many events come, the page holds a bounded number of rows; the rest is in memory, and older ones at the server.
 */

import { eventsBefore, Refused } from "./api.js";
import { find, h, say } from "./dom.js";
import { Fold } from "./fold.js";
import { badge, gist, scopeList, subject, typeOf, workerButton } from "./gist.js";
import { Log } from "./log.js";
import { stamp } from "./times.js";

/** The most rows while the list is followed, and while older ones were asked for. */
const ROWS = 200;
const MOST_ROWS = 1000;

/** How many rows one click on "older" brings, and how many events it looks through at the server at most. */
const OLDER = 100;
const PAGE = 1000;
const PAGES = 5;

/** Targets of a scope that a row shows. */
const TARGETS = 3;

export class Feed {
  /**
   * @param {HTMLElement} panel
   * @param {import("./filter.js").Filter} filter
   * @param {() => string} board
   */
  constructor(panel, filter, board) {
    this.filter = filter;
    this.board = board;
    this.list = find("#notes", panel);
    this.scroll = find(".scroll", panel);
    this.fresh = find("#fresh", panel);
    this.pause = find("#pause", panel);
    this.older = find("#older", panel);
    this.reach = find("#reach", panel);
    this.sum = find(".sum", panel);
    this.paused = false;
    this.log = new Log(0);
    this.fold = new Fold();
    this.oldest = 1;
    /** Up to this seq the log is shown. */
    this.top = 0;
    /** Up to this seq it was looked at: further than `top` while the list is held. */
    this.looked = 0;
    /** From this seq on it was looked through. */
    this.reached = 1;
    /** So many events that the filter keeps came while the list is held. */
    this.waiting = 0;
    this.pause.addEventListener("click", () => this.hold(!this.paused));
    this.fresh.addEventListener("click", () => this.toNewest());
    this.older.addEventListener("click", () => void this.showOlder());
    this.scroll.addEventListener("scroll", () => this.scrolled(), { passive: true });
  }

  /**
   * Show another log, from its newest events.
   * @param {import("./log.js").Log} log
   * @param {import("./fold.js").Fold} fold
   * @param {number} oldest the seq of the oldest event that the server keeps
   */
  open(log, fold, oldest) {
    this.log = log;
    this.fold = fold;
    this.oldest = oldest;
    this.hold(false);
    this.fill();
  }

  /** Make the list anew: the newest events that the filter keeps. */
  fill() {
    this.top = this.looked = this.log.head;
    this.waiting = 0;
    this.reached = this.top + 1;
    this.list.replaceChildren();
    this.scroll.scrollTop = 0;
    this.extend(ROWS);
    this.paintEnds();
  }

  /** Show what came since the last time, or count it while the list is held. */
  paint() {
    if (this.log.head === this.looked) return;
    if (!this.following) {
      for (const event of this.log.newestFirst(this.looked)) this.waiting += this.filter.keeps(event) ? 1 : 0;
    } else if (this.log.first > this.top + 1) {
      this.fill();
    } else {
      this.prepend();
    }
    this.looked = this.log.head;
    this.mark();
    this.paintEnds();
  }

  /** Mark the rows of notes that something became of since they were made. */
  mark() {
    for (const row of [...this.list.children]) {
      const mark = this.fold.marks.get(row.event.seq);
      if (mark !== undefined && mark !== row.mark) row.replaceWith(this.row(row.event));
    }
  }

  get following() {
    return !this.paused && this.scroll.scrollTop < 8 && this.list.childElementCount <= ROWS;
  }

  /** @param {boolean} paused */
  hold(paused) {
    this.paused = paused;
    this.pause.setAttribute("aria-pressed", String(paused));
    say(this.pause, paused ? "Go on" : "Pause");
    if (!paused) this.toNewest();
  }

  toNewest() {
    if (this.paused) this.hold(false);
    else if (this.list.childElementCount > ROWS || this.waiting > 0) this.fill();
    this.scroll.scrollTop = 0;
  }

  scrolled() {
    if (this.following && this.waiting > 0) this.toNewest();
  }

  prepend() {
    const rows = [];
    for (const event of this.log.newestFirst(this.top)) {
      if (rows.length === ROWS) break;
      if (this.filter.keeps(event)) rows.push(this.row(event));
    }
    this.top = this.log.head;
    this.list.prepend(...rows);
    while (this.list.childElementCount > ROWS) this.list.lastElementChild.remove();
    if (this.list.childElementCount === ROWS) this.reached = Number(this.list.lastElementChild.dataset.seq);
  }

  /**
   * Add rows of older events that are in memory; tell how many.
   * @param {number} wanted
   */
  extend(wanted) {
    return this.append(this.log.newestFirst(0, this.reached), wanted, this.log.first);
  }

  /**
   * @param {Iterable<any>} events the newest first
   * @param {number} wanted
   * @param {number} end the seq that is reached when all were looked at
   */
  append(events, wanted, end) {
    const rows = [];
    for (const event of events) {
      if (!this.filter.keeps(event)) continue;
      rows.push(this.row(event));
      if (rows.length === wanted) break;
    }
    this.reached = rows.length === wanted ? rows[wanted - 1].event.seq : Math.min(this.reached, end);
    this.list.append(...rows);
    return rows.length;
  }

  /** Bring older rows: from memory first, then from the server. */
  async showOlder() {
    this.older.disabled = true;
    try {
      let wanted = OLDER - this.extend(OLDER);
      for (let page = 0; page < PAGES && wanted > 0 && this.reached > this.oldest; page++) {
        wanted -= await this.fetchOlder(wanted);
      }
    } catch (error) {
      if (!(error instanceof Refused) || error.code !== "position_gone") {
        say(this.reach, "The server cannot be reached; try again.");
        return;
      }
      this.oldest = this.reached; // the log was trimmed while it was shown
    } finally {
      this.older.disabled = false;
    }
    while (this.list.childElementCount > MOST_ROWS) this.list.firstElementChild.remove();
    this.paintEnds();
  }

  /** @param {number} wanted */
  async fetchOlder(wanted) {
    const log = this.log;
    const found = await eventsBefore(this.board(), this.reached, PAGE);
    if (this.log !== log) return wanted;
    for (const event of found.events) this.fold.mark(event);
    this.oldest = found.oldest;
    return this.append(found.events, wanted, found.next ?? this.oldest);
  }

  get beginning() {
    return this.oldest > 1 ? "What came before is no longer kept." : "The beginning of the log.";
  }

  paintEnds() {
    this.fresh.hidden = this.waiting === 0;
    say(this.fresh, `↑ ${this.waiting.toLocaleString()} new`);
    const rest = this.reached > this.oldest;
    this.older.hidden = !rest;
    say(this.reach, rest ? `Back to #${this.reached}.` : this.list.childElementCount > 0 ? this.beginning : "No notes yet.");
    if (!rest && this.filter.active && this.list.childElementCount === 0) say(this.reach, "No note matches the filter.");
    say(this.sum, this.filter.active ? "filtered" : "");
  }

  /**
   * One event as a row.
   * @param {any} event
   * @returns {any}
   */
  row(event) {
    const mark = this.fold.marks.get(event.seq);
    const to = event.to?.length > 0 && h("span", { class: "to" }, `to ${event.to.join(", ")}`);
    const scope = event.scope ?? event.files ?? event.overlap ?? [];
    const row = h(
      "li",
      { class: mark === undefined ? "" : "marked", "data-seq": event.seq, "data-type": typeOf(event) },
      h(
        "div",
        { class: "line" },
        h(
          "span",
          { class: "who" },
          badge(event),
          workerButton(event.author),
          to,
          event.stale && h("span", { class: "flag stale" }, "stale"),
          mark !== undefined && h("span", { class: "flag mark" }, mark),
          scope.length > 0 && scopeList(scope, TARGETS),
          event.detail_bytes > 0 && h("span", { class: "flag" }, "detail"),
        ),
        h("span", { class: "when" }, stamp(event.at), h("a", { class: "seq", href: `#${this.board()}/${subject(event)}` }, `#${event.seq}`)),
      ),
      h("p", { class: "text" }, gist(event)),
    );
    return Object.assign(row, { event, mark });
  }
}
