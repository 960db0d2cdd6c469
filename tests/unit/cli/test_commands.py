"""The command line without a server: what it teaches, what it refuses, and how it ends."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import msgspec
import pytest
import typer.main
from typer.testing import CliRunner

from board.cli import app
from board.cli.drafts import draft_of, ref_of, run_of
from schema.notes import Fact, PatchSummary, Ref, Run
from tests.unit.workers.exports import Log

if TYPE_CHECKING:
    from pathlib import Path

runner = CliRunner()

COMMANDS = (
    *("serve", "post", "claim", "release", "check", "read", "tail", "grep", "unfold", "export", "import", "replay"),
    *("report", "migrate", "mcp", "token", "claims", "renew", "boards", "workers", "snapshot", "unread", "ack"),
    *("backup", "restore", "verify"),
)
CLIENT_COMMANDS = (
    *("post", "claim", "release", "check", "read", "tail", "grep", "unfold", "export", "import"),
    *("claims", "renew", "boards", "workers", "snapshot", "unread", "ack"),
)


def run(*arguments: str, stdin: str | None = None, **environ: str) -> tuple[int, str, str]:
    """Run a command in this process."""
    result = runner.invoke(app, list(arguments), input=stdin, env={"COLUMNS": "200", **environ})
    return result.exit_code, result.stdout, result.stderr


def test_every_command_of_the_contract_is_there() -> None:
    """No command is missing, and none has another name."""
    assert set(typer.main.get_command(app).commands) == set(COMMANDS)  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", COMMANDS)
def test_help_teaches(name: str) -> None:
    """Each command's help shows at least one whole example."""
    status, out, _ = run(name, "--help")
    assert status == 0
    assert f"board {name}" in out or name == "token"


@pytest.mark.parametrize("name", CLIENT_COMMANDS)
def test_client_commands_take_the_same_options(name: str) -> None:
    """Which board and who calls is said the same way everywhere, by option or environment."""
    _, out, _ = run(name, "--help")
    for option in ("--url", "--board", "--token", "--worker", "--json"):
        assert option in out
    for variable in ("BOARD_URL", "BOARD_NAME", "BOARD_TOKEN", "BOARD_WORKER"):
        assert variable in out


def test_help_never_shows_a_token() -> None:
    """A token in the environment is not printed as a default."""
    _, out, err = run("read", "--help", BOARD_TOKEN="bt_secret")
    assert "bt_secret" not in out + err


def test_help_imports_neither_client_nor_server() -> None:
    """`board --help` answers without loading what only a running command needs."""
    heavy = ("httpx", "websockets", "litestar", "uvicorn", "mcp", "rich.console", "board.app")
    code = f"import sys, board.cli; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["post", "RUMOUR", "x"], "RUMOUR"),
        (["post", "FACT"], "TEXT"),
        (["post", "FACT", "x", "--claim", "3"], "claim"),
        (["post", "CLAIM", "x"], "scope"),
        (["post", "PATCH_SUMMARY", "x", "-f", "a"], "evidence"),
        (["post", "FACT", "x", "--ref", "12"], "REL:SEQ"),
        (["post", "FACT", "x", "--ref", "praises:12"], "praises"),
        (["post", "FACT", "x", "--run-command", "make"], "--exit-code"),
        (["post", "FACT", "x", "--detail", "/no/such/file"], "/no/such/file"),
        (["claim", "src"], "--message"),
        (["claim", "src", "-m", "x", "--ttl", "soon"], "soon"),
        (["ack"], "--through"),
        (["ack", "1", "--through", "2"], "--through"),
        (["tail", "--after", "1", "--tail", "2"], "exclude"),
        (["import", "x.jsonl", "--from", "delm"], "--from board"),
        (["import", "/no/such/file", "--store", "memory:"], "/no/such/file"),
        (["replay", "x.jsonl", "--speed", "warp"], "warp"),
        (["replay", "x.jsonl", "--speed", "0"], "0"),
        (["report", "/no/such/file"], "/no/such/file"),
        (["serve", "--store", "papyrus:scroll"], "papyrus"),
        (["serve", "--port", "99999"], "99999"),
        (["migrate", "--store", "papyrus:scroll"], "papyrus"),
        (["token", "create", "--role", "king"], "king"),
        (["token", "create", "--role", "admin", "--expires", "3y", "--store", "memory:"], "3y"),
        (["token", "revoke"], "--worker"),
        (["token", "list", "--store", "memory:", "--url", "http://x"], "exclude"),
    ],
)
def test_usage_errors_end_with_2_and_say_why(arguments: list[str], told: str) -> None:
    """What cannot be meant is refused before anything is sent, and named."""
    status, _, err = run(*arguments)
    assert status == 2, err
    assert told in err


@pytest.mark.parametrize(
    "arguments",
    [
        ["read"],
        ["post", "FACT", "x"],
        ["tail"],
        ["export"],
        ["claims"],
        ["token", "list", "--url", "http://127.0.0.1:9"],
    ],
)
def test_a_board_that_is_not_there_ends_with_3(arguments: list[str]) -> None:
    """Without an answer the status is 3, and standard error says what to check."""
    status, out, err = run(*arguments, BOARD_URL="http://127.0.0.1:9")
    assert status == 3
    assert out == ""
    assert err.startswith("unreachable: http://127.0.0.1:9")
    assert "board serve" in err


def test_json_refusals_are_documents() -> None:
    """With --json a refusal is also printed as its problem document."""
    status, out, err = run("claims", "--json", BOARD_URL="http://127.0.0.1:9")
    assert status == 3
    assert msgspec.json.decode(out)["code"] == "unreachable"
    assert err.startswith("unreachable")


def test_json_lines_are_not_mixed_with_refusals() -> None:
    """Where events are printed line by line, a refusal stays on standard error."""
    status, out, _ = run("read", "--json", BOARD_URL="http://127.0.0.1:9")
    assert (status, out) == (3, "")


def test_a_report_is_printed_for_people_and_programs(tmp_path: Path) -> None:
    """The same counts stand in the tables and in the JSON; a file may be packed, or come from standard input."""
    log = Log()
    log.note("FACT", "w1", scope=["src/a.c"])
    file = tmp_path / "log.jsonl"
    file.write_bytes(b"\n".join(log.export()))
    status, out, _ = run("report", str(file))
    assert status == 0
    assert "src/a.c" in out
    status, out, _ = run("report", "-", "--json", stdin=file.read_text())
    assert status == 0
    assert msgspec.json.decode(out)["notes"] == {"FACT": 1}


def test_a_report_of_something_else_is_a_usage_error(tmp_path: Path) -> None:
    """A file that is no export is refused with the line."""
    file = tmp_path / "log.jsonl"
    file.write_text("{}\n")
    status, _, err = run("report", str(file))
    assert status == 2
    assert "line 1" in err


def test_drafts_are_made_of_what_was_typed() -> None:
    """Empty options are left out, and the text of a PATCH_SUMMARY is its idea."""
    fact = draft_of(
        "FACT", "x", {"scope": ["a"], "refs": [ref_of("refutes:3")], "run": run_of("make", 0), "files": None}
    )
    assert fact == Fact(text="x", scope=("a",), refs=(Ref("refutes", 3),), run=Run("make", 0))
    patch = draft_of("PATCH_SUMMARY", "x", {"files": ["a"], "evidence": "ran it", "claim": 7})
    assert patch == PatchSummary(files=("a",), idea="x", evidence="ran it", claim=7)
