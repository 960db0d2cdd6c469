"""How long the server waits for a peer, how many peers it has, and how often that ran out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from board.turnstile import Turnstile

if TYPE_CHECKING:
    from board.settings import ServerSettings

BODY_BYTES_PER_S: Final = 1024
"""The least that a body must flow at, over each `request_s`: 1 MiB then takes 17 minutes at the most."""


class Patience:
    """The bounds of all HTTP connections of one process, and counts of the connections that met them."""

    def __init__(self, settings: ServerSettings) -> None:
        self.connections = settings.connections
        """The most connections, streams among them."""
        self.request_s = settings.request_s
        """Seconds for the head of a request, and between two looks at a body that flows or an answer that is read."""
        self.handshakes = Turnstile()
        """Where those take turns that would become streams."""
        self.open = 0
        """HTTP connections that are open; one that becomes a stream is counted there."""
        self.refused = 0
        """Connections that were one too many."""
        self.late = 0
        """Requests that did not come in time."""
        self.unread = 0
        """Answers whose reader took nothing for too long."""
        self.lingering = 0
        """Connections that were answered and wait for their peer to end."""
        self.cut = 0
        """Those of them that met a bound, so that the answer may be lost."""

    @property
    def body_bytes(self) -> int:
        """Bytes that a body must have grown by from one look to the next."""
        return int(BODY_BYTES_PER_S * self.request_s)
