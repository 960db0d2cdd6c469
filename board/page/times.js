/**
 * The server's clock, and times as people read them.
 */

import { h, say } from "./dom.js";

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** A lease that ends within this time is shown as urgent, in milliseconds. */
const SOON = MINUTE;

let skew = 0;

/**
 * Learn how far the server's clock is ahead, from the Date header of an answer (which has no fractions of a second).
 * @param {string | null} date
 */
export function learnClock(date) {
  const told = date === null ? NaN : Date.parse(date);
  if (!Number.isNaN(told)) skew = Math.abs(told - Date.now()) < 2 * SECOND ? 0 : told + SECOND / 2 - Date.now();
}

/** The server's time now, in milliseconds since 1970. */
export function now() {
  return Date.now() + skew;
}

/**
 * A length of time in its two largest units.
 * @param {number} ms
 */
export function span(ms) {
  if (ms < MINUTE) return `${Math.max(0, Math.floor(ms / SECOND))}s`;
  if (ms < 10 * MINUTE) return `${Math.floor(ms / MINUTE)}m ${two(Math.floor((ms % MINUTE) / SECOND))}s`;
  if (ms < HOUR) return `${Math.floor(ms / MINUTE)}m`;
  if (ms < DAY) return `${Math.floor(ms / HOUR)}h ${two(Math.floor((ms % HOUR) / MINUTE))}m`;
  return `${Math.floor(ms / DAY)}d ${Math.floor((ms % DAY) / HOUR)}h`;
}

/**
 * The time of day here, with the date where it is not today's.
 * @param {string} at
 */
export function timeOfDay(at) {
  const date = new Date(at);
  const time = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  if (date.toDateString() === new Date(now()).toDateString()) return time;
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${time}`;
}

/**
 * An element that tells a time of day.
 * @param {string} at
 */
export function stamp(at) {
  return h("time", { datetime: at, title: at }, timeOfDay(at));
}

/**
 * An element that tells how long ago a time was, and goes on telling it.
 * @param {string} at
 */
export function since(at) {
  return ticking(h("time", { datetime: at, title: timeOfDay(at), "data-tick": "since" }));
}

/**
 * An element that tells how long it is until a time, and goes on telling it.
 * @param {string} at
 */
export function until(at) {
  return ticking(h("time", { datetime: at, title: timeOfDay(at), "data-tick": "until" }));
}

/** Bring every ticking time of the page up to date. */
export function tick() {
  for (const element of document.querySelectorAll("time[data-tick]")) ticking(/** @type {HTMLElement} */ (element));
}

/**
 * @param {HTMLElement} element
 */
function ticking(element) {
  const at = Date.parse(element.getAttribute("datetime") ?? "");
  if (element.dataset.tick === "since") {
    say(element, span(now() - at));
  } else {
    const left = at - now();
    say(element, left > 0 ? span(left) : "over");
    element.classList.toggle("soon", left < SOON);
  }
  return element;
}

/** @param {number} value */
function two(value) {
  return String(value).padStart(2, "0");
}
