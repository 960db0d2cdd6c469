/**
 * The stream of one board: opened, watched, and opened again where it stood, until it is stopped.
 *
 * A seq that does not follow the last one is never shown: the stream is opened again from the last one that did.
 */

import { Refused, streamAddress } from "./api.js";

/**
 * @typedef {{is: "connecting"} | {is: "behind", head: number} | {is: "live"} | {is: "lost", again: number}
 *   | {is: "refused", code: string, why: string}} State
 * Where the stream stands; `again` is when it is tried next (`performance.now()`).
 *
 * @typedef {object} Listener
 * @property {(events: any[]) => void} events takes what comes next in the log
 * @property {(state: State) => void} state is told of every change
 * @property {() => void} restart is told that the log cannot be continued from here: begin anew
 */

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 5_000;
const QUIET_MS = 10_000;
const SILENT_MS = 20_000;

/** A stream that is further behind than this begins anew with the newest events. */
const FAR_BEHIND = 10_000;

const REFUSALS = new Map([[4400, "invalid"], [4401, "unauthorized"], [4403, "forbidden"], [4404, "board_not_found"]]);
const RESTARTS = new Set([4409, 4410]);

export class Stream {
  /**
   * @param {string} board
   * @param {string} epoch
   * @param {number} position the seq of the last event that is known
   * @param {Listener} listener
   */
  constructor(board, epoch, position, listener) {
    this.board = board;
    this.epoch = epoch;
    this.position = position;
    this.listener = listener;
    this.stopped = false;
    this.tries = 0;
    /** @type {() => void} */
    this.wake = () => {};
    /** @type {() => void} */
    this.leave = () => {};
  }

  /** Open the stream, and again whenever it is lost. */
  async run() {
    while (!this.stopped) {
      this.listener.state({ is: "connecting" });
      const end = await this.once();
      if (this.stopped) return;
      if (end === "restart") return this.listener.restart();
      if (end !== null) return this.listener.state({ is: "refused", ...end });
      await this.pause();
    }
  }

  /** Try again now, if it waits. */
  hurry() {
    this.wake();
  }

  /** End for good; idempotent. */
  stop() {
    this.stopped = true;
    this.leave();
    this.wake();
  }

  /**
   * One connection, to its end.
   * @returns {Promise<null | "restart" | {code: string, why: string}>} null where it is worth another try
   */
  async once() {
    let address;
    try {
      address = await streamAddress(this.board, this.position, this.epoch);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      return error.final ? { code: error.code, why: error.message } : null;
    }
    return this.stopped ? null : new Promise((resolve) => this.listen(new WebSocket(address), resolve));
  }

  /**
   * @param {WebSocket} socket
   * @param {(end: null | "restart" | {code: string, why: string}) => void} resolve
   */
  listen(socket, resolve) {
    let heard = performance.now();
    const watch = setInterval(() => {
      const silent = performance.now() - heard;
      if (silent > SILENT_MS) end(null);
      // The browser answers pings unseen; an op that has an answer shows that the other side is still there.
      else if (silent > QUIET_MS && socket.readyState === WebSocket.OPEN) socket.send('{"op":"filter","id":0}');
    }, QUIET_MS / 2);
    const end = (/** @type {null | "restart" | {code: string, why: string}} */ how) => {
      clearInterval(watch);
      socket.onmessage = socket.onclose = null;
      socket.close();
      resolve(how);
    };
    this.leave = () => end(null);
    socket.onmessage = (message) => {
      heard = performance.now();
      const found = this.take(JSON.parse(message.data));
      if (found !== "on") end(found === "again" ? null : "restart");
    };
    socket.onclose = (event) => {
      const code = REFUSALS.get(event.code);
      if (RESTARTS.has(event.code)) end("restart");
      else end(code === undefined ? null : { code, why: detailOf(event.reason) });
    };
  }

  /**
   * @param {any} frame
   * @returns {"on" | "again" | "restart"}
   */
  take(frame) {
    if (frame.op === "hello") {
      if (frame.head - this.position > FAR_BEHIND) return "restart";
      this.listener.state({ is: "behind", head: frame.head });
    } else if (frame.op === "live") {
      this.tries = 0;
      this.listener.state({ is: "live" });
    } else if (frame.op === "events") {
      return this.takeEvents(frame.events);
    }
    return "on";
  }

  /**
   * @param {any[]} events
   * @returns {"on" | "again"}
   */
  takeEvents(events) {
    const next = events.filter((event) => event.seq > this.position);
    const whole = next.every((event, index) => event.seq === this.position + 1 + index);
    if (!whole) return "again";
    this.position += next.length;
    if (next.length > 0) this.listener.events(next);
    return "on";
  }

  /** Wait before the next try: longer each time, and not all pages at once. */
  async pause() {
    const longest = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** this.tries);
    this.tries += 1;
    const wait = longest * (0.5 + Math.random() / 2);
    this.listener.state({ is: "lost", again: performance.now() + wait });
    await new Promise((resolve) => {
      const timer = setTimeout(resolve, wait);
      this.wake = () => {
        clearTimeout(timer);
        resolve(undefined);
      };
    });
  }
}

/**
 * What the reason of a close says in words.
 * @param {string} reason
 */
function detailOf(reason) {
  try {
    return String(JSON.parse(reason).detail);
  } catch {
    return reason;
  }
}
