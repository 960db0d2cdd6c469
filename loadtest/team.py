"""Run `locustfile.py` against a server: a team of 1,024, with CSV and HTML of what it met."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import msgspec

from loadtest.processes import HOST, environment

LOCUSTFILE: Final = Path(__file__).parent / "locustfile.py"


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """How large the team is, how fast it comes, and how long it stays before and after the storm."""

    users: int
    ramp_s: float
    hold_s: float
    pace_s: float


def run(port: int, plan: Plan, out: Path) -> int:
    """Let the team work; files `team*.csv` and `team.html` are written into `out`. Gives 0 when no promise broke."""
    out.mkdir(parents=True, exist_ok=True)
    options = {
        "-f": LOCUSTFILE,
        "-u": plan.users,
        "--host": f"http://{HOST}:{port}",
        "--csv": out / "team",
        "--html": out / "team.html",
        "--ramp-s": plan.ramp_s,
        "--hold-s": plan.hold_s,
        "--pace-s": plan.pace_s,
    }
    words = ["--headless", "--only-summary", *(str(word) for option in options.items() for word in option)]
    return subprocess.run([sys.executable, "-m", "locust", *words], env=environment({}), check=False).returncode
