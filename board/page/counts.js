/**
 * The strip of counts: how many notes of each type there are, how many a minute, and a button that shows only those.
 */

import { h, say, svg } from "./dom.js";
import { label, OTHER, TYPES } from "./gist.js";

const WIDTH = 60;
const HEIGHT = 18;

export class Counts {
  /**
   * @param {HTMLElement} place
   * @param {(types: Set<string>) => void} choose
   */
  constructor(place, choose) {
    /** @type {Set<string>} */
    this.chosen = new Set();
    this.choose = choose;
    this.chips = [...TYPES, OTHER].map((type) => this.chip(type));
    place.replaceChildren(...this.chips.map((chip) => chip.button));
  }

  /** Choose no type. */
  clear() {
    this.chosen.clear();
    for (const chip of this.chips) chip.button.setAttribute("aria-pressed", "false");
  }

  /**
   * @param {import("./fold.js").Fold} fold
   * @param {import("./rates.js").Rates} rates
   */
  paint(fold, rates) {
    for (const chip of this.chips) {
      say(chip.count, total(fold.counts, chip.type).toLocaleString());
      say(chip.rate, `${rates.minute(chip.type).toLocaleString()}/min`);
      draw(chip.line, rates.course(chip.type));
    }
  }

  /** @param {string} type */
  chip(type) {
    const count = h("b");
    const rate = h("span", { class: "rate" });
    const line = svg("path");
    const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, "aria-hidden": "true", preserveAspectRatio: "none" }, line);
    const name = h("span", { class: "badge", "data-type": type }, label(type));
    const button = h("button", { type: "button", "data-type": type, "aria-pressed": "false" }, name, count, rate, picture);
    button.addEventListener("click", () => this.toggle(type, button));
    return { type, count, rate, line, button };
  }

  /**
   * @param {string} type
   * @param {HTMLElement} button
   */
  toggle(type, button) {
    if (!this.chosen.delete(type)) this.chosen.add(type);
    button.setAttribute("aria-pressed", String(this.chosen.has(type)));
    this.choose(new Set(this.chosen));
  }
}

/**
 * @param {Record<string, number>} counts
 * @param {string} type
 */
function total(counts, type) {
  if (type !== OTHER) return counts[type] ?? 0;
  return Object.entries(counts).reduce((sum, [name, count]) => sum + (TYPES.includes(name) ? 0 : count), 0);
}

/**
 * @param {SVGElement} path
 * @param {number[]} course
 */
function draw(path, course) {
  const most = Math.max(1, ...course);
  const step = WIDTH / course.length;
  const bars = course.map((count, index) => {
    const height = count === 0 ? 0 : Math.max(1.5, (count / most) * HEIGHT);
    return height === 0 ? "" : `M${(index * step).toFixed(1)} ${HEIGHT}v${(-height).toFixed(1)}h${(step - 0.5).toFixed(1)}v${height.toFixed(1)}z`;
  });
  const d = bars.join("");
  if (path.getAttribute("d") !== d) path.setAttribute("d", d);
}
