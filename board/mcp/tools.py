"""The one table of tools: what each is for, what it takes and answers, and the call of the service behind it.

The list that clients see, the checks of arguments, the dispatch and the tests are all made from `TOOLS`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from board.core.tokens import COSTS_A_TOKEN, cost
from board.mcp import answers, arguments, render
from board.mcp.caller import Caller
from board.service import questions
from board.service.explaining import explain
from schema.codec import encode
from schema.codes import ProblemError
from schema.limits import PAGE_LIMIT
from schema.notes import Claim, Draft

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from board.service.service import Service

READ_PAGE: Final = 200
"""Notes that one `board_read` looks at, however large its budget is."""

T = TypeVar("T")
Plain = dict[str, Any]
"""An answer as JSON knows it: no structs, nothing encoded."""


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """One tool. `takes` is what arguments are decoded to, `fields` the struct that its input schema shows."""

    name: str
    title: str
    purpose: str
    when: str
    example: Plain
    fields: type[msgspec.Struct]
    takes: Any = None
    answers: type[answers.Answer]
    call: Callable[[Service, Caller, Any], Awaitable[Plain]]
    text: Callable[[Plain], str]
    read_only: bool = False
    idempotent: bool = False

    @property
    def description(self) -> str:
        """What a model is told: what it is for, when to call it, one example."""
        return f"{self.purpose}\n\nWhen: {self.when}\n\nExample: {encode(self.example).decode()}"


def decoded(kind: Any, said: Plain) -> Any:  # noqa: ANN401 -- a type, and a value of it
    """Convert arguments; one that is null counts as left out. Raises ProblemError `invalid_field`, naming it."""
    given = {name: value for name, value in said.items() if value is not None}
    try:
        # Models write numbers as text now and then; what it means is plain.
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise ProblemError(explain("invalid_field", str(error), given, kind)) from error


def plain(body: Any) -> Plain:  # noqa: ANN401 -- whatever the service replies with
    """An answer of the service without structs and encoded parts."""
    return msgspec.json.decode(encode(body))


async def _read(service: Service, caller: Caller, said: arguments.ReadArguments) -> Plain:
    if said.after is not None:
        return await _since(service, caller, said, said.after)
    return await (_newest if said.types else _snapshot)(service, caller, said)


async def _snapshot(service: Service, caller: Caller, said: arguments.ReadArguments) -> Plain:
    # The head from before the view was made: what comes between the two is shown twice rather than never.
    board = await service.enter(caller.who, caller.board)
    head = board.state.seq
    query = questions.SnapshotQuery(budget_tokens=said.budget_tokens, scope=said.scope)
    reply = await service.snapshot(caller.who, caller.board, query)
    return {"snapshot": reply.body, "cursor": head, "head": head, "epoch": board.row.epoch}


async def _since(service: Service, caller: Caller, said: arguments.ReadArguments, after: int) -> Plain:
    query = questions.NotesQuery(after=after, limit=READ_PAGE, type=said.types, scope=said.scope)
    page = plain((await service.notes(caller.who, caller.board, query)).body)
    shown, too_large, all_seen = _fitting(page, said.budget_tokens)
    cursor = page["head"] if all_seen else max([after, *too_large, *(note["seq"] for note in shown)])
    return _brief(page, shown, too_large, cursor=cursor, more=not all_seen)


async def _newest(service: Service, caller: Caller, said: arguments.ReadArguments) -> Plain:
    query = questions.NotesQuery(order="desc", limit=READ_PAGE, type=said.types, scope=said.scope)
    page = plain((await service.notes(caller.who, caller.board, query)).body)
    shown, too_large, all_seen = _fitting(page, said.budget_tokens)
    return _brief(page, shown[::-1], too_large, cursor=page["head"], older=not all_seen)


def _fitting(page: Plain, budget_tokens: int) -> tuple[list[Plain], list[int], bool]:
    """Take notes in order while the budget lasts; a note that is over it by itself is named and passed over.

    The last of the three tells whether the page, and so everything, was gone through.
    """
    room = left = budget_tokens * COSTS_A_TOKEN
    shown: list[Plain] = []
    too_large: list[int] = []
    for note in page["notes"]:
        price = cost(encode(note).decode())
        if price > room:
            too_large.append(note["seq"])
        elif price > left:
            return shown, too_large, False
        else:
            shown.append(note)
            left -= price
    return shown, too_large, page["next"] is None


def _brief(page: Plain, shown: list[Plain], too_large: list[int], **more: Any) -> Plain:  # noqa: ANN401 -- JSON
    told = {"too_large": too_large} if too_large else {}
    return {"notes": shown, "head": page["head"], "epoch": page["epoch"], **told, **more}


async def _write(service: Service, caller: Caller, draft: Draft) -> Plain:
    return plain((await service.post(caller.who, caller.board, draft)).body)


async def _claim(service: Service, caller: Caller, said: arguments.ClaimArguments) -> Plain:
    return await _write(service, caller, Claim(**msgspec.structs.asdict(said)))


async def _release(service: Service, caller: Caller, said: arguments.ReleaseArguments) -> Plain:
    body = questions.ReleaseBody(outcome=said.outcome, to=said.to, text=said.text)
    return plain((await service.release(caller.who, caller.board, said.claim, body)).body)


async def _check(service: Service, caller: Caller, said: arguments.CheckArguments) -> Plain:
    return plain((await service.check(caller.who, caller.board, questions.CheckBody(scope=said.scope))).body)


async def _grep(service: Service, caller: Caller, said: arguments.GrepArguments) -> Plain:
    query = questions.SearchQuery(q=said.q, limit=said.limit, before=said.before)
    return plain((await service.search(caller.who, caller.board, query)).body)


async def _unfold(service: Service, caller: Caller, said: arguments.UnfoldArguments) -> Plain:
    note = plain((await service.note(caller.who, caller.board, said.seq)).body)
    if not note.get("detail_bytes"):
        return {"note": note}
    detail = await service.detail(caller.who, caller.board, said.seq)
    return {"note": note, "detail": detail.body["detail"]}


async def _wait(service: Service, caller: Caller, said: arguments.WaitArguments) -> Plain:
    query = questions.WaitQuery(after=said.after, timeout_s=said.timeout_s, type=said.types, scope=said.scope)
    body = plain((await service.wait(caller.who, caller.board, query)).body)
    return {("cursor" if name == "next" else name): value for name, value in body.items()}


TOOLS: Final[tuple[Tool, ...]] = (
    Tool(
        name="board_read",
        title="Read the board",
        purpose="Read what the team knows and does: who works on what, what failed, what was learned and patched. "
        "Without `after` it gives the board in brief, as much as `budget_tokens` allows; with `after` the notes since; with "
        "`types` alone the newest of these.",
        when="before you choose what to do, and again (with the `cursor` of the last answer as `after`) before you "
        "change your plan.",
        example={"scope": ["src/readers"], "budget_tokens": 1500},
        fields=arguments.ReadArguments,
        answers=answers.Brief,
        call=_read,
        text=render.brief,
        read_only=True,
        idempotent=True,
    ),
    Tool(
        name="board_write",
        title="Write a note",
        purpose="Tell the team something that is of use to others: what you saw (OBSERVED), hold to be true (FACT), "
        "tried in vain (FAIL), or have finished (PATCH_SUMMARY). One thing a note, short; long text goes into `detail`.",
        when="as soon as you learn it, above all a FAIL: it spares others the same way. "
        "After a change is done, a PATCH_SUMMARY with real evidence.",
        example={
            "type": "FAIL",
            "text": "Parsing rows with a regex loses escaped bars",
            "scope": ["src/readers/tables.c"],
            "evidence": "tests/tables.sh: 3 of 14 fail",
        },
        fields=arguments.WriteArguments,
        takes=Draft,
        answers=answers.Written,
        call=_write,
        text=render.written,
    ),
    Tool(
        name="board_claim",
        title="Claim a scope",
        purpose="Say that you are going to work on these files, lines, symbols or tasks, so that nobody else does the "
        "same. The answer says whether you hold it, who is in the way, what is free, and what is known about it.",
        when="before you begin to change anything. If it is refused, take what is `free`, wait, or do something else; "
        "do not work on what another holds.",
        example={"scope": ["src/readers/tables.c"], "text": "Parse escaped bars in rows", "ttl_s": 900},
        fields=arguments.ClaimArguments,
        answers=answers.Written,
        call=_claim,
        text=render.written,
    ),
    Tool(
        name="board_release",
        title="Release a claim",
        purpose="End a claim of yours, so that others may work there. Releasing twice does no harm.",
        when="as soon as the work is done (after its PATCH_SUMMARY), or when you give it up or hand it over.",
        example={"claim": 57, "outcome": "done", "text": "Rows parse; nested tables are still open"},
        fields=arguments.ReleaseArguments,
        answers=answers.Lease,
        call=_release,
        text=render.lease,
        idempotent=True,
    ),
    Tool(
        name="board_check",
        title="Check a scope",
        purpose="Ask who holds any of these targets, which are free, and what the team knows about them. "
        "It writes nothing and holds nothing; your own claims are not in the way.",
        when="while you are still choosing what to work on.",
        example={"scope": ["src/readers/**", "task:tables"]},
        fields=arguments.CheckArguments,
        answers=answers.Checked,
        call=_check,
        text=render.checked,
        read_only=True,
        idempotent=True,
    ),
    Tool(
        name="board_grep",
        title="Search the notes",
        purpose="Find notes by words in their text, evidence, scope, task and tags, over the whole history, the newest "
        "first. Words side by side must all be there; a comma is OR; quotes make a phrase.",
        when="you meet an error or a question that somebody may have met before.",
        example={"q": 'escaped bars, "table rows"', "limit": 10},
        fields=arguments.GrepArguments,
        answers=answers.Found,
        call=_grep,
        text=render.found,
        read_only=True,
        idempotent=True,
    ),
    Tool(
        name="board_unfold",
        title="Unfold a note",
        purpose="Read one note whole: every field, what became of it, and the long text kept beside it.",
        when="a note's line is not enough, or says that it has a detail.",
        example={"seq": 57},
        fields=arguments.UnfoldArguments,
        answers=answers.Unfolded,
        call=_unfold,
        text=render.unfolded,
        read_only=True,
        idempotent=True,
    ),
    Tool(
        name="board_wait",
        title="Wait for news",
        purpose="Wait until something happens on the board that matches, at the most `timeout_s` seconds. "
        "Give the `cursor` of the last answer as `after`, and nothing between two waits is missed.",
        when="you cannot go on before another worker releases, finishes or answers.",
        example={"timeout_s": 30, "types": ["claim.released"], "scope": ["src/readers/tables.c"]},
        fields=arguments.WaitArguments,
        answers=answers.Heard,
        call=_wait,
        text=render.heard,
        read_only=True,
    ),
)
"""All tools, in the order that clients list them."""

assert READ_PAGE <= PAGE_LIMIT
