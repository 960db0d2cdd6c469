/**
 * The calls of the page to the board it came from. The browser adds the credential that the page was opened with.
 */

import { learnClock } from "./times.js";

/** The most that one page of a listing holds. */
const PAGE = 1000;

/** What the server refused, or that it could not be reached (`status` 0). */
export class Refused extends Error {
  /**
   * @param {number} status
   * @param {string} code
   * @param {string} detail
   */
  constructor(status, code, detail) {
    super(detail);
    this.status = status;
    this.code = code;
  }

  /** Whether to try again is of no use before a person has done something. */
  get final() {
    return this.status >= 400 && this.status < 500 && this.status !== 429;
  }
}

/**
 * @param {string} path
 * @param {RequestInit} [how]
 * @returns {Promise<any>}
 */
async function call(path, how = {}) {
  let answer;
  try {
    answer = await fetch(path, { ...how, cache: "no-store", redirect: "error" });
  } catch {
    throw new Refused(0, "unreachable", "The server cannot be reached.");
  }
  learnClock(answer.headers.get("date"));
  const body = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Refused(answer.status, body.code ?? "", body.detail ?? `The server answered ${answer.status}.`);
  return body;
}

/** @param {string} board */
function base(board) {
  return `/v1/boards/${encodeURIComponent(board)}`;
}

/**
 * Read a listing to its end.
 * @param {string} path
 * @param {string} member
 */
async function whole(path, member) {
  const found = [];
  let after = 0;
  do {
    const page = await call(`${path}&after=${after}&limit=${PAGE}`);
    found.push(...page[member]);
    after = page.next;
  } while (after !== null);
  return found;
}

/** The boards that the caller may see. */
export async function boards() {
  return (await call("/v1/boards")).boards;
}

/** Head, epoch, oldest seq and counts of a board.
 * @param {string} board */
export function board(board) {
  return call(base(board));
}

/** All claims that are held or wait.
 * @param {string} board */
export async function claims(board) {
  const [live, waiting] = await Promise.all([
    whole(`${base(board)}/claims?state=live`, "claims"),
    whole(`${base(board)}/claims?state=waiting`, "claims"),
  ]);
  return [...live, ...waiting];
}

/** All open conflicts.
 * @param {string} board */
export function conflicts(board) {
  return whole(`${base(board)}/conflicts?state=open`, "conflicts");
}

/** Everyone ever seen.
 * @param {string} board */
export async function workers(board) {
  return (await call(`${base(board)}/workers`)).workers;
}

/** One note, with what became of it.
 * @param {string} board
 * @param {number} seq */
export function note(board, seq) {
  return call(`${base(board)}/notes/${seq}`);
}

/** The long text of a note.
 * @param {string} board
 * @param {number} seq
 * @returns {Promise<string>} */
export async function detail(board, seq) {
  return (await call(`${base(board)}/notes/${seq}/detail`)).detail;
}

/** A page of the log that ends before a seq, the newest first.
 * @param {string} board
 * @param {number} before
 * @param {number} limit */
export function eventsBefore(board, before, limit) {
  return call(`${base(board)}/events?order=desc&before=${before}&limit=${limit}`);
}

/**
 * The address of a stream that goes on after a position, with a ticket that opens it once.
 * @param {string} board
 * @param {number} after
 * @param {string} epoch
 */
export async function streamAddress(board, after, epoch) {
  const { ticket } = await call("/v1/tickets", { method: "POST" });
  const address = new URL(`${base(board)}/stream`, location.href);
  address.protocol = location.protocol === "https:" ? "wss:" : "ws:";
  address.search = new URLSearchParams({ after: String(after), epoch, ticket }).toString();
  return address;
}
