"""The server's settings: one struct, read from the environment and the command line in this one module.

Every field is `BOARD_` and its name in upper case in the environment; the command line's flags win over that. The
table in the README is made from this file, and a test compares the two.
"""

from __future__ import annotations

import math
import os
import types
from typing import TYPE_CHECKING, Any, Final, Literal, get_args, get_origin, get_type_hints

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_STORE: Final = "sqlite:board.db"


class BadSetting(ValueError):
    """A setting has a value that is not allowed; the sentence names the setting, the value and what is allowed."""


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """All that `board serve` can be told."""

    host: str = "127.0.0.1"
    port: int = 8420
    store: str = DEFAULT_STORE
    bus: str = "local"
    log_format: Literal["auto", "json", "console"] = "auto"
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    origins: tuple[str, ...] = ()
    fd: int | None = None
    drain_s: float = 10.0
    stall_s: float = 10.0
    ping_s: float = 10.0
    subscriber_bytes: int = 262_144
    subscribers: int = 4096
    queue_notes: int = 65_536
    tail_bytes: int = 16_777_216
    read_threads: int = 2
    store_connections: int = 8
    store_wait_s: float = 5.0
    poll_s: float = 1.0
    keep_days: float = 0.0
    keep_events: int = 0
    trim_s: float = 60.0
    secret: str = ""
    worker_notes_per_s: float = 500.0
    worker_notes_burst: int = 10_000
    board_notes_per_s: float = 5_000.0
    board_notes_burst: int = 50_000
    worker_detail_bytes_per_s: float = 1_048_576.0
    worker_detail_bytes_burst: int = 33_554_432
    board_detail_bytes_per_s: float = 4_194_304.0
    board_detail_bytes_burst: int = 134_217_728
    worker_claims: int = 1000
    board_claims: int = 20_000
    worker_streams: int = 1024
    board_streams: int = 3072
    worker_waits: int = 256
    board_waits: int = 2048
    board_workers: int = 16_384
    connections: int = 8192
    request_s: float = 20.0


DESCRIPTIONS: Final[dict[str, str]] = {
    "host": "Address to listen on. Any but loopback needs a token.",
    "port": "TCP port; 0 takes a free one and says which.",
    "store": "Where the log is kept: `sqlite:PATH`, `postgresql://…`, or `memory:` (nothing is kept).",
    "bus": "How other nodes on the same PostgreSQL hear of new events: `redis://…`, or `local` (through PostgreSQL).",
    "log_format": "`console` for people, `json` for programs; `auto` is console on a terminal, else json.",
    "log_level": "The least level that is written: `debug`, `info`, `warning`, `error`.",
    "origins": "Origins of web pages that may call the board, beside its own; comma separated.",
    "fd": "A listening socket handed over by a supervisor, in place of host and port.",
    "drain_s": "Seconds that a stopping server gives open requests and streams to end.",
    "stall_s": "Seconds without progress after which a reader that lags is closed with 4429.",
    "ping_s": "Seconds between pings on a stream; a peer silent for twice as long is dropped.",
    "subscriber_bytes": "Bytes that may wait for one subscriber in the server's memory before it is fed from the log.",
    "subscribers": "The most open streams of this process.",
    "queue_notes": "The most notes that may wait for the writer of one board; more are answered 503.",
    "tail_bytes": "Bytes of memory for the newest events of each board, to feed readers that lag.",
    "read_threads": "Threads that read from SQLite.",
    "store_connections": "Connections to PostgreSQL that read; four more write, and one listens without Redis.",
    "store_wait_s": "Seconds that anything may wait for PostgreSQL: a connection, a lock, an answer.",
    "poll_s": "Seconds between two looks at what other nodes wrote, in case the bus lost it.",
    "keep_days": "Days that events are kept (0: for ever), but for what is younger than ten minutes or still in use.",
    "keep_events": "The newest events that are kept of each board (0: all), and what is young or in use beside them.",
    "trim_s": "Seconds between two looks at what is no longer to be kept.",
    "secret": "Key of the hash that tokens are kept under; made and kept beside the store where it is empty.",
    "worker_notes_per_s": "Quota (429, off in open mode; 0 lifts any of them): notes a second of one worker.",
    "worker_notes_burst": "Quota: notes of one worker at once, after a pause.",
    "board_notes_per_s": "Quota: notes a second of all workers of a board.",
    "board_notes_burst": "Quota: notes of a board at once, after a pause.",
    "worker_detail_bytes_per_s": "Quota: bytes of `detail` a second of one worker.",
    "worker_detail_bytes_burst": "Quota: bytes of `detail` of one worker at once, after a pause.",
    "board_detail_bytes_per_s": "Quota: bytes of `detail` a second of all workers of a board.",
    "board_detail_bytes_burst": "Quota: bytes of `detail` of a board at once, after a pause.",
    "worker_claims": "Quota: claims that one worker holds or waits for.",
    "board_claims": "Quota: claims that are held or wait on a board.",
    "worker_streams": "Quota: open streams of one worker.",
    "board_streams": "Quota: open streams of a board.",
    "worker_waits": "Quota: long polls of one worker that wait.",
    "board_waits": "Quota: long polls of a board that wait.",
    "board_workers": "The most workers that a board remembers, in open mode too; a call under one more name is answered 403.",
    "connections": "The most TCP connections of this process; one more is answered 503 and closed.",
    "request_s": "Seconds in which the head of a request must be there, and in which its body must have begun to flow.",
}


