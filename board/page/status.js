/**
 * Whether what the page shows is true now: connected, catching up, or cut off, and since when.
 */

import { find, h, say } from "./dom.js";
import { span, timeOfDay } from "./times.js";

export class Status {
  /** @param {() => void} retry */
  constructor(retry) {
    this.pill = find("#status");
    this.banner = find("#banner");
    this.retry = retry;
    this.label = h("span", { role: "alert" });
    // Beside the alert, not in it: a countdown that is read out every second helps nobody.
    this.next = h("span");
    this.button = h("button", { type: "button", onclick: () => (this.state.is === "refused" ? location.reload() : this.retry()) }, "Try now");
    this.banner.replaceChildren(this.label, this.next, this.button);
    /** @type {import("./stream.js").State} */
    this.state = { is: "connecting" };
    this.lostAt = "";
  }

  /**
   * Take a change of state.
   * @param {import("./stream.js").State} state
   */
  set(state) {
    if (state.is === "live") this.lostAt = "";
    else if (state.is === "lost" && this.lostAt === "") this.lostAt = new Date().toISOString();
    this.state = state;
    document.documentElement.dataset.state = this.pill.dataset.state = this.shown;
    this.paint();
  }

  /** Say again how long it is until the next try. */
  paint() {
    const state = this.state;
    say(this.pill, WORDS[this.shown]);
    if (state.is === "refused") {
      const what = state.code === "unauthorized" ? "Reload the page to sign in again." : "Choose another board.";
      this.show(`The server refused: ${state.why} ${what}`, "", "Reload");
    } else if (this.lostAt !== "") {
      const next = state.is === "lost" ? `Next try in ${span(state.again - performance.now())}.` : "Trying now.";
      this.show(`Disconnected since ${timeOfDay(this.lostAt)}. The page shows what was known then, and goes on from there by itself.`, next, "Try now");
    } else {
      this.banner.hidden = true;
    }
  }

  /** The state as a word for the style sheet; a lost connection counts as lost until it is live again. */
  get shown() {
    return this.lostAt !== "" && this.state.is !== "refused" ? "lost" : this.state.is;
  }

  /**
   * @param {string} text
   * @param {string} next
   * @param {string} action
   */
  show(text, next, action) {
    this.banner.hidden = false;
    say(this.label, text);
    say(this.next, next);
    say(this.button, action);
  }
}

/** @type {Record<string, string>} */
const WORDS = { connecting: "Connecting…", behind: "Catching up…", live: "Live", lost: "Disconnected", refused: "Refused" };
