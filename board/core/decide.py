"""The one place where the board makes up its mind: command, state, time in; events, or a refusal, out.

Pure: nothing here changes the state, reads a clock or the log. What a decision needs of the past comes as `Found`
(`wanted` names it beforehand); what it needs of the present as `Present`. A refusal may carry an event as well: an
averted collision is logged.
"""

from __future__ import annotations

from difflib import get_close_matches
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

import msgspec

from board.core import claims, waits
from board.core.admission import Admitted, admit, check_text, check_ttl, check_worker_name, spell_scope
from board.core.commands import (
    Append,
    Asker,
    Command,
    Narrow,
    PassTime,
    Post,
    PostBatch,
    Release,
    Renew,
    Retract,
    SignOfLife,
    Transfer,
)
from board.core.fold import SAME_TEXT_TYPES, same_text_digest
from board.core.history import Found, Record, Wanted
from board.core.scope import overlap
from board.core.state import US, Lease, State
from schema.codec import encode, text_of_us
from schema.codes import Problem, problem
from schema.events import (
    BOARD_AUTHOR,
    AnyEvent,
    ClaimNarrowed,
    ClaimQueued,
    ClaimRefused,
    ClaimReleased,
    ClaimRenewed,
    ClaimTransferred,
    ConflictOpened,
    Note,
    NoteRetracted,
    PatchInvalidated,
    PatchSuperseded,
)
from schema.notes import NOTE_TYPES, Claim, Draft, NoteType, PatchSummary

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from board.core.scope import Target

_LARGEST_SEQ: Final = 2**53


class Present(msgspec.Struct, frozen=True):
    """What a decision needs to know of now: the time, who is known, and whose connections are gone."""

    now_us: int
    known: Collection[str] = ()
    gone: Collection[str] = ()


class ClaimReply(msgspec.Struct, frozen=True, gc=False):
    """What the asker is told of its new claim."""

    state: str
    expires_at: str
    conflicts: tuple[claims.ConflictEntry, ...] = ()


class Stored(msgspec.Struct, frozen=True, gc=False):
    """The note `seq` stands in the log: new, or (`duplicate`) since an earlier call with the same content."""

    seq: int
    duplicate: bool = False
    claim: ClaimReply | None = None


class Done(msgspec.Struct, frozen=True, gc=False):
    """The command about this claim or note is carried out (or was before: nothing is left to do)."""

    about: int


Answer = Stored | Done | Problem


class Decision(msgspec.Struct, frozen=True, gc=False):
    """What is to be logged, in order, and what the asker is told once it is."""

    answer: Answer
    records: Sequence[Record] = ()


def records_of(events: Sequence[AnyEvent], at_us: int) -> list[Record]:
    """Encode events that nothing is kept beside."""
    return [Record(event, at_us, encode(event)) for event in events]


class Seqs:
    """Numbers for events, counted on from the head.

    The notes of a batch (`notes` of them) follow each other, and what follows from them comes after all of them.
    """

    def __init__(self, head: int, notes: int | None = None) -> None:
        self._note = head
        self._other = None if notes is None else head + notes

    @property
    def next_note(self) -> int:
        """What `note` will give."""
        return self._note + 1

    def note(self) -> int:
        """The seq of the next note."""
        self._note += 1
        return self._note

    def other(self) -> int:
        """The seq of the next event that is no note."""
        if self._other is None:
            return self.note()
        self._other += 1
        return self._other


def wanted(command: Command) -> Wanted:
    """Name what the decision on this command will ask of the log."""
    match command:
        case Post():
            return _wanted_by_draft(command.asker, command.draft)
        case PostBatch():
            return union_of([_wanted_by_draft(post.asker, post.draft) for post in command.posts])
        case Retract():
            return Wanted(_storable({command.note}))
        case Renew() | Release() | Narrow() | Transfer():
            return Wanted(_storable({command.claim}))
        case _:
            return _NOTHING


_NOTHING: Final = Wanted()


def union_of(parts: Sequence[Wanted]) -> Wanted:
    """Ask for all of it at once."""
    parts = [part for part in parts if part is not _NOTHING]
    if not parts:
        return _NOTHING
    return Wanted(
        frozenset().union(*(part.seqs for part in parts)),
        frozenset().union(*(part.keys for part in parts)),
        frozenset().union(*(part.works for part in parts)),
    )


def _storable(seqs: set[int]) -> frozenset[int]:
    return frozenset(seq for seq in seqs if 0 < seq < _LARGEST_SEQ)


