/**
 * One board as the page follows it: what it holds now, then every event that comes.
 */

import * as api from "./api.js";
import { Disputes } from "./disputes.js";
import { Fold } from "./fold.js";
import { OTHER } from "./gist.js";
import { Log } from "./log.js";
import { Rates } from "./rates.js";
import { Stream } from "./stream.js";

/** How many of the newest events are read at the start. */
const FIRST_EVENTS = 2000;

/** The pause before the server is asked again, in milliseconds. */
const AGAIN_MS = 3000;

export class Session {
  /**
   * @param {string} board
   * @param {{opened: (session: Session) => void, events: () => void,
   *   state: (state: import("./stream.js").State) => void}} listener
   */
  constructor(board, listener) {
    this.board = board;
    this.listener = listener;
    this.ending = new AbortController();
    this.oldest = 1;
    this.log = new Log(0);
    this.fold = new Fold();
    this.disputes = new Disputes();
    this.rates = new Rates();
    /** @type {() => void} */
    this.wake = () => {};
  }

  /** Follow the board until it is left. */
  async run() {
    while (!this.ending.signal.aborted) {
      try {
        await this.begin();
        await this.stream?.run();
        if (!this.restarting) return;
      } catch (error) {
        if (!(error instanceof api.Refused)) throw error;
        if (error.final) return this.tell({ is: "refused", code: error.code, why: error.message });
        await this.pause();
      }
    }
  }

  /** Read what the board holds, and make the stream that goes on from before that was read. */
  async begin() {
    this.tell({ is: "connecting" });
    const board = await api.board(this.board);
    const [claims, conflicts] = await Promise.all([api.claims(this.board), api.conflicts(this.board)]);
    if (this.ending.signal.aborted) return;
    const position = Math.max(board.oldest - 1, board.head - FIRST_EVENTS);
    this.restarting = false;
    this.oldest = board.oldest;
    this.log = new Log(position);
    this.fold = new Fold(board, claims, conflicts);
    this.disputes = new Disputes();
    this.rates = new Rates();
    this.stream = new Stream(this.board, board.epoch, position, {
      events: (events) => this.take(events),
      state: (state) => this.tell(state),
      restart: () => (this.restarting = true),
    });
    this.listener.opened(this);
  }

  /** Try again now, if it waits. */
  hurry() {
    this.wake();
    this.stream?.hurry();
  }

  /** Leave the board; idempotent. */
  leave() {
    this.ending.abort();
    this.stream?.stop();
    this.wake();
  }

  /** @param {any[]} events */
  take(events) {
    for (const event of events) {
      this.fold.apply(event);
      this.disputes.apply(event);
      this.rates.count(event.type ?? OTHER, event.at);
    }
    const first = this.log.first;
    this.log.add(events);
    if (this.log.first > first) this.fold.forget(this.log.first);
    if (!this.ending.signal.aborted) this.listener.events();
  }

  /** @param {import("./stream.js").State} state */
  tell(state) {
    if (!this.ending.signal.aborted) this.listener.state(state);
  }

  async pause() {
    this.tell({ is: "lost", again: performance.now() + AGAIN_MS });
    await new Promise((resolve) => {
      this.wake = () => resolve(undefined);
      setTimeout(resolve, AGAIN_MS);
    });
  }
}
