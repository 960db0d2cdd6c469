"""The JSON Schemas of what crosses the board's border, for programs in other languages.

`python -m schema.export` writes them to `schema/json`; a test compares those files with what the types say now.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import msgspec

from schema.answers import ExportedNote, ExportHeader, ProblemDocument
from schema.codec import encode
from schema.events import AnyEvent, Note
from schema.notes import Batch, Draft
from schema.ops import AckOp, Events, FilterOp, Hello, Live, PostedDraft, ReplyOp

FOLDER: Final = Path(__file__).parent / "json"

_OTHER_EVENTS: Final = tuple(kind for kind in AnyEvent.__args__ if kind is not Note)

SCHEMAS: Final[dict[str, tuple[str, tuple[Any, ...]]]] = {
    "draft": ("What `POST …/notes` takes.", (Draft,)),
    "batch": ("What `POST …/notes/batch` takes.", (Batch,)),
    "event": ("One line of the log, and of `GET …/events`.", (AnyEvent,)),
    "problem": ("A refusal (RFC 9457).", (ProblemDocument,)),
    "export-line": ("One line of an export; the first is the header.", (ExportHeader, ExportedNote, *_OTHER_EVENTS)),
    "client-op": ("One frame that a client sends on the stream.", (PostedDraft, AckOp, FilterOp)),
    "server-op": ("One frame that the server sends on the stream.", (Hello, Events, Live, ReplyOp)),
}
"""Each file's name, what it describes, and the types of which it is any one."""


def schema_of(name: str) -> dict[str, Any]:
    """Give the JSON Schema (2020-12) of one of `SCHEMAS`."""
    description, kinds = SCHEMAS[name]
    schemas, definitions = msgspec.json.schema_components(kinds, ref_template="#/$defs/{name}")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:board:schema:{name}",
        "description": description,
        "anyOf": list(schemas),
        "$defs": definitions,
    }


def files() -> dict[str, bytes]:
    """Give every file by its name."""
    return {f"{name}.schema.json": msgspec.json.format(encode(schema_of(name)), indent=2) + b"\n" for name in SCHEMAS}


def write(folder: Path = FOLDER) -> None:
    """Write every file."""
    folder.mkdir(exist_ok=True)
    for name, content in files().items():
        (folder / name).write_bytes(content)


if __name__ == "__main__":
    write()
