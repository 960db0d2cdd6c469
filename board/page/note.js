/**
 * One note, whole: its fields, its long text, what it refers to, and what came of it.
 */

import * as api from "./api.js";
import { h } from "./dom.js";
import { badge, gist, noteLink, scopeList, subject, workerButton } from "./gist.js";
import { since, stamp, until } from "./times.js";

/** How many later events about a note are listed. */
const LATER = 50;

export class NoteView {
  /**
   * @param {HTMLDialogElement} dialog
   * @param {() => string} board
   * @param {() => void} closed
   */
  constructor(dialog, board, closed) {
    this.dialog = dialog;
    this.board = board;
    this.seq = 0;
    dialog.addEventListener("close", closed);
    dialog.addEventListener("click", (event) => {
      if (event.target === dialog) dialog.close();
    });
  }

  /**
   * Show a note.
   * @param {number} seq
   * @param {import("./log.js").Log | undefined} log
   */
  async open(seq, log) {
    this.seq = seq;
    if (!this.dialog.open) this.dialog.showModal();
    this.put(seq, h("p", { class: "none" }, "Reading…"));
    try {
      const note = await api.note(this.board(), seq);
      if (this.seq === seq) this.show(note, log);
    } catch (error) {
      if (this.seq === seq) this.put(seq, h("p", { class: "none" }, error instanceof Error ? error.message : String(error)));
    }
  }

  /** Close it; a no-op where it is not open. */
  close() {
    this.seq = 0;
    if (this.dialog.open) this.dialog.close();
  }

  /**
   * @param {number} seq
   * @param {...import("./dom.js").Child} content
   */
  put(seq, ...content) {
    const shut = h("button", { type: "button", class: "shut", "aria-label": "Close", onclick: () => this.dialog.close() }, "×");
    this.dialog.replaceChildren(h("header", {}, h("h2", { id: "note-title" }, `Note #${seq}`), shut), h("div", { class: "body" }, ...content));
    this.dialog.scrollTop = 0;
  }

  /**
   * @param {any} note
   * @param {import("./log.js").Log | undefined} log
   */
  show(note, log) {
    const board = this.board();
    this.put(
      note.seq,
      h("p", { class: "line" }, badge(note), workerButton(note.author), h("span", { class: "when" }, stamp(note.at), " (", since(note.at), " ago)")),
      h("div", { class: "marks" }, marks(note, board)),
      h("blockquote", {}, gist(note)),
      h("dl", {}, fields(note).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))),
      references(note, board, log),
      later(note, board, log),
      note.detail_bytes > 0 ? this.detail(note) : null,
    );
  }

  /** @param {any} note */
  detail(note) {
    const section = h("section", { class: "detail" }, h("h3", {}, `Detail (${note.detail_bytes.toLocaleString()} bytes)`));
    void api
      .detail(this.board(), note.seq)
      .catch((error) => error.message)
      .then((text) => section.append(h("pre", { tabindex: 0 }, text)));
    return section;
  }
}

/**
 * @param {any} note
 * @param {string} board
 */
function marks(note, board) {
  const flag = (/** @type {import("./dom.js").Child[]} */ ...what) => h("p", { class: "flag mark" }, ...what);
  const { retracted, ended } = note;
  return [
    retracted && flag(`Retracted by ${retracted.by}${retracted.reason ? `: ${retracted.reason}` : ""}`),
    note.superseded_by && flag("Superseded by ", noteLink(board, note.superseded_by)),
    note.invalidated_by && flag("Invalidated by ", noteLink(board, note.invalidated_by)),
    note.stale && flag("Stale: the claim had ended before this came"),
    ended && h("p", { class: "flag" }, `Claim ended: ${ended.how}, ${ended.at}`),
  ];
}

/**
 * The fields that a note has, under the names that people know.
 * @param {any} note
 * @returns {[string, import("./dom.js").Child | import("./dom.js").Child[]][]}
 */
function fields(note) {
  const run = note.run && [h("code", {}, note.run.command), ` ended with ${note.run.exit_code}`];
  const lease = note.type === "CLAIM" && !note.ended && note.expires_at && ["began as ", note.state, ", until ", stamp(note.expires_at), " unless renewed (", until(note.expires_at), ")"];
  /** @type {[string, any][]} */
  const all = [
    ["Scope", note.scope && scopeList(note.scope)],
    ["Files", note.files && scopeList(note.files)],
    ["Lease", lease],
    ["Evidence", note.evidence],
    ["Run", run],
    ["Risk", note.risk],
    ["Task", note.task],
    ["Work", note.work],
    ["Commit", note.commit],
    ["Pull request", note.pr],
    ["To", note.to?.join(", ")],
    ["Tags", note.tags?.join(", ")],
  ];
  return all.filter(([, value]) => value);
}

/**
 * @param {any} note
 * @param {string} board
 * @param {import("./log.js").Log | undefined} log
 */
function references(note, board, log) {
  const refs = [...(note.refs ?? [])];
  if (note.claim) refs.push({ rel: "done under claim", seq: note.claim });
  if (refs.length === 0) return null;
  const items = refs.map((ref) => h("li", {}, h("span", { class: "rel" }, ref.rel.replace("_", " ")), noteLink(board, ref.seq), told(log?.at(ref.seq))));
  return h("section", {}, h("h3", {}, "Refers to"), h("ul", { class: "refs" }, items));
}

/**
 * What later events, among those that the page has, say about the note.
 * @param {any} note
 * @param {string} board
 * @param {import("./log.js").Log | undefined} log
 */
function later(note, board, log) {
  const items = [];
  for (const event of log?.newestFirst(note.seq) ?? []) {
    const ref = event.refs?.find((/** @type {any} */ one) => one.seq === note.seq);
    const about = event.kind !== "note" && (subject(event) === note.seq || event.claims?.includes(note.seq));
    if (ref === undefined && !about) continue;
    const link = event.kind === "note" ? noteLink(board, event.seq) : h("span", { class: "seq" }, `#${event.seq}`);
    items.push(h("li", {}, h("span", { class: "rel" }, ref?.rel.replace("_", " ") ?? event.kind), link, told(event), h("span", { class: "when" }, stamp(event.at))));
    if (items.length === LATER) break;
  }
  return items.length === 0 ? null : h("section", {}, h("h3", {}, "Since then"), h("ul", { class: "refs" }, items));
}

/** @param {any} event */
function told(event) {
  return event === undefined ? null : h("span", { class: "text" }, h("b", {}, event.author), " ", gist(event));
}
