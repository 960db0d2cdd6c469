"""The command that writes a note."""

from typing import Annotated

import typer

from board.cli.drafts import draft_of, ref_of, run_of, text_of_file
from board.cli.options import Scope
from board.cli.session import Session, Shown, command
from schema.notes import NoteType


@command("post")
async def post(
    session: Session,
    note_type: Annotated[NoteType, typer.Argument(metavar="TYPE", case_sensitive=False, help="Type of the note.")],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What the note says; of a PATCH_SUMMARY the idea.")],
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
    board post PATCH_SUMMARY "one pass, not two" -f src/a.c --evidence "14 of 14 pass" --claim 60
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
        session.remark(f"{posted.seq} says so already: nothing new was stored")
    return Shown(str(posted.seq))
