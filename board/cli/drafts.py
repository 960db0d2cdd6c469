"""A note as it is typed on the command line, made into a draft; what cannot be one is a usage error."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec
import typer

from schema.notes import Draft


def draft_of(note_type: str, text: str, said: dict[str, Any]) -> Draft:
    """Make the draft of a type: `text` is the idea of a PATCH_SUMMARY. Empty fields are left out.

    Raises typer.BadParameter for a field that the type does not have, or lacks.
    """
    name = "idea" if note_type == "PATCH_SUMMARY" else "text"
    fields = {field: value for field, value in said.items() if value not in (None, "", [], ())}
    try:
        return msgspec.convert({"type": note_type, name: text, **fields}, Draft)  # type: ignore[arg-type]
    except msgspec.ValidationError as error:
        msg = f"no {note_type}: {error}"
        raise typer.BadParameter(msg) from error


def ref_of(text: str) -> dict[str, Any]:
    """Read `supports:12`. Raises typer.BadParameter."""
    rel, colon, seq = text.rpartition(":")
    if not colon or not seq.isdigit():
        msg = f"{text!r} is no reference: write REL:SEQ, such as refutes:12"
        raise typer.BadParameter(msg)
    return {"rel": rel, "seq": int(seq)}


def run_of(command: str, exit_code: int | None) -> dict[str, Any] | None:
    """Put a command and how it ended together. Raises typer.BadParameter when one of them is missing."""
    if not command and exit_code is None:
        return None
    if not command or exit_code is None:
        msg = "--run-command and --exit-code belong together"
        raise typer.BadParameter(msg)
    return {"command": command, "exit_code": exit_code}


def text_of_file(name: str) -> str:
    """Read a whole text, `-` from standard input. Raises typer.BadParameter when it cannot be read."""
    if name == "-":
        return sys.stdin.read()
    try:
        return Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        msg = f"{name}: {error}"
        raise typer.BadParameter(msg) from error
