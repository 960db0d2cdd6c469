"""The id of a request: the caller's own or a new one, in the answer, in a refusal's document, and in every line logged."""

from __future__ import annotations

import re
import secrets
from itertools import count
from typing import TYPE_CHECKING, Final

from board import logs

if TYPE_CHECKING:
    from collections.abc import Iterable

HEADER: Final = b"x-request-id"

_ADMITTED: Final = re.compile(rb"[A-Za-z0-9._-]{1,64}")
"""What of a caller's own ids is taken over; any other is replaced, as it would end up in logs."""

_boot: Final = secrets.token_hex(4)
_numbers: Final = count(1)


def begin(headers: Iterable[tuple[bytes, bytes]]) -> None:
    """Give the request that the current task carries out an id: its header's, where that is one."""
    for name, value in headers:
        if name == HEADER and _ADMITTED.fullmatch(value):
            logs.request_id.set(value.decode())
            return
    # Unique among the processes of a team, and a tenth of what a random one costs.
    logs.request_id.set(f"{_boot}-{next(_numbers):x}")


def header() -> tuple[bytes, bytes]:
    """The header of the answer."""
    return HEADER, logs.request_id.get().encode()
