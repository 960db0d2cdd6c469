"""Commands that write notes and read them back."""

from typing import Annotated, Literal

import msgspec
import typer

from board.cli.drafts import draft_of, ref_of, run_of, text_of_file
from board.cli.session import Session, Shown, command
from schema.notes import NoteType

NoteTypeArgument = Annotated[NoteType, typer.Argument(metavar="TYPE", case_sensitive=False, help="Type of the note.")]
TypeOption = Annotated[
    list[NoteType] | None, typer.Option("--type", case_sensitive=False, help="Only this type; may be repeated.")
]
Scope = Annotated[
    list[str] | None,
    typer.Option("--scope", "-s", help="Target: src/a.c, src/**/*.c, src/a.c:10-40, src/a.py::Parser, task:tables."),
]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, help="How many at the most.")]

_PAGE = 1000


class _RawNotes(msgspec.Struct, frozen=True):
    notes: tuple[msgspec.Raw, ...] = ()
    next: int | None = None


def register(app: typer.Typer) -> None:
    """Add the commands."""

    @command(app, "post")
    async def post(
        session: Session,
        note_type: NoteTypeArgument,
        text: Annotated[str, typer.Argument(help="What the note says; of a PATCH_SUMMARY the idea.")],
        scope: Scope = None,
        detail: Annotated[str, typer.Option(help="File with the long text, - for standard input.")] = "",
        task: Annotated[str, typer.Option(help="Task that the note belongs to.")] = "",
        ref: Annotated[
            list[str] | None,
            typer.Option(help="REL:SEQ; REL is supports, refutes, supersedes, derived_from or answers."),
        ] = None,
        evidence: Annotated[str, typer.Option(help="What was run and what it showed.")] = "",
        file: Annotated[list[str] | None, typer.Option("--file", "-f", help="File of a PATCH_SUMMARY.")] = None,
        risk: Annotated[str, typer.Option(help="What a PATCH_SUMMARY may break.")] = "",
        tag: Annotated[list[str] | None, typer.Option(help="Label; may be repeated.")] = None,
        to: Annotated[list[str] | None, typer.Option(help="Worker that it is addressed to; may be repeated.")] = None,
        key: Annotated[str, typer.Option(help="Idempotency key: the same key stores one note.")] = "",
        run_command: Annotated[str, typer.Option(help="Command that was run.")] = "",
        exit_code: Annotated[int | None, typer.Option(help="How that command ended.")] = None,
        work: Annotated[str, typer.Option(help="Label of the work; a newer summary supersedes the older.")] = "",
        claim: Annotated[int | None, typer.Option(help="Claim that the work was done under.")] = None,
        commit: Annotated[str, typer.Option(help="Commit that holds the change.")] = "",
        pr: Annotated[str, typer.Option(help="Pull request that holds the change.")] = "",
    ) -> Shown:
        """Write one note, and print its seq.

        TYPE is OBSERVED, FACT, FAIL, CLAIM or PATCH_SUMMARY.

        \b
        board post FACT "table rows end at a line of dashes" -s src/tables.c:10-40
        board post FAIL "backtracking does not help" --ref refutes:57 --run-command "make test" --exit-code 2
        board post PATCH_SUMMARY "one pass instead of two" -f src/a.c --evidence "14 of 14 pass" --claim 60
        git diff | board post OBSERVED "the diff so far" --detail -
        """
        said = {
            "scope": scope,
            "detail": text_of_file(detail) if detail else "",
            "task": task,
            "refs": [ref_of(one) for one in ref or ()],
            "evidence": evidence,
            "files": file,
            "risk": risk,
            "tags": tag,
            "to": to,
            "key": key,
            "run": run_of(run_command, exit_code),
            "work": work,
            "claim": claim,
            "commit": commit,
            "pr": pr,
        }
        posted = await session.board.post(draft_of(note_type, text, said))
        if posted.duplicate:
            session.remark(f"{posted.seq} says the same already; nothing new was stored")
        return Shown(str(posted.seq))

    @command(app, "read", lines=True)
    async def read(
        session: Session,
        after: Annotated[int | None, typer.Option(help="Begin after this seq, oldest first.")] = None,
        before: Annotated[int | None, typer.Option(help="Only notes before this seq.")] = None,
        limit: Limit = 50,
        note_type: TypeOption = None,
        author: Annotated[str | None, typer.Option(help="Only notes of this worker.")] = None,
        scope: Scope = None,
        task: Annotated[str | None, typer.Option(help="Only notes of this task.")] = None,
        to: Annotated[str | None, typer.Option(help="Only notes addressed to this worker.")] = None,
    ) -> Shown:
        """Read notes: the newest ones, or with --after those that follow a seq; always the oldest of them first.

        With --json one note a line.

        \b
        board read --type FAIL --scope src/readers
        board read --after 57 --limit 1000 --json
        """
        from board.cli.render import event_lines
        from schema.events import Note

        newest = after is None
        lines: list[bytes] = []
        position = after or 0
        more = True
        session.keep_bodies()
        while more and len(lines) < limit:
            page = await session.board.notes(
                after=position,
                before=before,
                limit=min(_PAGE, limit - len(lines)),
                order="desc" if newest else "asc",
                types=note_type or (),
                author=author,
                scope=scope or (),
                task=task,
                to=to,
            )
    app.command
