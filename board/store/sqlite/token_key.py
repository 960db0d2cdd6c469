"""The key that tokens are hashed under: a file beside the log that only its owner may read.

Not in the log's own file: a copy of that, a backup in the wrong hands, then tells of a token neither what it is nor
whether a guess is right. The file is made whole under another name and then linked, so that of two processes which
make it at once both end up with the same key, and none reads half of one.
"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Final

from board.store.contract import StoreDamaged, StoreUnavailable

KEY_BYTES: Final = 32


def beside(path: str) -> Path:
    """Name the file of the key of a log's file."""
    return Path(f"{path}.key")


def read_key(path: str, *, make: bool) -> bytes | None:
    """Give the key, made where there is none and `make` says so; None where there is none and it does not."""
    try:
        return _read(beside(path)) or (_make(beside(path)) if make else None)
    except OSError as error:
        msg = f"the key of the tokens cannot be read or made: {error}"
        raise StoreUnavailable(msg) from error


def keep_key(path: str, key: bytes) -> None:
    """Keep a given key beside a log's file, unless one is there. Raises OSError."""
    fresh = beside(path).with_name(f".{beside(path).name}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(key.hex() + "\n")
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(fresh, beside(path))
    finally:
        fresh.unlink(missing_ok=True)


def _make(file: Path) -> bytes:
    keep_key(str(file).removesuffix(".key"), secrets.token_bytes(KEY_BYTES))
    key = _read(file)
    assert key is not None
    return key


def _read(file: Path) -> bytes | None:
    try:
        text = file.read_text("ascii")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        text = ""
    with suppress(ValueError):
        if len(key := bytes.fromhex(text)) == KEY_BYTES:
            return key
    msg = f"{file} holds no key of {KEY_BYTES} bytes in hexadecimal digits"
    raise StoreDamaged(msg)
