/**
 * The newest events of the board, as many as a page may keep, without a hole.
 */

/**
 * @typedef {object} Event
 * One line of the log, as the server tells it; see /openapi.json for its members.
 * @property {number} seq
 * @property {string} at
 * @property {string} kind
 * @property {string} author
 */

/** How many events are kept in memory. */
export const KEPT = 10_000;

/** How many more may come before the oldest are let go: to move the whole list for each event would be slow. */
const SLACK = 2_000;

export class Log {
  /** @param {number} position the seq that the first event follows */
  constructor(position) {
    /** @type {any[]} */
    this.events = [];
    this.first = position + 1;
  }

  /** The seq of the newest event. */
  get head() {
    return this.first + this.events.length - 1;
  }

  /**
   * Add events that follow the newest; the oldest may be let go.
   * @param {any[]} events
   */
  add(events) {
    for (const event of events) this.events.push(event);
    if (this.events.length > KEPT + SLACK) {
      this.first += this.events.length - KEPT;
      this.events = this.events.slice(-KEPT);
    }
  }

  /**
   * The event of a seq, where it is kept.
   * @param {number} seq
   */
  at(seq) {
    return this.events[seq - this.first];
  }

  /**
   * The events after one seq and before another, the newest first.
   * @param {number} after
   * @param {number} [before]
   */
  *newestFirst(after, before = this.head + 1) {
    const end = Math.max(after, this.first - 1);
    for (let seq = Math.min(before - 1, this.head); seq > end; seq--) yield this.at(seq);
  }
}
