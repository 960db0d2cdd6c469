"""The subscriber in C, compiled on its first use."""

from __future__ import annotations

import os
import shutil
import subprocess
from hashlib import blake2b
from pathlib import Path
from typing import Final

SOURCE: Final = Path(__file__).parent / "reader.c"


def reader_binary() -> Path | None:
    """Give the compiled subscriber, or None where there is no C compiler. Kept in the user's cache, by its source."""
    digest = blake2b(SOURCE.read_bytes(), digest_size=8).hexdigest()
    binary = _cache() / f"reader-{digest}"
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if binary.exists() or compiler is None:
        return binary if binary.exists() else None
    binary.parent.mkdir(parents=True, exist_ok=True)
    # Under a name of its own first: another run may be compiling, and must find all of it or nothing.
    fresh = binary.with_name(f"{binary.name}.{os.getpid()}")
    subprocess.run([compiler, "-O2", "-std=gnu11", "-o", fresh, SOURCE], check=True)
    fresh.rename(binary)
    return binary


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "shared-context-board"
