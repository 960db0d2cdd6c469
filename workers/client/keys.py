"""Idempotency keys: what makes it safe to send a note again when its answer was lost."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from msgspec.structs import replace

if TYPE_CHECKING:
    from schema.notes import Draft


def with_key(draft: Draft) -> Draft:
    """Give the note a key of its own where it has none, so that however often it is sent, it is stored once."""
    return draft if draft.key else replace(draft, key=uuid.uuid4().hex)
