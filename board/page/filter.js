/**
 * Which events the list of notes shows.
 */

import { gist, typeOf } from "./gist.js";

/** Shown only to who asks for events by name: a busy team renews a lease every few seconds. */
const USUALLY_HIDDEN = new Set(["claim.renewed"]);

export class Filter {
  constructor() {
    /** @type {Set<string>} Types to show; none for all. */
    this.types = new Set();
    this.text = "";
    this.author = "";
    this.scope = "";
  }

  /** Whether anything is left out that a person may want to see. */
  get active() {
    return this.types.size > 0 || this.text !== "" || this.author !== "" || this.scope !== "";
  }

  /**
   * Tell whether an event is shown.
   * @param {any} event
   */
  keeps(event) {
    if (this.types.size > 0 ? !this.types.has(typeOf(event)) : USUALLY_HIDDEN.has(event.kind)) return false;
    return (
      contains([event.author, event.holder, ...(event.holders ?? [])], this.author) &&
      contains([...(event.scope ?? []), ...(event.files ?? []), ...(event.overlap ?? [])], this.scope) &&
      words(this.text).every((word) => contains(said(event), word))
    );
  }
}

/**
 * Tell whether one of the texts contains a part, in any case.
 * @param {(string | undefined)[]} texts
 * @param {string} part
 */
export function contains(texts, part) {
  const wanted = part.trim().toLowerCase();
  return wanted === "" || texts.some((text) => text !== undefined && text.toLowerCase().includes(wanted));
}

/** @param {any} event */
function said(event) {
  return [gist(event), event.text, event.evidence, event.risk, event.task, event.run?.command, ...(event.tags ?? [])];
}

/** @param {string} text */
function words(text) {
  return text.split(/\s+/).filter((word) => word !== "");
}
