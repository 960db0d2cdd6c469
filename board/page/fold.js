/**
 * What the log folds to, as far as the page shows it: live claims, open conflicts, counts, and what became of notes.
 *
 * The listings that it starts from are read after the log's position is known, so some of the events that come then
 * are in them already. Each move sets what it says and nothing else, so to make it twice changes nothing, and the last
 * event about a claim wins in both.
 */

/**
 * @typedef {object} Claim
 * @property {number} claim
 * @property {string} holder
 * @property {string} text
 * @property {string[]} scope
 * @property {string} at
 * @property {string} expires_at
 * @property {boolean} waiting
 *
 * @typedef {object} Conflict
 * @property {number} conflict
 * @property {[number, number]} claims
 * @property {[string, string]} holders
 * @property {string[]} overlap
 * @property {string} at
 */

export class Fold {
  /**
   * @param {{head: number, events: Record<string, number>}} [board]
   * @param {any[]} [claims]
   * @param {any[]} [conflicts]
   */
  constructor(board = { head: 0, events: {} }, claims = [], conflicts = []) {
    this.counted = board.head;
    /** @type {Record<string, number>} */
    this.counts = { ...board.events };
    /** @type {Map<number, Claim>} */
    this.claims = new Map(claims.map((one) => [one.claim, { ...one, waiting: one.state === "waiting" }]));
    /** @type {Map<number, Conflict>} */
    this.conflicts = new Map(conflicts.map((one) => [one.conflict, { ...one }]));
    /** @type {Map<number, string>} What became of a note, by its seq. */
    this.marks = new Map();
  }

  /**
   * Take the next event.
   * @param {any} event
   */
  apply(event) {
    if (event.seq > this.counted) {
      const name = event.type ?? event.kind;
      this.counts[name] = (this.counts[name] ?? 0) + 1;
    }
    this.mark(event);
    MOVES[event.kind]?.(this, event);
  }

  /**
   * Keep what an event says of a note, also where the event is older than the fold.
   * @param {any} event
   */
  mark(event) {
    if (event.kind === "note.retracted") this.marks.set(event.note, "retracted");
    else if (event.kind === "patch.invalidated") this.marks.set(event.note, `invalidated by #${event.by}`);
    else if (event.kind === "patch.superseded" && !this.marks.has(event.note)) {
      this.marks.set(event.note, `superseded by #${event.by}`);
    }
  }

  /**
   * Forget what became of notes that are kept no more.
   * @param {number} first
   */
  forget(first) {
    for (const seq of this.marks.keys()) if (seq < first) this.marks.delete(seq);
  }

  /** The open conflicts of each claim. */
  conflictsByClaim() {
    /** @type {Map<number, Conflict[]>} */
    const found = new Map();
    for (const conflict of this.conflicts.values()) {
      for (const claim of conflict.claims) found.set(claim, [...(found.get(claim) ?? []), conflict]);
    }
    return found;
  }
}

/** @type {Record<string, (fold: Fold, event: any) => void>} */
const MOVES = {
  note(fold, event) {
    if (event.type !== "CLAIM") return;
    const { seq: claim, author: holder, text, scope, at, expires_at } = event;
    fold.claims.set(claim, { claim, holder, text, scope, at, expires_at, waiting: event.state === "waiting" });
  },
  "claim.granted": (fold, event) => change(fold, event, { waiting: false, expires_at: event.expires_at }),
  "claim.renewed": (fold, event) => change(fold, event, { expires_at: event.expires_at }),
  "claim.narrowed": (fold, event) => change(fold, event, { scope: event.scope }),
  "claim.transferred"(fold, event) {
    change(fold, event, { holder: event.holder });
    for (const conflict of fold.conflicts.values()) {
      const place = conflict.claims.indexOf(event.claim);
      if (place >= 0) conflict.holders = /** @type {any} */ (conflict.holders.with(place, event.holder));
    }
  },
  "claim.released": (fold, event) => fold.claims.delete(event.claim),
  "claim.expired": (fold, event) => fold.claims.delete(event.claim),
  "conflict.opened"(fold, event) {
    const { seq: conflict, claims, holders, overlap, at } = event;
    fold.conflicts.set(conflict, { conflict, claims, holders, overlap, at });
  },
  "conflict.closed": (fold, event) => fold.conflicts.delete(event.conflict),
};

/**
 * @param {Fold} fold
 * @param {any} event
 * @param {Partial<Claim>} what
 */
function change(fold, event, what) {
  const claim = fold.claims.get(event.claim);
  if (claim !== undefined) fold.claims.set(event.claim, { ...claim, ...what });
}
