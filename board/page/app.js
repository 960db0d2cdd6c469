/**
 * The page: its parts, wired. The address after `#` names the board, and the note that is open: `#main/57`.
 */

import { boards as fetchBoards, Refused } from "./api.js";
import { Attention } from "./attention.js";
import { Claims } from "./claims.js";
import { Counts } from "./counts.js";
import { find, h, say } from "./dom.js";
import { Feed } from "./feed.js";
import { Filter } from "./filter.js";
import { NoteView } from "./note.js";
import { Session } from "./session.js";
import { Status } from "./status.js";
import { tick } from "./times.js";
import { Workers } from "./workers.js";

/** The least time between two paintings, in milliseconds: at fifty notes a second the page stays calm. */
const PAINT_MS = 200;

const board = () => session.board;
const filter = new Filter();
const status = new Status(() => session.hurry());
const feed = new Feed(find("#feed"), filter, board);
const claims = new Claims(find("#claims"), board);
const attention = new Attention(find("#attention"), board);
const workers = new Workers(find("#workers"), board);
const counts = new Counts(find("#counts"), (types) => {
  filter.types = types;
  feed.fill();
});
const noteView = new NoteView(find("#note"), board, () => {
  history.replaceState(null, "", `#${board()}`);
});
const select = find("#boards");
const views = find("#views");
const form = find("#filter");

let due = false;
let session = follow(address().board);

/** What the address names. */
function address() {
  const [name, seq] = location.hash.slice(1).split("/");
  return { board: name || "main", seq: /^\d{1,15}$/.test(seq ?? "") ? Number(seq) : 0 };
}

/** @param {string} name */
function follow(name) {
  const next = new Session(name, {
    opened() {
      feed.open(next.log, next.fold, next.oldest);
      paint();
    },
    events: soon,
    state: (state) => status.set(state),
  });
  void next.run();
  void workers.watch(name, next.ending.signal);
  document.title = `${name} – context board`;
  return next;
}

/** Paint once, before long; not while nobody looks. */
function soon() {
  if (due) return;
  due = true;
  setTimeout(() => requestAnimationFrame(paint), PAINT_MS);
}

function paint() {
  due = false;
  feed.paint();
  claims.paint(session.fold);
  attention.paint(session.fold, session.disputes, session.log);
  counts.paint(session.fold, session.rates);
  say(find("#head"), `#${session.log.head.toLocaleString()}`);
  const tabs = { claims: session.fold.claims.size, attention: attention.count, workers: workers.rows.length };
  for (const [name, count] of Object.entries(tabs)) find(`[data-view=${name}]`, views).dataset.count = String(count);
}

/** Go where the address says. */
function go() {
  const { board: name, seq } = address();
  if (name !== session.board) {
    noteView.close();
    session.leave();
    session = follow(name);
    select.value = name;
  }
  if (seq > 0) void noteView.open(seq, session.log);
  else noteView.close();
}

async function listBoards() {
  try {
    const found = await fetchBoards();
    const names = new Set([...found.map((/** @type {any} */ one) => one.board), board()]);
    select.replaceChildren(...[...names].sort().map((name) => h("option", { value: name }, name)));
    select.value = board();
    // A token for one board alone opens the page on that board.
    if (found.length > 0 && !found.some((/** @type {any} */ one) => one.board === board())) location.hash = found[0].board;
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    setTimeout(listBoards, 5000);
  }
}

function refilter() {
  const said = new FormData(form);
  filter.text = String(said.get("text"));
  filter.author = String(said.get("author"));
  filter.scope = String(said.get("scope"));
  feed.fill();
}

/** @param {string} worker */
function showNotesOf(worker) {
  noteView.close();
  form.elements.namedItem("author").value = worker;
  refilter();
  show("feed");
}

/** @param {string} view */
function show(view) {
  document.body.dataset.view = view;
  for (const button of views.children) button.setAttribute("aria-current", String(button.dataset.view === view));
}

select.addEventListener("change", () => (location.hash = select.value));
form.addEventListener("input", refilter);
form.addEventListener("submit", (/** @type {SubmitEvent} */ event) => event.preventDefault());
form.addEventListener("reset", () => {
  counts.clear();
  filter.types = new Set();
  setTimeout(refilter);
});
views.addEventListener("click", (/** @type {any} */ event) => {
  const view = event.target.closest("button")?.dataset.view;
  if (view) show(view);
});
addEventListener("hashchange", go);
addEventListener("online", () => session.hurry());
addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.target instanceof HTMLInputElement) return;
  event.preventDefault();
  find("input[name=text]", form).focus();
});
document.addEventListener("click", (event) => {
  const target = /** @type {HTMLElement} */ (event.target);
  const worker = target.closest("[data-worker]");
  if (worker instanceof HTMLElement) return showNotesOf(worker.dataset.worker ?? "");
  const row = target.closest("li[data-seq], tbody tr");
  const busy = target.closest("a, button") !== null || getSelection()?.isCollapsed === false;
  if (row && !busy) row.querySelector("a")?.click();
});
setInterval(() => {
  status.paint();
  if (document.hidden) return;
  tick();
  counts.paint(session.fold, session.rates);
}, 1000);

show("feed");
void listBoards();
if (address().seq > 0) go();
