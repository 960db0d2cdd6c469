"""Feeds one target with what atheris finds: `python -m tests.fuzz.run TARGET [libFuzzer's own options]`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["board", "schema"]):
    from tests.fuzz.targets import SEEDS, TARGETS


def main() -> None:
    """Fuzz until the options say that it is enough; the exit status is not 0 where a target failed."""
    name, *options = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        for number, seed in enumerate(SEEDS):
            (Path(folder) / f"seed-{number}").write_bytes(seed)
        atheris.Setup([sys.argv[0], *options, folder], TARGETS[name])
        atheris.Fuzz()


if __name__ == "__main__":
    main()
