"""Prompt views of a log that is a list in memory: what a view is made of, gathered by walking over all of it."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, Any

from board.core.fold import apply, record_of
from board.core.levels import TYPES, Bed, Fresh, Holding, Reader
from board.core.snapshot import Material, Stretch, snapshot
from board.core.state import State
from schema.codec import text_of_us
from schema.events import AnyEvent, ClaimExpired, ClaimReleased, ClaimRenewed, ConflictOpened, Note, NoteRetracted
from schema.limits import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from board.core.scope import Target
    from board.core.snapshot import Snapshot

START_US = 1_800_000_000_000_000


def at(seq: int) -> str:
    """The time of an event."""
    return text_of_us(START_US + seq * 1_000_000)


def note(seq: int, type: str = "FACT", **said: Any) -> Note:
    """Make a note; what is not said is plain."""
    fields: dict[str, Any] = {"author": "w2", "text": f"text of {seq}", **said}
    return Note(seq=seq, at=at(seq), type=type, **fields)  # pyright: ignore[reportArgumentType]


def claim(seq: int, holder: str, *scope: str, state: str = "held") -> Note:
    """Make the note of a claim."""
    said: dict[str, Any] = {"ttl_s": 600, "state": state, "expires_at": at(seq + 600)}
    return note(seq, "CLAIM", author=holder, scope=scope, **said)


def released(seq: int, of: Note) -> ClaimReleased:
    """Make the end of a claim."""
    return ClaimReleased(seq=seq, at=at(seq), author=of.author, claim=of.seq, holder=of.author, outcome="done")


def renewed(seq: int, of: Note) -> ClaimRenewed:
    """Make the renewal of a claim."""
    return ClaimRenewed(seq=seq, at=at(seq), author="board", claim=of.seq, holder=of.author, expires_at=at(seq + 600))


def conflict(seq: int, earlier: Note, later: Note) -> ConflictOpened:
    """Make the conflict of two claims."""
    holders = (earlier.author, later.author)
    return ConflictOpened(
        seq=seq, at=at(seq), author="board", claims=(earlier.seq, later.seq), holders=holders, overlap=earlier.scope
    )


def state_of(log: Sequence[AnyEvent]) -> State:
    """Fold a log."""
    state = State(Settings())
    for event in log:
        apply(state, record_of(event))
    return state


def view(
    log: Sequence[AnyEvent],
    worker: str = "w1",
    *,
    budget_tokens: int = 1500,
    bounds: tuple[int, int] = (64, 16),
    scope: tuple[Target, ...] = (),
) -> Snapshot:
    """Make the view of a log for a worker, with levels that end at multiples of `bounds`."""
    state = state_of(log)
    return snapshot(material_of(log, state, worker, bounds, scope), state, budget_tokens=budget_tokens)


def views(log: Sequence[AnyEvent], worker: str, *, budget_tokens: int, bounds: tuple[int, int]) -> Iterator[Snapshot]:
    """Make the view after each event of a log."""
    state = State(Settings())
    for length, event in enumerate(log, start=1):
        apply(state, record_of(event))
        yield snapshot(material_of(log[:length], state, worker, bounds), state, budget_tokens=budget_tokens)


def common_start(one: str, other: str) -> str:
    """Give what two texts begin with, both."""
    return "".join(mine for mine, _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def material_of(
    log: Sequence[AnyEvent], state: State, worker: str, bounds: tuple[int, int], scope: tuple[Target, ...] = ()
) -> Material:
    """Gather what a view is made of."""
    gone = {event.note for event in log if isinstance(event, NoteRetracted)}
    notes = [one for one in log if isinstance(one, Note) and one.type in TYPES and one.seq not in gone]
    older, newer = (len(log) - len(log) % size for size in bounds)
    return Material(
        board="main",
        reader=Reader(worker, tuple(_holdings(log, state, worker)), scope),
        head=len(log),
        stretches=(_stretch(notes, 0, older, state), _stretch(notes, older, newer, state)),
        fresh=Fresh(newer, (one for one in notes if one.seq > newer), state.targets),
        history=tuple(log),
    )


def _stretch(notes: Sequence[Note], after: int, through: int, state: State) -> Stretch:
    return Stretch(Bed(after, through, (one for one in notes if after < one.seq <= through), state.targets))


def _holdings(log: Sequence[AnyEvent], state: State, worker: str) -> list[Holding]:
    ends = {event.claim: event.seq for event in log if isinstance(event, (ClaimReleased, ClaimExpired))}
    own = (one for one in log if isinstance(one, Note) and one.type == "CLAIM" and one.author == worker)
    return [Holding(one.seq, ends.get(one.seq), state.targets(one.scope)) for one in own]
