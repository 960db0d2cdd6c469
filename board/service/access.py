"""Who calls, and what it may do: tokens, tickets, and open mode.

A token is 256 random bits, so it is kept as a keyed BLAKE2b hash that is checked in microseconds: a slow hash only
helps where a secret can be guessed. Tokens are looked up by that hash and never compared character by character. The
key is the settings' `secret`, or one that the store keeps (`Store.token_key`); where that is lost no token counts, and
the board stays closed.
"""

from __future__ import annotations

import ipaddress
import re
import secrets
from base64 import b64decode
from collections.abc import Callable
from functools import wraps
from hashlib import blake2b
from typing import TYPE_CHECKING, Concatenate, Final, ParamSpec, TypeVar

import msgspec

from board.core.admission import check_worker_name
from board.core.commands import Asker
from board.core.secrecy import token_of
from board.store.contract import Role, TokenRow
from schema.codes import ProblemError, problem
from schema.limits import BOARD_NAME_PATTERN

if TYPE_CHECKING:
    from board.service.clock import Clock
    from board.store.commons import Commons
    from board.store.contract import Store

S = TypeVar("S")
P = ParamSpec("P")
R = TypeVar("R")

ANONYMOUS: Final = "anonymous"
TICKET_LIFE_S: Final = 60
TICKETS: Final = 4096
_RANKS: Final[dict[Role, int]] = {"reader": 0, "worker": 1, "admin": 2}
_BOARD_NAME: Final = re.compile(BOARD_NAME_PATTERN)


class Identity(msgspec.Struct, frozen=True):
    """Who a caller is. `board` is the only board that it may use, empty for every board; `token` its token's id."""

    worker: str
    role: Role
    board: str = ""
    token: str = ""

    @property
    def admin(self) -> bool:
        """Whether it may do what admins may."""
        return self.role == "admin"

    def asker(self, root: str | None) -> Asker:
        """The identity as the core knows it."""
        return Asker(self.worker, self.admin, root)


