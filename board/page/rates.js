/**
 * How many events of each type came in the last minutes, by the server's clock.
 */

import { now } from "./times.js";

/** Length of one step in milliseconds, and how many steps are kept: five minutes. */
const STEP_MS = 10_000;
const STEPS = 30;
const STEPS_A_MINUTE = 60_000 / STEP_MS;

export class Rates {
  constructor() {
    /** @type {Map<string, Map<number, number>>} */
    this.steps = new Map();
  }

  /**
   * Count an event.
   * @param {string} name
   * @param {string} at
   */
  count(name, at) {
    const step = Math.floor(Date.parse(at) / STEP_MS);
    if (step <= current() - STEPS) return;
    const steps = this.steps.get(name) ?? new Map();
    steps.set(step, (steps.get(step) ?? 0) + 1);
    this.steps.set(name, steps);
    if (steps.size > STEPS + 2) for (const old of steps.keys()) if (old <= current() - STEPS) steps.delete(old);
  }

  /**
   * The counts of the last steps, the oldest first.
   * @param {string} name
   * @returns {number[]}
   */
  course(name) {
    const steps = this.steps.get(name);
    return Array.from({ length: STEPS }, (_, index) => steps?.get(current() - STEPS + 1 + index) ?? 0);
  }

  /**
   * How many came within about the last minute.
   * @param {string} name
   */
  minute(name) {
    return this.course(name).slice(-STEPS_A_MINUTE).reduce((sum, count) => sum + count, 0);
  }
}

function current() {
  return Math.floor(now() / STEP_MS);
}