def _wanted_by_draft(asker: Asker, draft: Draft) -> Wanted:
    patch = isinstance(draft, PatchSummary)
    if not (draft.refs or draft.key or patch):
        return _NOTHING
    seqs = {ref.seq for ref in draft.refs}
    works: set[tuple[str, str]] = set()
    if isinstance(draft, PatchSummary):
        seqs |= {draft.claim} if draft.claim is not None else set()
        works = {(asker.worker, draft.work)} if draft.work else works
    keys = {(asker.worker, draft.key)} if draft.key else set()
    return Wanted(_storable(seqs), frozenset(keys), frozenset(works))


def decide(state: State, command: Command, present: Present, found: Found) -> Decision:
    """Decide one command. A batch is decided note by note: see `board.core.step`."""
    match command:
        case Post():
            return decide_post(state, command, present, found, Seqs(state.seq))
        case Retract():
            return _retract(state, command, present, found)
        case Renew() | Release() | Narrow() | Transfer():
            return _move_claim(state, command, present, found)
        case SignOfLife() | PassTime():
            return Decision(Done(0))
        case PostBatch() | Append():
            msg = "the events of a batch, or of another log, are no single decision"
            raise TypeError(msg)


# --- posting ---------------------------------------------------------------------------------------------------------


def repeated(post: Post, found: Found) -> Stored | Problem | None:
    """Tell whether the draft's idempotency key was used before: with the same body, with another, or not at all."""
    use = found.key(post.asker.worker, post.draft.key)
    if use is None:
        return None
    if use.digest == post.digest:
        return Stored(use.seq, duplicate=True)
    sentence = f"The key {post.draft.key!r} was used for note {use.seq}, with another body."
    return problem("key_reused", sentence, key=post.draft.key, seq=use.seq)


def decide_post(state: State, post: Post, present: Present, found: Found, seqs: Seqs) -> Decision:
    """Decide one note: refuse it, answer it with an earlier one, or store it with all that follows from it."""
    draft = post.draft
    if draft.key and (before := repeated(post, found)) is not None:
        return Decision(before)
    admitted = admit(draft, state.settings, post.asker.root)
    if isinstance(admitted, Problem):
        return Decision(admitted)
    if not admitted.bare:
        wrong = _check_refs(draft, found) or _check_recipients(draft, present)
        if wrong is not None:
            return Decision(wrong)
        if type(draft) is Claim:
            return _post_claim(state, post, draft, admitted, present, seqs)
    return _post_note(state, post, admitted, present, found, seqs)


def _check_refs(draft: Draft, found: Found) -> Problem | None:
    for ref in draft.refs:
        if found.head(ref.seq) is None:
            return _missing("unknown_ref", "note", ref.seq, found, field="refs")
    if isinstance(draft, PatchSummary) and draft.claim is not None:
        head = found.head(draft.claim)
        if head is None or head.type != "CLAIM":
            return _missing("unknown_ref", "CLAIM", draft.claim, found, field="claim")
    return None


def _missing(code: str, what: str, seq: int, found: Found, **facts: Any) -> Problem:  # noqa: ANN401
    """Refuse what is about a note that is not in the log, and tell whether the log may have held it once."""
    if 0 < seq < found.oldest:
        sentence = f"Event {seq} is no longer kept; the oldest that is kept is {found.oldest}."
        return problem(code, sentence, value=seq, oldest=found.oldest, **facts)
    return problem(code, f"There is no {what} {seq}.", value=seq, **facts)


def _check_recipients(draft: Draft, present: Present) -> Problem | None:
    for name in draft.to:
        if name not in present.known:
            return unknown_worker("to", name, present.known)
    return None


def unknown_worker(field: str, name: str, known: Collection[str]) -> Problem:
    """Refuse a worker that the board does not know, and name those whose names are near."""
    near = get_close_matches(name, sorted(known), n=3)
    hint = f" Near matches: {', '.join(near)}." if near else ""
    sentence = f"No worker {name[:80]!r} was ever seen on this board.{hint}"
    return problem("unknown_recipient", sentence, field=field, value=name[:80], near=near)


_TYPES: Final[dict[type, NoteType]] = dict(zip(Draft.__args__, NOTE_TYPES, strict=True))