def is_loopback(host: str) -> bool:
    """Tell whether an address to listen on is reached from this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


_NEVER_US: Final = 2**63
_identity: Final = msgspec.json.Decoder(Identity).decode


class Access:
    """Knows the tokens. They are few, so all are kept in memory and read anew from the store by `refresh`."""

    def __init__(self, store: Store, clock: Clock, *, secret: str = "", commons: Commons | None = None) -> None:
        self._store = store
        self._commons = commons
        self._clock = clock
        self._key = blake2b(secret.encode(), digest_size=32).digest() if secret else None
        self._by_digest: dict[bytes, TokenRow] = {}
        self._by_id: dict[str, TokenRow] = {}
        self._tickets: dict[str, tuple[Identity, int]] = {}
        self.on_revoke: Callable[[set[str]], None] = _ignore
        """Told which tokens have ended, by id, each once; the empty id stands for open mode."""
        self.on_change: Callable[[], None] = _tell_nobody
        """Told that tokens were made or revoked here."""
        self._ended: set[str] = set()

    async def refresh(self) -> None:
        """Take in what was made or revoked elsewhere; streams of tokens that ended are told.

        Those that have expired are told also where the store cannot be read: then StoreUnavailable is raised.
        """
        try:
            rows = await self._store.tokens()
            if rows and self._key is None:
                self._key = await self._store.token_key(make=False)
            self._by_digest = {row.digest: row for row in rows}
            self._by_id = {row.id: row for row in rows}
        finally:
            self._tell_ended()

    def _tell_ended(self) -> None:
        ended = {row.id for row in self._by_id.values() if not self._lives(row)}
        if not self.open_mode:
            ended.add("")
        fresh, self._ended = ended - self._ended, ended
        if fresh:
            self.on_revoke(fresh)

    def _lives(self, row: TokenRow) -> bool:
        return not row.revoked_us and not (row.expires_us and row.expires_us <= self._clock.now_us())

    @property
    def open_mode(self) -> bool:
        """Whether no token was ever made: everyone on this machine is an admin."""
        return not self._by_digest

    @property
    def keyless(self) -> bool:
        """Whether there are tokens and the key that they were hashed under is lost: none of them counts."""
        return bool(self._by_digest) and self._key is None

    def identify(self, authorization: str | None, worker: str | None) -> Identity:
        """Tell who calls, from the Authorization header and the X-Board-Worker header.

        Raises ProblemError `unauthorized` without a live token, `identity_mismatch` where the header names another
        worker than the token's, `reserved_name` for a name that no worker may have.
        """
        if self.open_mode:
            name = ANONYMOUS if worker is None else worker
            if (wrong := check_worker_name(name)) is not None:
                raise ProblemError(wrong)
            return Identity(name, "admin")
        return self._by_token(authorization, worker)

    def _by_token(self, authorization: str | None, worker: str | None) -> Identity:
        token, user = read_authorization(authorization)
        digest = self.digest(token)
        row = self._by_digest.get(digest) if digest else None
        if row is None or not self._lives(row):
            raise ProblemError(problem("unauthorized", "The token is unknown, expired or revoked."))
        if user not in ("", row.worker):
            raise ProblemError(problem("unauthorized", "The user name is not the token's worker; leave it empty."))
        if worker is not None and worker != row.worker:
            sentence = f"The token is {row.worker}'s, and the X-Board-Worker header says otherwise."
            raise ProblemError(problem("identity_mismatch", sentence))
        return Identity(row.worker, row.role, "" if row.role == "admin" else row.board, row.id)

    def digest(self, token: str) -> bytes | None:
        """The hash that a token is kept under; None while there is no key to hash with."""
        if self._key is None:
            return None
        return blake2b(token.encode("utf-8", "replace"), key=self._key, digest_size=32).digest()

    async def create(
        self, *, role: Role, worker: str = "", board: str = "", expires_s: int = 0
    ) -> tuple[str, TokenRow]:
        """Make a token, durable on return. Gives the token itself, which is never shown again, and its row.

        A worker's token is for one board, `main` where none is named. Raises ProblemError for a bad name.
        """
        name = worker or (role if role != "worker" else "")
        wrong = check_worker_name(name)
        if wrong is not None:
            raise ProblemError(wrong)
        if board and not _BOARD_NAME.fullmatch(board):
            raise ProblemError(problem("invalid_field", f"{board!r} is no board's name.", field="board", value=board))
        id_, now_us = secrets.token_hex(4), self._clock.now_us()
        token = token_of(id_, secrets.token_urlsafe(32))
        if self._key is None:
            self._key = await self._store.token_key(make=True)
        digest = self.digest(token)
        assert digest is not None, "a store that makes a key gives it"
        row = TokenRow(
            id=id_,
            digest=digest,
            role=role,
            worker=name,
            board=board or ("" if role == "admin" else "main"),
            created_us=now_us,
            expires_us=now_us + expires_s * 1_000_000 if expires_s else 0,
        )
        await self._store.add_token(row)
        await self.refresh()
        self.on_change()
        return token, row

    async def revoke(self, *, id: str = "", worker: str = "") -> list[TokenRow]:
        """Revoke by id or by worker, at once and for good. Raises ProblemError `token_not_found`."""
        rows = await self._store.revoke_tokens(id=id, worker=worker, at_us=self._clock.now_us())
        await self.refresh()
        self.on_change()
        if not rows:
            raise ProblemError(problem("token_not_found", f"No live token of {id or worker!r}.", value=id or worker))
        return rows

    async def list(self) -> list[TokenRow]:
        """All tokens ever made, oldest first."""
        return await self._store.tokens()

    def lives(self, identity: Identity) -> bool:
        """Tell whether the identity's token still counts; without one, whether the board is still in open mode."""
        if not identity.token:
            return self.open_mode
        row = self._by_id.get(identity.token)
        return row is not None and self._lives(row)

    def check(self, identity: Identity) -> None:
        """Refuse an identity whose token has ended since it was told. Raises ProblemError `unauthorized`."""
        if not self.lives(identity):
            raise ProblemError(problem("unauthorized", "The token was revoked or has expired."))

    async def make_ticket(self, identity: Identity) -> tuple[str, int]:
        """Make a ticket for one stream, for a browser that cannot send headers there: the ticket, and its end.

        Where nodes share a store the ticket is good at each of them, once in all.
        """
        now_us = self._clock.now_us()
        ticket, end_us = secrets.token_urlsafe(24), now_us + TICKET_LIFE_S * 1_000_000
        if self._commons is not None:
            kept = await self._commons.keep_ticket(
                _ticket_digest(ticket), msgspec.json.encode(identity), end_us=end_us, now_us=now_us, limit=TICKETS
            )
        else:
            kept = self._keep_ticket(ticket, identity, end_us, now_us)
        if not kept:
            raise ProblemError(problem("rate_limited", f"{TICKETS} tickets are open.", limit=TICKETS, unit="tickets"))
        return ticket, end_us

    def _keep_ticket(self, ticket: str, identity: Identity, end_us: int, now_us: int) -> bool:
        self._tickets = {one: kept for one, kept in self._tickets.items() if kept[1] > now_us}
        if len(self._tickets) < TICKETS:
            self._tickets[ticket] = (identity, end_us)
        return ticket in self._tickets

    async def use_ticket(self, ticket: str) -> Identity:
        """Take a ticket, once. Raises ProblemError `unauthorized`."""
        identity, end_us = self._tickets.pop(ticket, (None, 0))
        if self._commons is not None:
            said = await self._commons.take_ticket(_ticket_digest(ticket), now_us=self._clock.now_us())
            identity, end_us = (_identity(said), _NEVER_US) if said is not None else (None, 0)
        if identity is None or end_us <= self._clock.now_us() or not self.lives(identity):
            raise ProblemError(problem("unauthorized", "The ticket is unknown, used, or over."))
        return identity


