/**
 * Elements made from values. Whatever others wrote becomes a text node; nothing here parses HTML.
 *
 * Characters that no eye sees but that turn a line around, or move a cursor, are shown by their numbers.
 */

/** @typedef {Node | string | number | null | undefined | false} Child */

const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
const SVG = "http://www.w3.org/2000/svg";

/**
 * Make an element. A property whose name starts with `on` is a listener; a boolean one is set or left out.
 * @param {string} tag
 * @param {Record<string, any>} [properties]
 * @param {...(Child | Child[])} children
 * @returns {HTMLElement}
 */
export function h(tag, properties = {}, ...children) {
  return /** @type {HTMLElement} */ (fill(document.createElement(tag), properties, children));
}

/**
 * Make an SVG element.
 * @param {string} tag
 * @param {Record<string, any>} [properties]
 * @param {...Child} children
 * @returns {SVGElement}
 */
export function svg(tag, properties = {}, ...children) {
  return /** @type {SVGElement} */ (fill(document.createElementNS(SVG, tag), properties, children));
}

/**
 * Find the one element of the page that a selector names.
 * @param {string} selector
 * @param {ParentNode} [root]
 * @returns {any}
 */
export function find(selector, root = document) {
  const found = root.querySelector(selector);
  if (found === null) throw new Error(`the page has no ${selector}`);
  return found;
}

/**
 * Set a text only where it differs: a node that is set anew loses its selection and is read out again.
 * @param {Element} element
 * @param {string} text
 */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/**
 * @param {Element} element
 * @param {Record<string, any>} properties
 * @param {(Child | Child[])[]} children
 */
function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, String(value));
  }
  for (const child of children.flat()) {
    if (typeof child === "string") element.append(plain(child));
    else if (child !== null && child !== undefined && child !== false) element.append(/** @type {any} */ (child));
  }
  return element;
}

/** @param {string} text */
function plain(text) {
  return text.replace(UNSEEN, (one) => `⟨U+${one.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
}