def _note(post: Post, admitted: Admitted, seq: int, now_us: int, **more: Any) -> Note:  # noqa: ANN401
    draft = post.draft
    if draft.detail:
        more["detail_bytes"] = len(draft.detail.encode())
        more["detail_hash"] = sha256(draft.detail.encode()).hexdigest()[:16]
    if isinstance(draft, PatchSummary):
        more |= {
            "files": admitted.files.texts,
            "idea": draft.idea,
            "risk": draft.risk,
            "claim": draft.claim,
            "work": draft.work,
        }
    else:
        more["text"] = draft.text
    return Note(
        seq=seq,
        at=text_of_us(now_us),
        type=_TYPES[type(draft)],
        author=post.asker.worker,
        scope=admitted.scope.texts,
        task=draft.task,
        refs=draft.refs,
        evidence=draft.evidence,
        run=draft.run,
        commit=draft.commit,
        pr=draft.pr,
        tags=draft.tags,
        to=draft.to,
        **more,
    )


def _bare_note(post: Post, admitted: Admitted, seq: int, now_us: int) -> Note:
    """Make a note of the fields that a bare draft has: in a tenth of the time that the others would take as well."""
    draft = post.draft
    return Note(
        seq=seq,
        at=text_of_us(now_us),
        type=_TYPES[type(draft)],
        author=post.asker.worker,
        text=draft.text,  # type: ignore[union-attr] -- no patch is bare
        scope=admitted.scope.texts,
        task=draft.task,
    )


def _post_note(state: State, post: Post, admitted: Admitted, present: Present, found: Found, seqs: Seqs) -> Decision:
    draft, now_us = post.draft, present.now_us
    if admitted.bare:
        note = _bare_note(post, admitted, seqs.next_note, now_us)
    else:
        stale = {"stale": True} if isinstance(draft, PatchSummary) and _is_stale(state, draft, post.asker) else {}
        note = _note(post, admitted, seqs.next_note, now_us, **stale)
    body = encode(note)
    same_text = same_text_digest(body) if note.type in SAME_TEXT_TYPES else b""
    if same_text and (first := state.texts.first(same_text, now_us)) is not None:
        return Decision(Stored(first, duplicate=True))
    record = Record(note, now_us, body, draft.detail, draft.key, post.digest, same_text)
    stored = Stored(seqs.note())
    if note.type not in _FOLLOWED:
        return Decision(stored, (record,))
    return Decision(stored, (record, *records_of(_consequences(note, found, seqs), now_us)))


_FOLLOWED: Final = frozenset(("PATCH_SUMMARY", "FAIL"))


def _is_stale(state: State, draft: PatchSummary, asker: Asker) -> bool:
    if draft.claim is None:
        return False
    lease = state.leases.get(draft.claim)
    return lease is None or lease.state != "held" or lease.holder != asker.worker


def _consequences(note: Note, found: Found, seqs: Seqs) -> list[AnyEvent]:
    if note.type == "PATCH_SUMMARY" and note.work:
        older = found.newest(note.author, note.work)
        if older is not None:
            old = PatchSuperseded(seq=seqs.other(), at=note.at, author=BOARD_AUTHOR, note=older, by=note.seq)
            return [old]
    if note.type != "FAIL":
        return []
    refuted = dict.fromkeys(ref.seq for ref in note.refs if ref.rel == "refutes")
    patches = [seq for seq in refuted if (head := found.head(seq)) and head.type == "PATCH_SUMMARY"]
    return [
        PatchInvalidated(seq=seqs.other(), at=note.at, author=BOARD_AUTHOR, note=seq, by=note.seq) for seq in patches
    ]


# --- claiming --------------------------------------------------------------------------------------------------------


def _post_claim(state: State, post: Post, draft: Claim, admitted: Admitted, present: Present, seqs: Seqs) -> Decision:
    worker, targets = post.asker.worker, admitted.scope.targets
    entries = claims.conflicts_with(state, worker, targets, present.now_us)
    if draft.on_conflict == "wait" and (entries or waits.waiting_before(state, worker, targets, None, present.gone)):
        return _wait(state, post, admitted, present, seqs, entries)
    if entries and draft.on_conflict == "refuse":
        return _refuse(state, post, admitted, present, seqs, entries)
    closed = waits.ring_with(state, waits.Prospect(state.seq + 1, worker, targets))
    if closed:
        return _refuse(state, post, admitted, present, seqs, entries, closed)
    return _hold(state, post, admitted, present, seqs, entries)


