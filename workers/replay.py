"""Do again, on a live board, what a recording says was done: as its authors, in their order, at a pace."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from schema.codes import ProblemError
from schema.notes import PatchSummary, Ref
from workers.acts import Act, Narrow, Release, Retract, Say, Transfer, Unread
from workers.recording import names_in

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable

    from schema.notes import Draft
    from workers.client import BoardClient
    from workers.client.answers import BoardView

_LANE_ACTS: Final = 16
"""How far an author may lag behind the pace before the others wait, too: the recording is never read whole."""


class Tally(msgspec.Struct, kw_only=True):
    """What became of a recording. Every line of it is counted somewhere.

    `posted` counts new notes by type, `repeated` those that the board knew word by word, `done` the other deeds by name,
    `refused` what the board refused by code, `left_out` what was not tried by reason. `shortened` notes have their text
    in `detail`. `refusals` holds the first few refusals in words.
    """

    posted: Counter[str] = msgspec.field(default_factory=Counter[str])
    done: Counter[str] = msgspec.field(default_factory=Counter[str])
    refused: Counter[str] = msgspec.field(default_factory=Counter[str])
    left_out: Counter[str] = msgspec.field(default_factory=Counter[str])
    repeated: int = 0
    shortened: int = 0
    refusals: list[str] = []


_SHOWN_REFUSALS: Final = 10


class Made(msgspec.Struct, kw_only=True):
    """What came of a deed, once it is `over`: `seq` is 0 where the board refused it.

    `before` is the earlier deed of the same name, which counts in the place of one that was refused.
    """

    author: str
    before: Made | None = None
    over: asyncio.Event = msgspec.field(default_factory=asyncio.Event)
    seq: int = 0

    async def settled(self) -> None:
        """Wait until this deed is over, and those before it that may count in its place."""
        made: Made | None = self
        while made is not None and not made.seq:
            await made.over.wait()
            made = made.before

    def standing(self) -> Made:
        """Give the newest deed of this name that the board took, or the oldest that it refused."""
        made = self
        while not made.seq and made.before is not None:
            made = made.before
        return made

    def take(self, seq: int) -> None:
        """Note that the board took it: earlier deeds of the name count no more."""
        self.seq = seq
        self.before = None


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """An act with what it refers to: the deeds that must be over before it, by name; and its own, to be filled in."""

    act: Act
    needs: dict[str, Made]
    made: Made


class Replay:
    """Plays one recording onto one board. The board's caller must be an admin, as everybody is in open mode.

    Each author's deeds keep their order; those of different authors start in the recording's order and may overtake
    each other only while they are on their way. `speed` divides the recording's time; None keeps no pace at all.
    """

    def __init__(
        self,
        board: BoardClient,
        *,
        speed: float | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.tally = Tally()
        self._board = board
        self._speed = speed
        self._sleep = sleep
        self._now = now
        self._began: tuple[float, float] | None = None
        self._made: dict[str, Made] = {}
        self._known: dict[str, asyncio.Task[BoardView]] = {}
        self._lanes: dict[str, asyncio.Queue[Step | None]] = {}

    async def run(self, acts: Iterable[Act | Unread]) -> Tally:
        """Play it to its end and count. Raises ProblemError `unreachable` when the board is gone."""
        async with self._playing() as tasks:
            for act in acts:
                if isinstance(act, Unread):
                    self.tally.left_out[act.reason] += 1
                else:
                    await self._due(act)
                    await self._lane(act.author, tasks).put(self._step(act))
        return self.tally

    @asynccontextmanager
    async def _playing(self) -> AsyncGenerator[asyncio.TaskGroup]:
        try:
            async with asyncio.TaskGroup() as tasks:
                yield tasks
                for lane in self._lanes.values():
                    await lane.put(None)
        except* ProblemError as group:
            raise _first(group) from None

    async def _due(self, act: Act) -> None:
        if self._speed is None:
            return
        began_s, first_s = self._began = self._began or (self._now(), act.at_s)
        early_s = began_s + (act.at_s - first_s) / self._speed - self._now()
        if early_s > 0:
            await self._sleep(early_s)

    def _lane(self, author: str, tasks: asyncio.TaskGroup) -> asyncio.Queue[Step | None]:
        lane = self._lanes.get(author)
        if lane is None:
            lane = self._lanes[author] = asyncio.Queue(_LANE_ACTS)
            tasks.create_task(self._play(author, lane), name=f"replay of {author}")
        return lane

    def _step(self, act: Act) -> Step:
        # Names are resolved as the recording is read, so that a name that is used again means the newest before.
        needs = {name: self._made[name] for name in _names_of(act) if name in self._made}
        name = act.deed.name if isinstance(act.deed, Say) else ""
        made = Made(author=act.author, before=self._made.get(name))
        if name:
            self._made[name] = made
        return Step(act=act, needs=needs, made=made)

    # One author

    async def _play(self, author: str, lane: asyncio.Queue[Step | None]) -> None:
        while (step := await lane.get()) is not None:
            try:
                await self._do(self._board.acting_as(author), await _ready(step))
            except ProblemError as error:
                self._refuse(step.act, error)
            finally:
                step.made.over.set()

    def _refuse(self, act: Act, error: ProblemError) -> None:
        if error.problem.code == "unreachable":
            raise error
        self.tally.refused[error.problem.code] += 1
        if len(self.tally.refusals) < _SHOWN_REFUSALS:
            self.tally.refusals.append(f"line {act.line}, {act.author}: {error}")

    async def _do(self, board: BoardClient, step: Step) -> None:
        missing = [name for name in _names_of(step.act) if name not in step.needs or not step.needs[name].seq]
        if missing:
            self.tally.left_out[f"{_name_of(step.act)} about a note that was not posted"] += 1
            return
        match step.act.deed:
            case Say() as deed:
                await self._say(board, deed, step)
                return
            case Release() as deed:
                await self._release(board, deed, step)
            case Narrow() as deed:
                await board.narrow(step.needs[deed.claim].seq, deed.scope)
            case Transfer() as deed:
                await self._introduce(deed.to)
                await board.transfer(step.needs[deed.claim].seq, deed.to)
            case Retract() as deed:
                await board.retract(step.needs[deed.note].seq, deed.reason)
        self.tally.done[_name_of(step.act)] += 1

    async def _say(self, board: BoardClient, deed: Say, step: Step) -> None:
        for worker in deed.draft.to:
            await self._introduce(worker)
        posted = await board.post(_renamed(deed.draft, step.needs))
        step.made.take(posted.seq)
        if posted.duplicate:
            self.tally.repeated += 1
        else:
            self.tally.posted[posted.note.type] += 1
        self.tally.shortened += deed.shortened

    async def _release(self, board: BoardClient, deed: Release, step: Step) -> None:
        held = step.needs[deed.claim]
        reason = "" if held.author == step.act.author else f"ended by {step.act.author} in the recording"
        await board.release(held.seq, outcome=deed.outcome, text=deed.text, reason=reason)

    async def _introduce(self, worker: str) -> None:
        """Make a worker known before it is addressed, once: any call does."""
        if worker not in self._known:
            self._known[worker] = asyncio.create_task(self._board.acting_as(worker).board())
        await asyncio.shield(self._known[worker])


async def _ready(step: Step) -> Step:
    """Wait until all that a step needs is over, and give it with what stands of that."""
    for needed in step.needs.values():
        # No ring can form: a need always stands earlier in the recording than what needs it.
        await needed.settled()
    return replace(step, needs={name: made.standing() for name, made in step.needs.items()})


def _names_of(act: Act) -> tuple[str, ...]:
    match act.deed:
        case Say() as deed:
            return names_in(deed.draft)
        case Release() | Narrow() | Transfer() as deed:
            return (deed.claim,)
        case Retract() as deed:
            return (deed.note,)


def _name_of(act: Act) -> str:
    return type(act.deed).__name__.lower()


def _renamed(draft: Draft, made: dict[str, Made]) -> Draft:
    """Put the new seqs in the place of the recording's."""
    renamed = replace(draft, refs=tuple(Ref(ref.rel, made[str(ref.seq)].seq) for ref in draft.refs))
    if isinstance(renamed, PatchSummary) and renamed.claim is not None:
        return replace(renamed, claim=made[str(renamed.claim)].seq)
    return renamed


def _first(group: BaseExceptionGroup[ProblemError]) -> ProblemError:
    inner = group.exceptions[0]
    return _first(inner) if isinstance(inner, BaseExceptionGroup) else inner