def shown(address: str) -> str:
    """Give an address of a store or bus without what must not be written to a log: user, password and options."""
    scheme, mark, rest = address.partition("://")
    return f"{scheme}{mark}{rest.rpartition('@')[2].partition('?')[0]}" if mark else address


def environment_name(field: str) -> str:
    """Name the environment variable of a setting."""
    return f"BOARD_{field.upper()}"


def read(environ: Mapping[str, str] = os.environ, **flags: Any) -> ServerSettings:  # noqa: ANN401 -- typed by the struct
    """Make the settings from the environment and from flags that are not None. Raises BadSetting."""
    said: dict[str, Any] = {}
    hints = get_type_hints(ServerSettings)
    for name in ServerSettings.__struct_fields__:
        if (text := environ.get(environment_name(name))) is not None:
            said[name] = _parse(name, text, hints[name])
    said |= {name: value for name, value in flags.items() if value is not None}
    try:
        settings = msgspec.convert(said, ServerSettings)
    except msgspec.ValidationError as error:
        raise BadSetting(str(error)) from error
    _check(settings)
    return settings


def _parse(name: str, text: str, hint: Any) -> object:  # noqa: ANN401 -- a type hint
    if get_origin(hint) is tuple:
        return [part.strip() for part in text.split(",") if part.strip()]
    if isinstance(hint, types.UnionType):
        hint = get_args(hint)[0]
    try:
        return hint(text) if hint in (int, float) else text
    except ValueError as error:
        msg = f"{environment_name(name)}={text!r} is not a number"
        raise BadSetting(msg) from error


def _check(settings: ServerSettings) -> None:
    for name in ServerSettings.__struct_fields__:
        value = getattr(settings, name)
        if isinstance(value, (int, float)) and not 0 <= value < math.inf:
            msg = f"{name} {value} is no number of 0 or more"
            raise BadSetting(msg)
    if not 0 <= settings.port <= 65_535:
        msg = f"port {settings.port} is outside of 0 to 65535"
        raise BadSetting(msg)
    kind = settings.store.partition(":")[0]
    if kind not in ("sqlite", "postgresql", "postgres", "memory"):
        msg = f"store {settings.store!r} is none of sqlite:PATH, postgresql://…, memory:"
        raise BadSetting(msg)
    if settings.bus != "local" and settings.bus.partition(":")[0] not in ("redis", "rediss", "unix"):
        msg = f"bus {settings.bus!r} is neither local nor redis://…"
        raise BadSetting(msg)
    if settings.bus != "local" and kind not in ("postgresql", "postgres"):
        msg = f"the store {kind!r} is for one node alone; a bus needs postgresql://…"
        raise BadSetting(msg)


def table() -> str:
    """Give the table of settings for the README."""
    rows = ["| setting | environment | default | meaning |", "|---|---|---|---|"]
    defaults = ServerSettings()
    for name, meaning in DESCRIPTIONS.items():
        value = getattr(defaults, name)
        default = "" if value in (None, (), "") else f"`{value}`"
        rows.append(f"| `{name}` | `{environment_name(name)}` | {default} | {meaning} |")
    return "\n".join(rows)


if __name__ == "__main__":
    print(table())  # noqa: T201 -- a program whose only use is what it prints
