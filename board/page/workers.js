/**
 * The table of workers: who is connected, when each was last seen, what it holds, and how much it has not read.
 */

import { workers as fetchWorkers, Refused } from "./api.js";
import { find, h, say } from "./dom.js";
import { contains } from "./filter.js";
import { noteLink, workerButton } from "./gist.js";
import { Table } from "./table.js";
import { now, since } from "./times.js";

/** The pause between two looks at the server, in milliseconds; longer for a large team, whose listing costs more. */
const PAUSE_MS = 4000;
const PAUSE_FOR_EACH_MS = 10;

/** A worker that was not seen for so long is shown as away, in milliseconds. */
const AWAY_MS = 10 * 60_000;

/** Claims of a worker that a row shows. */
const CLAIMS = 3;

export class Workers {
  /**
   * @param {HTMLElement} panel
   * @param {() => string} board
   */
  constructor(panel, board) {
    this.board = board;
    this.sum = find(".sum", panel);
    this.search = find("input", panel);
    this.search.addEventListener("input", () => this.paint());
    /** @type {any[]} */
    this.rows = [];
    this.table = new Table(
      find(".scroll", panel),
      [
        { title: "Worker", name: "name", cell: (row) => [dot(row), workerButton(row.worker)], sort: (row) => row.worker },
        { title: "Seen", name: "seen", cell: (row) => since(row.last_seen), sort: (row) => row.last_seen, down: true },
        { title: "Streams", name: "number", cell: (row) => row.sockets || "–", sort: (row) => row.sockets, down: true },
        { title: "Unread", name: "number", cell: unread, sort: (row) => row.unread, down: true },
        { title: "Claims", name: "held", cell: (row) => this.held(row), sort: (row) => row.claims.length + row.waiting.length, down: true },
      ],
      { key: (row) => row.worker, mark, caption: "Everyone ever seen on the board", none: "Nobody was here yet." },
    );
    this.table.sort(this.table.columns[1]);
  }

  /**
   * Ask for a board's workers until the signal says to stop; not while nobody looks.
   * @param {string} board
   * @param {AbortSignal} signal
   */
  async watch(board, signal) {
    this.rows = [];
    while (!signal.aborted) {
      if (!document.hidden) await this.ask(board, signal);
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS + this.rows.length * PAUSE_FOR_EACH_MS));
    }
  }

  /**
   * @param {string} board
   * @param {AbortSignal} signal
   */
  async ask(board, signal) {
    try {
      const rows = await fetchWorkers(board);
      if (signal.aborted) return;
      this.rows = rows;
      this.paint();
    } catch (error) {
      // The stream tells that the server is away; the list stays as it was.
      if (!(error instanceof Refused)) throw error;
    }
  }

  paint() {
    const connected = this.rows.filter((row) => row.sockets > 0).length;
    say(this.sum, `${this.rows.length.toLocaleString()} seen, ${connected.toLocaleString()} connected`);
    this.table.show(this.rows.filter((row) => contains([row.worker], this.search.value)));
  }

  /** @param {any} row */
  held(row) {
    const all = [...row.claims, ...row.waiting];
    const rest = all.length > CLAIMS && h("span", { class: "more" }, `+${all.length - CLAIMS}`);
    return [...all.slice(0, CLAIMS).map((claim) => noteLink(this.board(), claim)), rest];
  }
}

/** @param {any} row */
function dot(row) {
  const told = row.sockets > 0 ? "connected" : "not connected";
  return h("span", { class: `dot${row.sockets > 0 ? " on" : ""}`, role: "img", "aria-label": told, title: told });
}

/** @param {any} row */
function unread(row) {
  return `${row.unread_at_least ? "≥ " : ""}${row.unread.toLocaleString()}`;
}

/** @param {any} row */
function mark(row) {
  return row.sockets === 0 && now() - Date.parse(row.last_seen) > AWAY_MS ? "away" : "";
}
