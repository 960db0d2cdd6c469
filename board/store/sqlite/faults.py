"""The one place where SQLite's errors become the contract's."""

from __future__ import annotations

import errno
from typing import Final

import apsw

from board.store.contract import StoreDamaged, StoreFull, StoreUnavailable

_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM})
"""What the system says when a file may not grow or be written. SQLite itself only knows ENOSPC."""

_FULL: Final = (apsw.FullError, apsw.ReadOnlyError, apsw.PermissionsError)
_DAMAGED: Final = (apsw.CorruptError, apsw.NotADBError)


def translated(error: apsw.Error, system_errno: int = 0) -> StoreUnavailable | AssertionError:
    """Give the contract's error for SQLite's; `system_errno` is the connection's, from just after the error.

    A constraint that fails is no failure of the store but of its caller.
    """
    if isinstance(error, apsw.ConstraintError):
        return AssertionError(str(error))
    if isinstance(error, _DAMAGED):
        return StoreDamaged(
            f"the file is damaged ({error}): run `board verify`, and put a backup back with `board restore`"
        )
    if isinstance(error, _FULL) or (isinstance(error, apsw.IOError) and system_errno in _NO_ROOM):
        return StoreFull(str(error))
    return StoreUnavailable(str(error))
