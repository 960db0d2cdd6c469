"""What the board does for a caller. Every surface calls this, with who calls; nothing else touches store and hub.

Every call that names a board counts as a sign of life of its worker. Refusals leave as `ProblemError`. A reply to a
write is given when the write is durable.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

import msgspec
import structlog

from board.core import claims
from board.core.admission import spell_scope
from board.core.commands import Append, Command, Narrow, Post, PostBatch, Release, Renew, Retract, SignOfLife, Transfer
from board.core.decide import ClaimReply, Done, Stored
from board.core.exported import header_of
from board.core.selection import Filter
from board.core.similar import similar_claims
from board.core.spelling import BadTarget, spell_root
from board.core.step import StoredBatch
from board.core.words import parse
from board.service import importing, views
from board.service.access import Access, Identity, check_board, needs
from board.service.boards import Boards, OpenBoard, kept_after
from board.service.quotas import Hasty, Quotas
from board.service.reading import Reading
from board.service.waiting import Waiting
from board.store.contract import BoardExists, StoreDamaged, StoreFull, StoreUnavailable
from schema.codec import encode
from schema.codes import Problem, ProblemError, problem
from schema.limits import BATCH_LIMIT, BOARD_NAME_PATTERN, CEILINGS, RELATED_LIMIT
from schema.notes import Claim

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from board.core.history import Record
    from board.core.scope import Target
    from board.core.snapshot import Snapshot
    from board.core.unread import Block
    from board.service import questions
    from board.service.clock import Clock
    from board.service.neighbours import Nodes
    from board.settings import ServerSettings
    from board.store.contract import BoardRow, Row, Store
    from schema.notes import Batch, Draft

log = structlog.get_logger()

_BOARD_NAME: Final = re.compile(BOARD_NAME_PATTERN)
_RELATED_TYPES: Final = ("FACT", "FAIL", "PATCH_SUMMARY")
_PAGE_BYTES: Final = 4_194_304
_EXPORT_ROWS: Final = 500
_TOKEN_REFRESH_S: Final = 1.0


class Reply(msgspec.Struct, frozen=True):
    """An answer, ready to be sent: the HTTP status (the stream's too) and a body that `schema.codec.encode` takes."""

    status: int
    body: Any


def translate(error: StoreUnavailable) -> ProblemError:
    """Make the problem of a store's failure."""
    code = "store_full" if isinstance(error, StoreFull) else "store_unavailable"
    return ProblemError(problem(code, str(error)))


class Service:
    """All boards of one process. Make one, `start` it, and `close` it when done."""

    def __init__(self, store: Store, clock: Clock, settings: ServerSettings, nodes: Nodes | None = None) -> None:
        self.settings = settings
        self.clock = clock
        self.access = Access(store, clock, secret=settings.secret, commons=nodes.commons if nodes is not None else None)
        self.boards = Boards(store, clock, settings, nodes)
        self._nodes = nodes
        self.quotas = Quotas(settings, self.access)
        self._store = store
        self._reading = Reading(store, alone=nodes is None)
        self._waiting = Waiting(store)
        self._stopping = asyncio.Event()
        self._refresh: asyncio.Task[None] | None = None
        self._signs: set[asyncio.Future[Any]] = set()

    async def start(self) -> None:
        """Open the store and the boards that it has: what ended while nobody served is logged before any call."""
        await self._store.open()
        await self.access.refresh()
        if self.access.keyless:
            log.error("tokens.key_missing", action="put it back beside the store, or make new tokens")
        for row in await self._store.boards():
            try:
                await self.boards.get(row.name)
            except StoreDamaged as error:  # it is one team's; the others' boards are served
                log.error("board.damaged", board=row.name, reason=str(error))  # noqa: TRY400
        self.boards.start()
        if self._nodes is not None:
            self.access.on_change = self._nodes.bus.ring_for_tokens
            self._nodes.start(self.boards, self.access)
        self._refresh = asyncio.create_task(self._refresh_tokens(), name="refresh of the tokens")

    async def close(self) -> None:
        """Carry out what was asked, keep the state, and let go of the store."""
        self.stop_waits()
        if self._refresh is not None:
            self._refresh.cancel()
            await asyncio.gather(self._refresh, return_exceptions=True)
        await self.boards.close()
        if self._nodes is not None:
            await self._nodes.close()
        await self._store.close()

    @property
    def waits(self) -> int:
        """How many long polls wait now."""
        return len(self._waiting)

    @property
    def hears_others(self) -> bool:
        """Whether rings of other nodes are heard now; a node that is alone has nothing to hear."""
        return self._nodes is None or self._nodes.bus.hears

    def stop_waits(self) -> None:
        """Let every long poll answer now, because the server is stopping."""
        self._stopping.set()
        self._waiting.stop()

    async def _refresh_tokens(self) -> None:
        while True:
            await asyncio.sleep(_TOKEN_REFRESH_S)
            try:
                await self.access.refresh()
            except StoreUnavailable as error:
                log.warning("tokens.refresh_failed", reason=str(error))

    # --- who calls ---------------------------------------------------------------------------------------------------

    async def enter(self, who: Identity, board: str, root: str | None = None, *, fresh: bool = True) -> OpenBoard:
        """Give a board to a caller, and count the call as a sign of life.

        Its state is as far as any node's was at the time of the call; a write needs no such (`fresh`), since it reads
        on in the log anyway.

        Raises ProblemError `forbidden` for a board that is not the caller's, `board_not_found`, `invalid_parameter`
        for a root that cannot be one, `too_many_workers` for a worker that the board does not know and has no room for.
        """
        self.access.check(who)
        check_board(who, board)
        if not _BOARD_NAME.fullmatch(board):
            raise ProblemError(problem("board_not_found", f"{board[:80]!r} is no board's name.", value=board[:80]))
        opened = await self._open(board)
        await opened.let_time_pass()
        is_new = who.worker not in opened.presence.names
        if is_new:
            await self._meet(opened, who.worker)
        now_us = self.clock.now_us()
        opened.presence.seen(who.worker, now_us)
        if opened.neighbours is not None and fresh:
            await opened.neighbours.freshen()
        if root is not None:
            self._register(opened, who, root)
        if is_new:
            with suppress(StoreUnavailable):  # it is written with the next ones; reads go on meanwhile
                await opened.flush()
        self._sign_of_life(opened, who, now_us)
        self.access.check(who)  # it may have ended while the board was opened
        return opened

    async def _meet(self, board: OpenBoard, worker: str) -> None:
        """Make room for a worker that this node never saw; another may know it, and the root that it registered."""
        if board.neighbours is not None:
            await board.neighbours.meet()
        limit = self.settings.board_workers
        if not board.presence.has_room(worker, limit):
            board.presence.refused += 1
            sentence = f"{board.name} remembers {limit} workers, and {worker} is none of them."
            facts = {"value": worker, "limit": limit, "setting": "board_workers"}
            raise ProblemError(problem("too_many_workers", sentence, **facts))

    async def _open(self, board: str) -> OpenBoard:
        try:
            return await self.boards.get(board)
        except StoreUnavailable as error:
            raise translate(error) from error

    def _sign_of_life(self, board: OpenBoard, who: Identity, now_us: int) -> None:
        if not claims.sign_of_life(board.state, who.worker, now_us, 0) and not board.state.waiting:
            return
        try:
            sign = board.writer.enqueue(SignOfLife(who.asker(None)))
        except ProblemError:
            return  # the writer is full or stops: the lazy renewal is made up for when the lease is due
        self._signs.add(sign)
        sign.add_done_callback(self._signs.discard)

    def _register(self, board: OpenBoard, who: Identity, root: str) -> None:
        try:
            spelt = spell_root(root)
        except BadTarget as error:
            sentence = f"The root {root[:80]!r} cannot be one: {error}"
            raise ProblemError(problem("bad_target", sentence, field="root", value=root[:80])) from error
        if board.presence.root_of(who.worker) != spelt:
            board.presence.register_root(who.worker, spelt, self.clock.now_us())

    @staticmethod
    async def _guarded(call: Any) -> Any:  # noqa: ANN401 -- whatever the store gives
        try:
            return await call
        except StoreUnavailable as error:
            raise translate(error) from error

    @needs("worker")
    async def register(self, who: Identity, board: str, body: questions.RegisterBody) -> Reply:
        """Keep the root of the calling worker's checkout, durable on return."""
        opened = await self.enter(who, board, body.root)
        await self._guarded(opened.flush())
        return Reply(200, {"worker": who.worker, "root": opened.presence.root_of(who.worker)})

    # --- writing -----------------------------------------------------------------------------------------------------

    @needs("worker")
    async def post(self, who: Identity, board: str, draft: Draft, root: str | None = None) -> Reply:
        """Store one note. 201 when it is new (202 for a claim that waits), 200 for one that was stored before."""
        opened = await self.enter(who, board, root, fresh=False)
        answer = await self._submit(opened, self._post(opened, who, draft))
        assert isinstance(answer, Stored)
        body = (await self._notes_written(opened, [answer]))[0]
        if isinstance(draft, Claim):
            body |= await self._around(opened, who, draft, answer.claim)
        waits = answer.claim is not None and answer.claim.state == "waiting"
        return Reply(200 if answer.duplicate else 202 if waits else 201, body)

    @needs("worker")
    async def post_batch(self, who: Identity, board: str, batch: Batch, root: str | None = None) -> Reply:
        """Store up to 1,000 notes, all or none."""
        opened = await self.enter(who, board, root, fresh=False)
        if not 0 < len(batch.notes) <= BATCH_LIMIT:
            sentence = f"The batch has {len(batch.notes)} notes; it must have from 1 to {BATCH_LIMIT}."
            facts = {"field": "notes", "value": len(batch.notes), "limit": BATCH_LIMIT, "unit": "notes"}
            raise ProblemError(problem("over_limit", sentence, **facts))
        asker = who.asker(opened.presence.root_of(who.worker))
        command = PostBatch(asker, tuple(Post(asker, draft, digest_of(draft)) for draft in batch.notes))
        answer = await self._submit(opened, command)
        assert isinstance(answer, StoredBatch)
        notes = await self._notes_written(opened, answer.notes)
        new = [stored.seq for stored in answer.notes if not stored.duplicate]
        return Reply(201, {"first": min(new, default=None), "last": max(new, default=None), "notes": notes})

    @staticmethod
    def _post(board: OpenBoard, who: Identity, draft: Draft) -> Post:
        return Post(who.asker(board.presence.root_of(who.worker)), draft, digest_of(draft))

    async def _submit(self, board: OpenBoard, command: Command) -> Stored | Done | StoredBatch:
        try:
            with self.quotas.writing(board, command):
                answer = await board.writer.submit(command)
                if isinstance(answer, Problem) and answer.code == "unknown_recipient" and await board.knows_more():
                    answer = await board.writer.submit(command)
        except Hasty as refusal:
            await asyncio.sleep(refusal.hold_s)
            raise
        if isinstance(answer, Problem):
            raise ProblemError(await self._completed(board, command, answer))
        return answer

    async def _completed(self, board: OpenBoard, command: Command, answer: Problem) -> Problem:
        """Add to a refusal what only the log and the settled state can tell."""
        match command:
            case Post(asker=asker, draft=draft) if answer.code in ("claim_conflict", "would_deadlock"):
                targets = self._spelt(board, draft.scope, asker.root)
                return _with(answer, related=await self._related(board, targets))
            case Renew() | Narrow() | Transfer() if answer.code == "claim_ended":
                return _with(answer, **await self._ended_facts(board, command.claim))
            case _:
                return answer

    async def _ended_facts(self, board: OpenBoard, claim: int) -> dict[str, Any]:
        rows = await self._note_rows(board, [claim])
        note = msgspec.json.decode(rows[claim].body, type=views.ClaimNote)
        targets = board.state.targets(note.scope)
        entries = claims.conflicts_with(board.state, "", targets, self.clock.now_us())
        history = await self._guarded(self._store.about(board.name, [claim]))
        return {"conflicts": entries, **views.ending_of(history)}

    async def _notes_written(self, board: OpenBoard, answers: Sequence[Stored]) -> list[dict[str, Any]]:
        recent = [board.channel.record(stored.seq) for stored in answers]
        older = [stored.seq for stored, record in zip(answers, recent, strict=True) if record is None]
        rows = await self._note_rows(board, older) if older else {}
        return [
            self._written(board, stored, record.event.at, record.body)
            if record is not None
            else self._written(board, stored, views.at_of(rows[stored.seq].body), rows[stored.seq].body)
            for stored, record in zip(answers, recent, strict=True)
        ]

    def _written(self, board: OpenBoard, stored: Stored, at: str, body: bytes) -> dict[str, Any]:
        reply: dict[str, Any] = {"seq": stored.seq, "at": at, "note": msgspec.Raw(body)}
        if not (stored.duplicate or stored.claim):
            return reply
        if stored.duplicate:
            reply["duplicate"] = True
        claim = stored.claim or self._claim_now(board, stored.seq)
        if claim is not None:
            reply["claim"] = claim
        return reply

    def _claim_now(self, board: OpenBoard, seq: int) -> ClaimReply | None:
        lease = board.state.leases.get(seq)
        if lease is None:
            return None
        targets = board.state.targets(lease.scope)
        entries = claims.conflicts_with(board.state, lease.holder, targets, self.clock.now_us())
        return ClaimReply(claims.claim_state(board.state, lease), views.text_of_us(lease.expires_us), tuple(entries))

    async def _around(self, board: OpenBoard, who: Identity, draft: Claim, claim: ClaimReply | None) -> dict[str, Any]:
        """What the team knows about the scope of a new claim, and who else set out to do the like."""
        targets = self._spelt(board, draft.scope, board.presence.root_of(who.worker))
        around: dict[str, Any] = {"related": await self._related(board, targets)}
        meeting = {entry.claim for entry in claim.conflicts} if claim else ()
        if similar := similar_claims(board.state, who.worker, draft.text, meeting):
            around["similar"] = similar
        return around

    async def _related(self, board: OpenBoard, targets: Sequence[Target]) -> list[msgspec.Raw]:
        rows = await self._guarded(self._store.overlapping(board.name, targets, _RELATED_TYPES, limit=RELATED_LIMIT))
        return [msgspec.Raw(row.body) for row in rows if row.seq >= board.oldest]

    @staticmethod
    def _spelt(board: OpenBoard, scope: Sequence[str], root: str | None) -> tuple[Target, ...]:
        settings = board.row.settings
        if len(scope) > settings.targets:
            sentence = f"`scope` has {len(scope)} targets; the limit is {settings.targets}."
            facts = {"field": "scope", "value": len(scope), "limit": settings.targets, "unit": "targets"}
            raise ProblemError(problem("over_limit", sentence, **facts))
        spelt = spell_scope(scope, settings, root)
        if isinstance(spelt, Problem):
            raise ProblemError(spelt)
        return spelt

    @needs("worker")
    async def retract(self, who: Identity, board: str, seq: int, body: questions.RetractBody) -> Reply:
        """Take a note back. Doing so twice is a no-op."""
        opened = await self.enter(who, board)
        await self._submit(opened, Retract(who.asker(None), seq, body.reason))
        return Reply(200, {"seq": seq, "retracted": True})

    # --- claims ------------------------------------------------------------------------------------------------------

    @needs("reader")
    async def check(self, who: Identity, board: str, body: questions.CheckBody, root: str | None = None) -> Reply:
        """Tell what stands in the way of a scope, and what the team knows about it. Writes nothing to the log."""
        opened = await self.enter(who, board, root)
        if not body.scope:
            raise ProblemError(problem("invalid_field", "`scope` needs one target or more.", field="scope", limit=1))
        targets = self._spelt(opened, body.scope, opened.presence.root_of(who.worker))
        entries = claims.conflicts_with(opened.state, who.worker, targets, self.clock.now_us())
        answer = {
            "scope": [target.text for target in targets],
            "conflicts": entries,
            "free": claims.free_targets(opened.state, who.worker, targets),
            "related": await self._related(opened, targets),
        }
        return Reply(200, answer)

    @needs("worker")
    async def renew(self, who: Identity, board: str, claim: int, body: questions.RenewBody) -> Reply:
        """Move the end of a lease; never to an earlier time."""
        return await self._move(who, board, Renew(who.asker(None), claim, body.ttl_s))

    @needs("worker")
    async def release(self, who: Identity, board: str, claim: int, body: questions.ReleaseBody) -> Reply:
        """End a claim. Releasing twice is a no-op."""
        to = (body.to,) if isinstance(body.to, str) else body.to
        to = tuple(name for name in to if name)
        command = Release(who.asker(None), claim, body.outcome, to, body.text, body.reason)
        return await self._move(who, board, command)

    @needs("worker")
    async def narrow(
        self, who: Identity, board: str, claim: int, body: questions.NarrowBody, root: str | None = None
    ) -> Reply:
        """Hold less than before."""
        opened = await self.enter(who, board, root)
        asker = who.asker(opened.presence.root_of(who.worker))
        return await self._move(who, board, Narrow(asker, claim, body.scope))

    @needs("worker")
    async def transfer(self, who: Identity, board: str, claim: int, body: questions.TransferBody) -> Reply:
        """Give a claim to another worker."""
        return await self._move(who, board, Transfer(who.asker(None), claim, body.to, body.reason))

    async def _move(self, who: Identity, board: str, command: Renew | Release | Narrow | Transfer) -> Reply:
        opened = await self.enter(who, board)
        await self._submit(opened, command)
        lease = opened.state.leases.get(command.claim)
        if lease is not None:
            return Reply(200, claims.claim_entry(opened.state, lease, self.clock.now_us()))
        history = await self._guarded(self._store.about(opened.name, [command.claim]))
        return Reply(200, {"claim": command.claim, **views.ending_of(history)})

    @needs("reader")
    async def list_claims(self, who: Identity, board: str, query: questions.ClaimsQuery) -> Reply:
        """List claims: live and waiting ones from the state, ended ones from the log."""
        opened = await self.enter(who, board)
        targets = self._spelt(opened, query.scope, opened.presence.root_of(who.worker))
        view = views.ClaimsView(opened, self._store, self.clock.now_us())
        return Reply(200, await self._guarded(view.page(query, targets)))

    @needs("reader")
    async def list_conflicts(self, who: Identity, board: str, query: questions.ConflictsQuery) -> Reply:
        """List conflicts, open or closed."""
        opened = await self.enter(who, board)
        return Reply(200, await self._guarded(views.conflicts(opened, self._store, query)))

    # --- reading -----------------------------------------------------------------------------------------------------

    def filter_of(
        self,
        board: OpenBoard,
        who: Identity,
        *,
        types: tuple[str, ...] = (),
        scope: tuple[str, ...] = (),
        author: str = "",
        task: str = "",
        to: str = "",
        notes_only: bool = False,
    ) -> Filter:
        """Make the filter of a read; `to` may be `me`. Raises ProblemError `bad_target`."""
        targets = self._spelt(board, scope, board.presence.root_of(who.worker))
        addressed = who.worker if to == "me" else to
        return Filter(types, author, task, addressed, targets, notes_only=notes_only, live_only=notes_only)

    @needs("reader")
    async def notes(self, who: Identity, board: str, query: questions.NotesQuery) -> Reply:
        """A page of notes that are not retracted, each with what became of it."""
        opened = await self.enter(who, board)
        where = self.filter_of(
            opened,
            who,
            types=query.type,
            scope=query.scope,
            author=query.author,
            task=query.task,
            to=query.to,
            notes_only=True,
        )
        rows, more = await self._page(opened, query, where)
        marked = await self._guarded(views.with_marks(self._store, opened.name, rows))
        return Reply(200, self._page_body("notes", opened, marked, rows, more=more))

    @needs("reader")
    async def events(self, who: Identity, board: str, query: questions.EventsQuery) -> Reply:
        """A page of events of every kind, as they stand in the log."""
        opened = await self.enter(who, board)
        rows, more = await self._page(opened, query, Filter())
        return Reply(200, self._page_body("events", opened, [row.body for row in rows], rows, more=more))

    async def _page(
        self, board: OpenBoard, query: questions.NotesQuery | questions.EventsQuery, where: Filter
    ) -> tuple[list[Row], bool]:
        while True:  # again where the log was trimmed while the page was read
            oldest = board.oldest
            page = self._store.page(
                board.name,
                after=kept_after(oldest, query.after, query.before),
                before=query.before,
                limit=query.limit,
                descending=query.order == "desc",
                where=where,
                max_bytes=_PAGE_BYTES,
            )
            found = await self._guarded(page)
            if await self._guarded(board.oldest_now()) == oldest:
                return found

    @staticmethod
    def _page_body(
        member: str, board: OpenBoard, bodies: Sequence[bytes], rows: Sequence[Row], *, more: bool
    ) -> dict[str, Any]:
        return {
            member: [msgspec.Raw(body) for body in bodies],
            "next": rows[-1].seq if more else None,
            "head": board.state.seq,
            "oldest": board.oldest,
            "epoch": board.row.epoch,
        }

    @needs("reader")
    async def note(self, who: Identity, board: str, seq: int) -> Reply:
        """One note, retracted or not, with what became of it."""
        opened = await self.enter(who, board)
        row = await self._note_row(opened, seq)
        marked = await self._guarded(views.with_marks(self._store, opened.name, [row]))
        return Reply(200, msgspec.Raw(marked[0]))

    async def _note_row(self, board: OpenBoard, seq: int) -> Row:
        return (await self._note_rows(board, [seq]))[seq]

    async def _note_rows(self, board: OpenBoard, seqs: Sequence[int]) -> dict[int, Row]:
        rows = await self._guarded(self._store.rows(board.name, seqs))
        for seq in seqs:
            if seq < board.oldest or seq not in rows or rows[seq].kind != "note":
                raise ProblemError(await self._no_note(board, seq))
        return rows

    async def _no_note(self, board: OpenBoard, seq: int) -> Problem:
        oldest = await self._guarded(board.oldest_now())
        if not 0 < seq < oldest:
            return problem("note_not_found", f"There is no note {seq} on {board.name}.", value=seq)
        sentence = f"Event {seq} is no longer kept; the oldest that is kept is {oldest}."
        return problem("note_gone", sentence, value=seq, oldest=oldest)

    @needs("reader")
    async def detail(self, who: Identity, board: str, seq: int) -> Reply:
        """The long text of a note."""
        opened = await self.enter(who, board)
        await self._note_row(opened, seq)
        text = await self._guarded(self._store.detail(opened.name, seq))
        if text is None:
            raise ProblemError(problem("detail_not_found", f"Note {seq} has no detail.", value=seq))
        return Reply(200, {"seq": seq, "detail": text, "detail_bytes": len(text.encode())})

    @needs("reader")
    async def search(self, who: Identity, board: str, query: questions.SearchQuery) -> Reply:
        """Live notes that match, newest first, over the whole history."""
        opened = await self.enter(who, board)
        kept_after(opened.oldest, None, query.before)
        call = self._store.search(opened.name, parse(query.q), before=query.before, limit=query.limit)
        found, more = await self._guarded(call)
        rows = [row for row in found if row.seq >= opened.oldest]
        more = more and len(rows) == len(found)
        marked = await self._guarded(views.with_marks(self._store, opened.name, rows))
        return Reply(200, self._page_body("notes", opened, marked, rows, more=more))

    @needs("reader")
    async def export(self, who: Identity, board: str, query: questions.ExportQuery) -> AsyncIterator[bytes]:
        """The log as NDJSON: a header line, then an event a line with its detail and key, as of now.

        Raises ProblemError `position_gone`, also in the middle where the log is trimmed beyond what was read.
        """
        opened = await self.enter(who, board)
        begin, base = await self._guarded(self._store.base(opened.name)) or (0, None)
        after = kept_after(begin + 1, query.after, query.before)
        head = opened.state.seq if query.before is None else max(0, min(opened.state.seq, query.before - 1))
        base = base if after == begin else None
        header = header_of(opened.name, opened.row.epoch, opened.state, after=after, head=head, base=base)
        return self._export_lines(who, opened, header, after, head)

    async def _export_lines(
        self, who: Identity, board: OpenBoard, header: dict[str, Any], after: int, head: int
    ) -> AsyncIterator[bytes]:
        yield encode(header) + b"\n"
        while after < head:
            self.access.check(who)
            rows = await self._guarded(self._store.records(board.name, after=after, limit=_EXPORT_ROWS))
            await self._guarded(board.check_kept(after))
            lines = [views.export_line(row) for row in rows if row.seq <= head]
            if not lines:
                return
            yield b"".join(lines)
            after = rows[-1].seq

    @needs("admin")
    async def import_log(self, who: Identity, board: str, chunks: AsyncIterator[bytes]) -> Reply:
        """Take a whole exported log into an empty board, with its seqs and times. Admins only; durable on return."""
        opened = await self.enter(who, board)
        importing.refuse_unless_empty(opened.name, opened.state.seq)
        with await importing.spool(chunks) as file:
            importing.check(file, opened.row)
            base = importing.base_of(file, opened.row)
            with opened.writer.taking_over():
                if base is not None:
                    await self._guarded(opened.begin_at(base))
                await importing.store_all(file, opened.row, lambda records: self._append(opened, who, records))
        return Reply(201, {"head": opened.state.seq, "state_hash": opened.state.state_hash()})

    async def _append(self, board: OpenBoard, who: Identity, records: list[Record]) -> None:
        await self._submit(board, Append(who.asker(None), tuple(records)))

    @needs("reader")
    async def workers(self, who: Identity, board: str) -> Reply:
        """Who is here, and how much each has not read."""
        opened = await self.enter(who, board)
        if opened.neighbours is not None:
            await opened.neighbours.meet()
        unread = await self._guarded(self._reading.unread_counts(opened))
        return Reply(200, views.workers(opened, unread))

    @needs("reader")
    async def snapshot(
        self, who: Identity, board: str, query: questions.SnapshotQuery, root: str | None = None
    ) -> Reply:
        """The prompt view of a board: Markdown as a str, or the same selection as structure.

        Never over `budget_tokens`, by the rule of `board.core.tokens`. Raises ProblemError `bad_target` or `over_limit`.
        """
        opened, view = await self._view(who, board, query, root)
        body = (
            view.text if query.format == "markdown" else views.snapshot(opened, view, who.worker, query.budget_tokens)
        )
        return Reply(200, body)

    @needs("reader")
    async def view(
        self, who: Identity, board: str, query: questions.SnapshotQuery, root: str | None = None
    ) -> tuple[Snapshot, str]:
        """The prompt view as a value, for a surface that shows it with something else; and the epoch of its board."""
        opened, view = await self._view(who, board, query, root)
        return view, opened.row.epoch

    async def _view(
        self, who: Identity, board: str, query: questions.SnapshotQuery, root: str | None
    ) -> tuple[OpenBoard, Snapshot]:
        opened = await self.enter(who, board, root)
        scope = self._spelt(opened, query.scope, opened.presence.root_of(who.worker))
        return opened, await self._guarded(self._reading.snapshot(opened, who.worker, scope, query.budget_tokens))

    @needs("reader")
    async def unread(self, who: Identity, board: str, query: questions.UnreadQuery) -> Reply:
        """What the caller has not acknowledged, the most relevant first. Reading moves nothing."""
        opened = await self.enter(who, board)
        return Reply(200, await self._guarded(self._reading.unread(opened, who.worker, query)))

    @needs("reader")
    async def urgent_block(self, who: Identity, board: str) -> Block | None:
        """The caller's urgent unread notes as a framed text to go with another answer; None where there is none.

        Each note is given three times at most, as far as this process remembers.
        """
        opened = await self.enter(who, board)
        return await self._guarded(self._reading.urgent_block(opened, who.worker))

    @needs("reader")
    async def wait(self, who: Identity, board: str, query: questions.WaitQuery, root: str | None = None) -> Reply:
        """The first events after a position that match, as soon as there are any; none after `timeout_s` seconds.

        Answers at once, with none, when the server stops. Cancelling frees everything.
        Raises ProblemError `position_from_future`, `position_gone` or `bad_target`.
        """
        opened = await self.enter(who, board, root)
        where = self.filter_of(opened, who, types=query.type, scope=query.scope, to=query.to)
        with self.quotas.waiting(opened, who.worker):
            body = await self._guarded(self._waiting.wait(opened, where, query))
        self.access.check(who)  # it may have ended while it waited
        return Reply(200, body)

    # --- acknowledging ------------------------------------------------------------------------------------------------

    @needs("reader")
    async def ack(self, who: Identity, board: str, body: questions.AckBody) -> Reply:
        """Acknowledge notes, durable on return. Doing so twice changes nothing."""
        opened = await self.enter(who, board)
        head = opened.state.seq
        beyond = [seq for seq in (*body.seqs, body.through or 0) if seq > head]
        if beyond:
            sentence = f"{beyond[0]} is past the head of the log, {head}."
            raise ProblemError(problem("position_from_future", sentence, value=beyond[0], head=head))
        acks = await self._guarded(
            self._reading.ack(opened, who.worker, through=body.through, seqs=[seq for seq in body.seqs if seq])
        )
        return Reply(200, {"through": acks.through, "seqs": sorted(acks.seqs), "head": head})

    # --- boards ------------------------------------------------------------------------------------------------------

    @needs("reader")
    async def list_boards(self, who: Identity) -> Reply:
        """The boards that the caller may see."""
        rows = [row for row in await self._guarded(self._store.boards()) if who.board in ("", row.name)]
        return Reply(200, {"boards": [await self._board_body(row) for row in rows]})

    async def _board_body(self, row: BoardRow) -> dict[str, Any]:
        opened = await self._open(row.name)
        return views.board_body(opened)

    @needs("reader")
    async def board(self, who: Identity, board: str) -> Reply:
        """Settings, head, epoch, counts by type, and the hash of the folded state."""
        return Reply(200, views.board_body(await self.enter(who, board)))

    @needs("admin")
    async def create_board(self, who: Identity, body: questions.BoardBody) -> Reply:  # noqa: ARG002 -- `needs` looks at it
        """Make a board. Admins only."""
        if not _BOARD_NAME.fullmatch(body.board):
            sentence = f"{body.board[:80]!r} is no board's name: {BOARD_NAME_PATTERN}"
            facts = {"field": "board", "value": body.board[:80], "pattern": BOARD_NAME_PATTERN}
            raise ProblemError(problem("invalid_field", sentence, **facts))
        for name, ceiling in CEILINGS.items():
            value = getattr(body.settings, name)
            if value is not None and not 1 <= value <= ceiling:
                sentence = f"The setting `{name}` is {value}; it must be from 1 to {ceiling}."
                raise ProblemError(problem("over_limit", sentence, field=name, value=value, limit=ceiling))
        try:
            row = await self._guarded(self._store.create_board(body.board, body.settings.resolve()))
        except BoardExists as error:
            sentence = f"There is a board {body.board!r} already."
            raise ProblemError(problem("board_exists", sentence, value=body.board)) from error
        return Reply(201, await self._board_body(row))

    # --- tokens ------------------------------------------------------------------------------------------------------

    @needs("admin")
    async def create_token(self, who: Identity, body: questions.TokenBody) -> Reply:  # noqa: ARG002 -- `needs` looks at it
        """Make a token; it is shown this once. Admins only. The first one ends open mode."""
        token, row = await self._guarded(
            self.access.create(role=body.role, worker=body.worker, board=body.board, expires_s=body.expires_s)
        )
        return Reply(201, {"token": token, **views.token_body(row)})

    @needs("admin")
    async def list_tokens(self, who: Identity) -> Reply:  # noqa: ARG002 -- `needs` looks at it
        """All tokens ever made, without what is secret of them. Admins only."""
        return Reply(200, {"tokens": [views.token_body(row) for row in await self._guarded(self.access.list())]})

    @needs("admin")
    async def revoke_tokens(self, who: Identity, *, id: str = "", worker: str = "") -> Reply:  # noqa: ARG002 -- `needs` looks at it
        """Revoke tokens at once: their open streams close with 4401. Admins only."""
        rows = await self._guarded(self.access.revoke(id=id, worker=worker))
        return Reply(200, {"revoked": [row.id for row in rows]})

    @needs("reader")
    async def make_ticket(self, who: Identity) -> Reply:
        """A ticket for one stream, for a browser. It is over after a minute."""
        self.quotas.check_ticket(who)
        ticket, end_us = await self._guarded(self.access.make_ticket(who))
        return Reply(201, {"ticket": ticket, "expires_at": views.text_of_us(end_us)})

    async def use_ticket(self, ticket: str) -> Identity:
        """Tell who a ticket was made for; once. Raises ProblemError."""
        return await self._guarded(self.access.use_ticket(ticket))

    async def ready(self) -> None:
        """Return when a note could be stored now. Raises ProblemError."""
        if self._stopping.is_set():
            raise ProblemError(problem("going_away", "The server is stopping."))
        await self._guarded(self._store.ping())


def digest_of(draft: Draft) -> bytes:
    """The hash that tells bodies under one idempotency key apart; empty without a key."""
    return blake2b(encode(draft), digest_size=16).digest() if draft.key else b""


def _with(answer: Problem, **facts: Any) -> Problem:  # noqa: ANN401
    return Problem(code=answer.code, detail=answer.detail, facts={**answer.facts, **facts})
