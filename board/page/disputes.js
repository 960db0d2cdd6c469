/**
 * Notes against each other: one refutes the other by name, or the same command ended well in one and badly in the other.
 *
 * The rule is the board's own (`board/core/contradiction.py`), applied to the events that the page has seen.
 */

/**
 * @typedef {object} Dispute
 * @property {"refutes" | "invalidates" | "run"} how
 * @property {any} newer the note that speaks against the other
 * @property {number} older the seq of the other
 * @property {string} [command] the command that ended both ways
 */

/** The most pairs that are kept. */
const KEPT = 500;

export class Disputes {
  constructor() {
    /** @type {Map<string, Dispute>} */
    this.pairs = new Map();
    /** @type {Map<string, {passed?: any, failed?: any}>} */
    this.runs = new Map();
  }

  /** The pairs, the newest first. */
  newestFirst() {
    return [...this.pairs.values()].sort((one, other) => other.newer.seq - one.newer.seq);
  }

  /**
   * Take the next event.
   * @param {any} event
   */
  apply(event) {
    if (event.kind === "note") this.take(event);
    else if (event.kind === "note.retracted") this.drop((pair) => pair.newer.seq === event.note || pair.older === event.note);
    else if (event.kind === "patch.invalidated") {
      const pair = this.pairs.get(name(event.by, event.note));
      if (pair !== undefined) pair.how = "invalidates";
    }
  }

  /** @param {any} note */
  take(note) {
    for (const ref of note.refs ?? []) {
      if (ref.rel === "refutes") this.add({ how: "refutes", newer: note, older: ref.seq });
      else if (ref.rel === "supersedes") this.supersede(ref.seq);
    }
    if (note.run !== undefined) this.ran(note);
  }

  /**
   * Of many runs of one command only the newest of each outcome count.
   * @param {any} note
   */
  ran(note) {
    const command = note.run.command;
    const runs = { ...this.runs.get(command), [note.run.exit_code === 0 ? "passed" : "failed"]: note };
    this.runs.delete(command);
    this.runs.set(command, runs);
    if (this.runs.size > KEPT) this.runs.delete(this.runs.keys().next().value ?? "");
    this.drop((pair) => pair.how === "run" && pair.command === command);
    const other = note.run.exit_code === 0 ? runs.failed : runs.passed;
    if (other !== undefined) this.add({ how: "run", newer: note, older: other.seq, command });
  }

  /** @param {number} seq */
  supersede(seq) {
    this.drop((pair) => pair.how === "run" && (pair.newer.seq === seq || pair.older === seq));
    for (const runs of this.runs.values()) {
      if (runs.passed?.seq === seq) delete runs.passed;
      if (runs.failed?.seq === seq) delete runs.failed;
    }
  }

  /** @param {Dispute} pair */
  add(pair) {
    this.pairs.set(name(pair.newer.seq, pair.older), pair);
    if (this.pairs.size > KEPT) this.pairs.delete(this.pairs.keys().next().value ?? "");
  }

  /** @param {(pair: Dispute) => boolean} which */
  drop(which) {
    for (const [key, pair] of this.pairs) if (which(pair)) this.pairs.delete(key);
  }
}

/**
 * @param {number} newer
 * @param {number} older
 */
function name(newer, older) {
  return `${newer} ${older}`;
}
