"""The tokens of a store, asked as those of a running board are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from schema.codec import text_of_us
from workers.client.answers import NewToken, Revoked, Tokens, TokenView

if TYPE_CHECKING:
    from board.store.contract import Role, TokenRow


class Access(Protocol):
    """What `board.app.open_tokens` gives."""

    async def create(self, *, role: Role, worker: str, board: str, expires_s: int) -> tuple[str, TokenRow]:
        """Make a token."""
        ...

    async def revoke(self, *, id: str = "", worker: str = "") -> list[TokenRow]:
        """Revoke tokens."""
        ...

    async def list(self) -> list[TokenRow]:
        """Give all tokens."""
        ...


class StoreKeeper:
    """Keeps tokens on a store, durable on return. Raises ProblemError as a board would."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def create_token(
        self, role: Role, *, worker: str | None = None, board: str | None = None, expires_s: int | None = None
    ) -> NewToken:
        """Make a token; its name, board and life are checked as a board checks them."""
        token, row = await self._access.create(
            role=role, worker=worker or "", board=board or "", expires_s=expires_s or 0
        )
        return NewToken(token=token, **_fields_of(row))

    async def tokens(self) -> Tokens:
        """Give all tokens ever made, oldest first."""
        return Tokens(tokens=tuple(TokenView(**_fields_of(row)) for row in await self._access.list()))

    async def revoke_token(self, id: str) -> Revoked:
        """Revoke one token."""
        return _revoked(await self._access.revoke(id=id))

    async def revoke_tokens_of(self, worker: str) -> Revoked:
        """Revoke the tokens of a worker."""
        return _revoked(await self._access.revoke(worker=worker))


def _fields_of(row: TokenRow) -> dict[str, Any]:
    times = {"created_at": row.created_us, "expires_at": row.expires_us, "revoked_at": row.revoked_us}
    said = {"id": row.id, "role": row.role, "worker": row.worker, "board": row.board or None}
    return said | {name: text_of_us(at_us) for name, at_us in times.items() if at_us}


def _revoked(rows: list[TokenRow]) -> Revoked:
    return Revoked(revoked=tuple(row.id for row in rows))