def _refuse(
    state: State,
    post: Post,
    admitted: Admitted,
    present: Present,
    seqs: Seqs,
    entries: Sequence[claims.ConflictEntry],
    closed: tuple[str, ...] = (),
) -> Decision:
    code = "would_deadlock" if closed else "claim_conflict"
    blocked_by = entries[0] if entries else None
    free = claims.free_targets(state, post.asker.worker, admitted.scope.targets)
    refused = ClaimRefused(
        seq=seqs.other(),
        at=text_of_us(present.now_us),
        author=post.asker.worker,
        claim=blocked_by.claim if blocked_by else 0,
        holder=blocked_by.holder if blocked_by else closed[1],
        text=post.draft.text if isinstance(post.draft, Claim) else "",
        scope=admitted.scope.texts,
        blockers=tuple(entry.blocker() for entry in entries),
        task=post.draft.task,
        reason=code,
    )
    facts: dict[str, Any] = {"conflicts": entries, "free": free, "refused": refused.seq}
    if closed:
        sentence = f"The claim would close a ring: {' waits for '.join(closed)}."
        answer = problem(code, sentence, ring=closed, **facts)
    else:
        answer = problem(code, _who_holds(entries), **facts)
    return Decision(answer, records_of((refused,), present.now_us))


def _who_holds(entries: Sequence[claims.ConflictEntry]) -> str:
    parts = [
        f"{entry.holder} holds {', '.join(entry.overlap)} (claim {entry.claim}, {entry.expires_in_s:.0f} s left)"
        for entry in entries[:3]
    ]
    more = f" and {len(entries) - 3} more" if len(entries) > 3 else ""
    return f"{'; '.join(parts)}{more}."


def _wait(
    state: State,
    post: Post,
    admitted: Admitted,
    present: Present,
    seqs: Seqs,
    entries: Sequence[claims.ConflictEntry],
) -> Decision:
    worker = post.asker.worker
    closed = waits.ring_with(state, waits.Prospect(state.seq + 1, worker, admitted.scope.targets, waits=True))
    if closed:
        return _refuse(state, post, admitted, present, seqs, entries, closed)
    note, end = _claim_note(post, admitted, present, seqs, "waiting", state.settings.ttl_s_default)
    queued = ClaimQueued(
        seq=seqs.other(),
        at=note.at,
        author=worker,
        claim=note.seq,
        holder=worker,
        blockers=tuple(entry.blocker() for entry in entries),
    )
    reply = ClaimReply("waiting", end, tuple(entries))
    return _claimed(post, note, (queued,), reply, present)


def _hold(
    state: State,
    post: Post,
    admitted: Admitted,
    present: Present,
    seqs: Seqs,
    entries: Sequence[claims.ConflictEntry],
) -> Decision:
    kind = "contested" if entries else "held"
    note, end = _claim_note(post, admitted, present, seqs, kind, state.settings.ttl_s_default)
    events: list[AnyEvent] = []
    for lease in state.leases_of(post.asker.worker):
        if lease.state == "held" and set(lease.scope) == set(note.scope):
            events.extend(_release_events(state, lease, "superseded", present.now_us, seqs, author=post.asker.worker))
    events.extend(_conflict(note, entry, seqs) for entry in entries)
    return _claimed(post, note, events, ClaimReply(kind, end, tuple(entries)), present)


def _claimed(post: Post, note: Note, events: Sequence[AnyEvent], reply: ClaimReply, present: Present) -> Decision:
    record = Record(note, present.now_us, encode(note), post.draft.detail, post.draft.key, post.digest)
    return Decision(Stored(note.seq, claim=reply), (record, *records_of(events, present.now_us)))


def _claim_note(
    post: Post, admitted: Admitted, present: Present, seqs: Seqs, kind: str, default_ttl_s: int
) -> tuple[Note, str]:
    assert isinstance(post.draft, Claim)
    ttl_s = default_ttl_s if post.draft.ttl_s is None else post.draft.ttl_s
    end = text_of_us(present.now_us + ttl_s * US)
    mode = None if post.draft.on_conflict == "refuse" else post.draft.on_conflict
    note = _note(post, admitted, seqs.note(), present.now_us, ttl_s=ttl_s, on_conflict=mode, state=kind, expires_at=end)
    return note, end


def _conflict(note: Note, entry: claims.ConflictEntry, seqs: Seqs) -> ConflictOpened:
    return ConflictOpened(
        seq=seqs.other(),
        at=note.at,
        author=BOARD_AUTHOR,
        claims=(entry.claim, note.seq),
        holders=(entry.holder, note.author),
        overlap=entry.overlap,
    )


# --- moving a claim --------------------------------------------------------------------------------------------------


