/**
 * What needs a person's eye: open conflicts, and notes that speak against each other.
 */

import { find, h } from "./dom.js";
import { badge, gist, noteLink, scopeList, workerButton } from "./gist.js";
import { since } from "./times.js";

/** How many of each are shown. */
const MOST = 50;

export class Attention {
  /**
   * @param {HTMLElement} panel
   * @param {() => string} board
   */
  constructor(panel, board) {
    this.panel = panel;
    this.place = find(".scroll", panel);
    this.board = board;
    this.print = "";
    this.count = 0;
  }

  /**
   * @param {import("./fold.js").Fold} fold
   * @param {import("./disputes.js").Disputes} disputes
   * @param {import("./log.js").Log} log
   */
  paint(fold, disputes, log) {
    const conflicts = [...fold.conflicts.values()].sort((one, other) => other.conflict - one.conflict);
    const pairs = disputes.newestFirst();
    const print = JSON.stringify([conflicts, pairs.map((pair) => [pair.how, pair.newer.seq, pair.older])]);
    if (print === this.print) return;
    this.print = print;
    this.count = conflicts.length + pairs.length;
    this.panel.classList.toggle("quiet", this.count === 0);
    this.place.replaceChildren(
      list("Open conflicts", "No open conflict.", conflicts, (one) => this.conflict(one, fold)),
      list("Contradictions", "No contradiction.", pairs, (one) => this.pair(one, log)),
    );
  }

  /**
   * @param {import("./fold.js").Conflict} one
   * @param {import("./fold.js").Fold} fold
   */
  conflict(one, fold) {
    const side = (/** @type {0 | 1} */ place) => [
      workerButton(one.holders[place]),
      noteLink(this.board(), one.claims[place]),
      h("span", { class: "text" }, fold.claims.get(one.claims[place])?.text ?? ""),
    ];
    return h(
      "li",
      { class: "conflict", "data-conflict": one.conflict },
      h("div", { class: "line" }, scopeList(one.overlap, 6), h("span", { class: "age" }, "open for ", since(one.at))),
      h("div", { class: "side" }, side(0), h("span", { class: "flag" }, "first")),
      h("div", { class: "side" }, side(1)),
    );
  }

  /**
   * @param {import("./disputes.js").Dispute} pair
   * @param {import("./log.js").Log} log
   */
  pair(pair, log) {
    const older = log.at(pair.older);
    const how = pair.how === "run" ? ["ended the other way: ", h("code", {}, pair.command ?? "")] : pair.how;
    const note = (/** @type {any} */ event) => [badge(event), workerButton(event.author), noteLink(this.board(), event.seq), h("span", { class: "text" }, gist(event))];
    return h(
      "li",
      { class: pair.how, "data-pair": `${pair.newer.seq}-${pair.older}` },
      h("div", { class: "side" }, note(pair.newer)),
      h("div", { class: "how" }, how),
      h("div", { class: "side" }, older === undefined ? noteLink(this.board(), pair.older) : note(older)),
    );
  }
}

/**
 * @template T
 * @param {string} title
 * @param {string} none
 * @param {T[]} all
 * @param {(one: T) => HTMLElement} item
 */
function list(title, none, all, item) {
  if (all.length === 0) return h("p", { class: "none" }, none);
  const rest = all.length > MOST && h("p", { class: "none" }, `and ${all.length - MOST} older`);
  return h("div", {}, h("h3", {}, `${title} (${all.length})`), h("ul", {}, all.slice(0, MOST).map(item)), rest);
}
