/**
 * An event in one line of words, and the small pieces that every view shows of it.
 */

import { h } from "./dom.js";

/** The types of notes. */
export const TYPES = ["OBSERVED", "FACT", "FAIL", "CLAIM", "PATCH_SUMMARY"];

/** What stands for all events that are no notes. */
export const OTHER = "EVENT";

/**
 * The type of a note, or what stands for any other event.
 * @param {any} event
 * @returns {string}
 */
export function typeOf(event) {
  return event.type ?? OTHER;
}

/** @type {Record<string, (event: any) => string>} */
const SENTENCES = {
  note: (event) => event.text ?? event.idea ?? "",
  "claim.refused": (event) => `was refused a claim: ${event.text} (${event.reason ?? "claim_conflict"}; #${event.claim} is ${event.holder}'s)`,
  "claim.queued": (event) => `claim #${event.claim} waits`,
  "claim.granted": (event) => `claim #${event.claim} is granted to ${event.holder}`,
  "claim.renewed": (event) => `renewed claim #${event.claim}`,
  "claim.narrowed": (event) => `narrowed claim #${event.claim}`,
  "claim.released": (event) => `released claim #${event.claim}: ${event.outcome}${event.text ? `, ${event.text}` : ""}`,
  "claim.expired": (event) => `claim #${event.claim} of ${event.holder} expired`,
  "claim.transferred": (event) => `claim #${event.claim} went from ${event.from} to ${event.holder}`,
  "conflict.opened": (event) => `conflict of ${event.holders[0]} (#${event.claims[0]}) and ${event.holders[1]} (#${event.claims[1]})`,
  "conflict.closed": (event) => `conflict of ${event.holders[0]} and ${event.holders[1]} is over: ${event.how}`,
  "note.retracted": (event) => `retracted #${event.note}${event.reason ? `: ${event.reason}` : ""}`,
  "patch.superseded": (event) => `patch #${event.note} is superseded by #${event.by}`,
  "patch.invalidated": (event) => `patch #${event.note} is invalidated by #${event.by}`,
};

/**
 * An event in one line.
 * @param {any} event
 * @returns {string}
 */
export function gist(event) {
  return SENTENCES[event.kind]?.(event) ?? event.kind;
}

/**
 * The seq of the note that an event is, or is about.
 * @param {any} event
 * @returns {number}
 */
export function subject(event) {
  return event.kind === "note" ? event.seq : event.note ?? event.claim ?? event.claims?.[0] ?? event.seq;
}

/**
 * A label that names the type of a note, or the kind of any other event.
 * @param {any} event
 */
export function badge(event) {
  return h("span", { class: "badge", "data-type": typeOf(event) }, label(event.type ?? event.kind));
}

/**
 * The name of a type as it is shown.
 * @param {string} type
 */
export function label(type) {
  if (type === OTHER) return "EVENTS";
  return type === "PATCH_SUMMARY" ? "PATCH" : type;
}

/**
 * A link that opens a note.
 * @param {string} board
 * @param {number} seq
 */
export function noteLink(board, seq) {
  return h("a", { class: "seq", href: `#${board}/${seq}` }, `#${seq}`);
}

/**
 * The targets of a scope, each in a frame of its own.
 * @param {string[]} targets
 * @param {number} [most]
 */
export function scopeList(targets, most = Infinity) {
  const shown = targets.slice(0, most).map((target) => h("code", {}, target));
  const more = targets.length - shown.length;
  const rest = more > 0 && h("span", { class: "more", title: targets.slice(most).join("\n") }, `+${more}`);
  return h("span", { class: "scope" }, shown, rest);
}

/**
 * The name of a worker, which sets the author of the filter when it is chosen.
 * @param {string} worker
 */
export function workerButton(worker) {
  return h("button", { type: "button", class: "worker", "data-worker": worker, title: `Show the notes of ${worker}` }, worker);
}
