/**
 * The table of claims: who holds what, since when, for how long, and against whom.
 */

import { find, h, say } from "./dom.js";
import { contains } from "./filter.js";
import { noteLink, scopeList, workerButton } from "./gist.js";
import { Table } from "./table.js";
import { since, until } from "./times.js";

/** Targets of a scope that a row shows; the rest is told on demand. */
const TARGETS = 4;

export class Claims {
  /**
   * @param {HTMLElement} panel
   * @param {() => string} board
   */
  constructor(panel, board) {
    this.sum = find(".sum", panel);
    this.search = find("input", panel);
    this.search.addEventListener("input", () => this.repaint());
    /** @type {any[]} */
    this.rows = [];
    this.table = new Table(
      find(".scroll", panel),
      [
        { title: "Since", name: "since", cell: (row) => since(row.at), sort: (row) => row.claim, down: true },
        { title: "Holder", name: "holder", cell: (row) => [workerButton(row.holder), noteLink(board(), row.claim)], sort: (row) => row.holder },
        { title: "Scope and intent", name: "what", cell: what },
        { title: "Left", name: "left", cell: (row) => until(row.expires_at), sort: (row) => row.expires_at },
      ],
      { key: (row) => String(row.claim), mark, caption: "Claims that are held or wait", none: "Nobody holds anything." },
    );
  }

  /** @param {import("./fold.js").Fold} fold */
  paint(fold) {
    const conflicts = fold.conflictsByClaim();
    this.rows = [...fold.claims.values()].map((claim) => ({ ...claim, against: against(claim, conflicts.get(claim.claim) ?? []) }));
    this.repaint();
  }

  repaint() {
    const shown = this.rows.filter((row) => contains([row.holder, row.text, ...row.scope], this.search.value));
    const waiting = this.rows.filter((row) => row.waiting).length;
    const held = this.rows.length - waiting;
    say(this.sum, `${held.toLocaleString()} held${waiting > 0 ? `, ${waiting.toLocaleString()} waiting` : ""}`);
    this.table.show(shown);
  }
}

/** @param {any} row */
function what(row) {
  const rival = row.against.length > 0 && h("span", { class: "flag conflict" }, `conflict with ${row.against.join(", ")}`);
  const waits = row.waiting && h("span", { class: "flag waiting" }, "waiting");
  return [h("div", {}, waits, rival, scopeList(row.scope, TARGETS)), h("div", { class: "text" }, row.text)];
}

/** @param {any} row */
function mark(row) {
  return row.against.length > 0 ? "conflict" : row.waiting ? "waiting" : "";
}

/**
 * @param {import("./fold.js").Claim} claim
 * @param {import("./fold.js").Conflict[]} conflicts
 */
function against(claim, conflicts) {
  return conflicts.map((one) => one.holders[one.claims[0] === claim.claim ? 1 : 0]);
}