def _move_claim(state: State, command: Renew | Release | Narrow | Transfer, present: Present, found: Found) -> Decision:
    head = found.head(command.claim)
    if head is None or head.type != "CLAIM":
        return Decision(_missing("claim_not_found", "claim", command.claim, found))
    lease = state.leases.get(command.claim)
    refused = _check_right(command, lease.holder if lease else head.claim_holder)
    if refused is not None:
        return Decision(refused)
    if lease is None:
        return Decision(Done(command.claim) if isinstance(command, Release) else ended_claim(command.claim))
    return _move_lease(state, lease, command, present)


def _move_lease(state: State, lease: Lease, command: Renew | Release | Narrow | Transfer, present: Present) -> Decision:
    match command:
        case Renew():
            return _renew(state, lease, command, present)
        case Release():
            return _release(state, lease, command, present)
        case Narrow():
            return _narrow(state, lease, command, present)
        case Transfer():
            return _transfer(state, lease, command, present)


def ended_claim(claim: int) -> Problem:
    """Refuse to move a claim that is no longer live; the service adds who holds the scope now."""
    return problem("claim_ended", f"Claim {claim} is no longer live.", value=claim)


def _check_right(command: Renew | Release | Narrow | Transfer, holder: str) -> Problem | None:
    asker = command.asker
    if asker.worker == holder:
        return None
    reason = "" if isinstance(command, (Renew, Narrow)) else command.reason
    if asker.admin and reason.strip():
        return None
    way = " An admin may, with a `reason`." if isinstance(command, (Release, Transfer)) else ""
    sentence = f"Claim {command.claim} is held by {holder}; {asker.worker} may not move it.{way}"
    return problem("forbidden", sentence, claim=command.claim, holder=holder)


def _renew(state: State, lease: Lease, command: Renew, present: Present) -> Decision:
    ttl_s = lease.ttl_s if command.ttl_s is None else command.ttl_s
    wrong = check_ttl(ttl_s, state.settings)
    if wrong is not None:
        return Decision(wrong)
    end_us = claims.lease_end_us(lease, present.now_us, ttl_s)
    if end_us == lease.expires_us:
        return Decision(Done(lease.claim))
    event = ClaimRenewed(**_about(state, lease, command, present), expires_at=text_of_us(end_us))
    return Decision(Done(lease.claim), records_of((event,), present.now_us))


def _about(state: State, lease: Lease, command: Renew | Narrow | Release, present: Present) -> dict[str, Any]:
    return {
        "seq": state.seq + 1,
        "at": text_of_us(present.now_us),
        "author": command.asker.worker,
        "claim": lease.claim,
        "holder": lease.holder,
    }


def _release(state: State, lease: Lease, command: Release, present: Present) -> Decision:
    limit = state.settings.text_chars
    wrong = check_text("text", command.text, limit) or check_text("reason", command.reason, limit)
    unknown = next((name for name in command.to if name not in present.known), None)
    if wrong is None and unknown is not None:
        wrong = unknown_worker("to", unknown, present.known)
    if wrong is not None:
        return Decision(wrong)
    seqs = Seqs(state.seq)
    said = {"to": command.to, "text": command.text, "reason": command.reason}
    events = _release_events(state, lease, command.outcome, present.now_us, seqs, author=command.asker.worker, **said)
    return Decision(Done(lease.claim), records_of(events, present.now_us))


def _release_events(
    state: State,
    lease: Lease,
    outcome: str,
    now_us: int,
    seqs: Seqs,
    *,
    author: str,
    **said: Any,  # noqa: ANN401
) -> list[AnyEvent]:
    seq, at = seqs.other(), text_of_us(now_us)
    released = ClaimReleased(
        seq=seq, at=at, author=author, claim=lease.claim, holder=lease.holder, outcome=outcome, **said
    )
    closed = claims.closings(state, lease.claim, "released", now_us, seq + 1, set())
    for _ in closed:
        seqs.other()
    return [released, *closed]


def _narrow(state: State, lease: Lease, command: Narrow, present: Present) -> Decision:
    spelt = _narrower(state, lease, command)
    if isinstance(spelt, Problem):
        return Decision(spelt)
    scope = tuple(target.text for target in spelt)
    event = ClaimNarrowed(**_about(state, lease, command, present), scope=scope)
    over = {
        conflict.seq
        for conflict in state.conflicts_about(lease.claim)
        if not _meet(state, spelt, _other(conflict.claims, lease.claim))
    }
    closed = claims.closings(state, lease.claim, "narrowed", present.now_us, event.seq + 1, set(), only=over)
    return Decision(Done(lease.claim), records_of((event, *closed), present.now_us))