def read_authorization(value: str | None) -> tuple[str, str]:
    """Give the token of an Authorization header, and the user name beside it (`Basic` alone has one).

    A browser that opens a page can send no `Bearer`; it asks for a user and a password, and the password is the token.
    Raises ProblemError `unauthorized`, which never repeats what was sent.
    """
    scheme, _, rest = (value or "").partition(" ")
    user, token = "", rest.strip()
    if scheme.casefold() == "basic":
        user, token = _basic(token)
    elif scheme and scheme.casefold() != "bearer":
        raise ProblemError(problem("unauthorized", "The Authorization header does not start with `Bearer `."))
    if not token:
        raise ProblemError(problem("unauthorized", "This board needs a token; none was sent."))
    return token, user


def _basic(encoded: str) -> tuple[str, str]:
    try:
        user, _, password = b64decode(encoded, validate=True).decode().partition(":")
    except ValueError:
        raise ProblemError(problem("unauthorized", "The Basic credential is not base64 of UTF-8.")) from None
    return user.strip(), password.strip()


def check_board(identity: Identity, board: str) -> None:
    """Refuse a board that is not this identity's: the answer is the same whether there is such a board or not."""
    if identity.board and identity.board != board:
        raise ProblemError(problem("forbidden", f"This token is for the board {identity.board!r} alone."))


def needs(role: Role) -> Callable[[Callable[Concatenate[S, Identity, P], R]], Callable[Concatenate[S, Identity, P], R]]:
    """Declare the role that an act of the service needs at least, and refuse those who have less.

    This is the only place where roles are enforced, so it holds for every surface; the table of routes, and with it
    the OpenAPI document, shows what is declared here (`role_needed`).
    """

    def declare(act: Callable[Concatenate[S, Identity, P], R]) -> Callable[Concatenate[S, Identity, P], R]:
        @wraps(act)
        def guarded(self: S, who: Identity, *args: P.args, **kwargs: P.kwargs) -> R:
            check_role(who, role)
            return act(self, who, *args, **kwargs)

        _needed[guarded] = role
        return guarded

    return declare


_needed: Final[dict[object, Role]] = {}


def role_needed(act: object) -> Role:
    """Tell the role that an act needs at least. Raises KeyError for one that declares none with `needs`."""
    return _needed[act]


def check_role(identity: Identity, needed: Role) -> None:
    """Refuse a caller whose role is below the one that is needed. Raises ProblemError `forbidden`."""
    if _RANKS[identity.role] < _RANKS[needed]:
        sentence = f"A {identity.role}'s token may not do that; it takes a token of the role {needed!r}."
        raise ProblemError(problem("forbidden", sentence, role=identity.role, needed=needed))


def _ignore(_ended: set[str]) -> None:
    return None


def _tell_nobody() -> None:
    return None


def _ticket_digest(ticket: str) -> bytes:
    return blake2b(ticket.encode("utf-8", "replace"), digest_size=32).digest()