def _narrower(state: State, lease: Lease, command: Narrow) -> tuple[Target, ...] | Problem:
    spelt = spell_scope(command.scope, state.settings, command.asker.root)
    if isinstance(spelt, Problem):
        return spelt
    limit = state.settings.targets
    if not 0 < len(command.scope) <= limit:
        sentence = f"`scope` has {len(command.scope)} targets; it must have from 1 to {limit}."
        return problem("over_limit", sentence, field="scope", value=len(command.scope), limit=limit, unit="targets")
    held = state.targets(lease.scope)
    for target in spelt:
        if not any((met := overlap(target, mine)) and met.text == target.text for mine in held):
            sentence = f"{target.text!r} does not lie within claim {lease.claim}; narrowing only gives up places."
            return problem("bad_target", sentence, field="scope", value=target.text, reason="not_narrower")
    return spelt


def _other(pair: tuple[int, int], one: int) -> int:
    return pair[1] if pair[0] == one else pair[0]


def _meet(state: State, targets: Sequence[Target], claim: int) -> bool:
    others = state.targets(state.leases[claim].scope)
    return any(overlap(mine, other) for mine in targets for other in others)


def _transfer(state: State, lease: Lease, command: Transfer, present: Present) -> Decision:
    wrong = check_worker_name(command.to) or check_text("reason", command.reason, state.settings.text_chars)
    if wrong is None and command.to not in present.known:
        wrong = unknown_worker("to", command.to, present.known)
    wrong = wrong or _check_taker(state, lease, command.to, present)
    if wrong is not None:
        return Decision(wrong)
    if command.to == lease.holder:
        return Decision(Done(lease.claim))
    event = ClaimTransferred(
        seq=state.seq + 1,
        at=text_of_us(present.now_us),
        author=command.asker.worker,
        claim=lease.claim,
        holder=command.to,
        giver=lease.holder,
        reason=command.reason,
    )
    own = {conflict.seq for conflict in state.conflicts_about(lease.claim) if command.to in conflict.holders}
    ended = claims.closings(state, lease.claim, "transferred", present.now_us, event.seq + 1, set(), only=own)
    return Decision(Done(lease.claim), records_of((event, *ended), present.now_us))


def _check_taker(state: State, lease: Lease, taker: str, present: Present) -> Problem | None:
    """Refuse a transfer that would leave two holders of one place, or a ring of waiters.

    The giver's own claims may overlap this one: they did not conflict while both were its own.
    """
    targets = state.targets(lease.scope)
    contested = {claim for conflict in state.conflicts_about(lease.claim) for claim in conflict.claims}
    entries = [
        entry
        for entry in claims.conflicts_with(state, taker, targets, present.now_us)
        if entry.claim not in contested and entry.claim != lease.claim
    ]
    if entries and lease.state == "held":
        return problem("claim_conflict", _who_holds(entries), conflicts=entries)
    closed = waits.ring_with(state, waits.Prospect(lease.claim, taker, targets, waits=lease.state == "waiting"))
    if closed:
        sentence = f"The transfer would close a ring: {' waits for '.join(closed)}."
        return problem("would_deadlock", sentence, ring=closed)
    return None


def _retract(state: State, command: Retract, present: Present, found: Found) -> Decision:
    head, asker = found.head(command.note), command.asker
    if head is None:
        code = "note_gone" if 0 < command.note < found.oldest else "note_not_found"
        return Decision(_missing(code, "note", command.note, found))
    if asker.worker != head.author and not (asker.admin and command.reason.strip()):
        sentence = f"Note {head.seq} is {head.author}'s; only its author, or an admin with a `reason`, may retract it."
        return Decision(problem("forbidden", sentence, note=head.seq, author=head.author))
    wrong = check_text("reason", command.reason, state.settings.text_chars)
    if wrong is not None:
        return Decision(wrong)
    if head.state == "retracted":
        return Decision(Done(head.seq))
    seqs, at = Seqs(state.seq), text_of_us(present.now_us)
    retracted = NoteRetracted(seq=seqs.other(), at=at, author=asker.worker, note=head.seq, reason=command.reason)
    lease = state.leases.get(head.seq)
    rest = _release_events(state, lease, "abandoned", present.now_us, seqs, author=asker.worker) if lease else []
    return Decision(Done(head.seq), records_of((retracted, *rest), present.now_us))
