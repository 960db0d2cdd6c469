"""The command line and the client against a real server process."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Self

import anyio
import anyio.to_thread
import msgspec
import pytest

from schema.codes import ProblemError
from schema.events import Note
from schema.limits import SettingsDraft
from schema.notes import Fact, Fail, Observed, Ref
from tests.harness.node import ROOT, START_S, Node, run_board
from workers.client import Backoff, BoardClient, Change, Connected, Subscription
from workers.client.answers import conflicts_of, free_of

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio

PATIENT = Backoff(tries=40, base_s=0.05, cap_s=0.5)


async def test_a_note_goes_round(node: Node) -> None:
    """What is posted is read, searched, unfolded and exported as it was, by people and by programs."""
    posted = node.run(
        *("post", "fact", "rows end at a line of dashes", "-s", "./src//tables.c:10-40", "--detail", "-"),
        *("--task", "tables", "--tag", "reader", "--run-command", "make test", "--exit-code", "0", "--worker", "w1"),
        stdin="long\ntext\n",
    )
    assert (posted.status, posted.out) == (0, "1\n"), posted.err
    read = node.run("read", "--json")
    (note,) = read.lines
    assert note["author"] == "w1"
    assert note["scope"] == ["src/tables.c:10-40"]
    assert note["run"] == {"command": "make test", "exit_code": 0}
    assert "rows end at a line of dashes" in node.run("read").out
    assert "rows end" in node.run("grep", "dashes & rows").out
    assert node.run("unfold", "1").out == "long\ntext\n"
    header, exported = node.run("export").lines
    assert header["head"] == 1
    assert exported["detail"] == "long\ntext\n"


async def test_read_shows_the_newest_first_seq_first(node: Node) -> None:
    """Without a position the newest notes are read, with one those that follow it; always in seq order."""
    async with node.client("w1") as board:
        await board.post_batch([Observed(text=f"note {number}") for number in range(1, 8)])
    assert [note["seq"] for note in node.run("read", "--limit", "3", "--json").lines] == [5, 6, 7]
    assert [note["seq"] for note in node.run("read", "--after", "2", "--limit", "3", "--json").lines] == [3, 4, 5]
    assert node.run("read", "--type", "fail", "--json").out == ""


async def test_a_claim_conflict_ends_with_1_and_says_who(node: Node) -> None:
    """A refused claim is status 1, on standard error who holds what and what is free, with --json the document."""
    held = node.run("claim", "src/a.c", "src/b.c", "-m", "mine", "--ttl", "30m", "--worker", "w1", "--json")
    assert held.status == 0
    assert held.json["claim"]["state"] == "held"
    refused = node.run("claim", "src/b.c", "src/c.c", "-m", "mine too", "--worker", "w2", "--json")
    assert refused.status == 1
    assert refused.json["code"] == "claim_conflict"
    for part in ("claim_conflict", "w1", "src/b.c", "free: src/c.c"):
        assert part in refused.err
    assert node.run("check", "src/b.c", "--worker", "w2").status == 1
    assert node.run("check", "src/c.c", "--worker", "w2").status == 0
    assert "src/a.c src/b.c" in node.run("claims").out
    for _ in range(2):
        assert node.run("release", str(held.json["seq"]), "--worker", "w1").status == 0
    assert node.run("check", "src/b.c", "--worker", "w2").status == 0
    assert "no claims" in node.run("claims").out


@pytest.mark.parametrize(
    ("arguments", "status", "code"),
    [
        (["post", "FACT", "x" * 401], 1, "over_limit"),
        (["unfold", "9"], 1, "note_not_found"),
        (["read", "--board", "nowhere"], 1, "board_not_found"),
        (["read", "--type", "RUMOUR"], 2, "invalid_parameter"),
        (["release", "9"], 1, "claim_not_found"),
        (["claim", "../../etc/passwd", "-m", "x"], 1, "bad_target"),
        (["post", "FACT", "x", "--to", "nobody"], 1, "unknown_recipient"),
    ],
)
async def test_a_refusal_ends_with_the_status_of_its_code(
    node: Node, arguments: list[str], status: int, code: str
) -> None:
    """Every refusal names its code and ends as the code table says."""
    ended = node.run(*arguments, "--worker", "w1")
    assert ended.status == status
    assert ended.err.startswith(f"{code}: ")
    assert ended.out == ""


def files_in(folder: Path) -> list[Path]:
    """Give the files of a folder."""
    return list(folder.iterdir())


def written(file: Path, lines: list[str]) -> Path:
    """Write a file of lines."""
    file.write_text("\n".join(lines))
    return file


async def test_what_is_unread_is_shown_until_it_is_acknowledged(node: Node) -> None:
    """Reading acknowledges nothing; what was acknowledged is not shown again."""
    async with node.client("w1") as board:
        await board.board()
        await board.acting_as("w2").post(Fail(text="x [src] y", to=("w1",)))
        unread = await board.unread()
        assert [note.seq for note in unread.notes] == [1]
        assert (unread.urgent, unread.omitted.total) == (1, 0)
        for _ in range(2):
            assert "x [src] y" in node.run("unread", "--worker", "w1").out
        assert node.run("ack", "1", "--worker", "w1").status == 0
        assert node.run("unread", "--worker", "w1").out.strip() == ""
        assert (await board.unread()).notes == ()


async def test_a_snapshot_is_printed_as_it_is(node: Node) -> None:
    """The view for a prompt is what the board answers, brackets and all; with --json it is a document."""
    node.run("post", "FACT", "rows end", "-s", "src/a.c", "--worker", "w1")
    async with node.client("w1") as board:
        assert node.run("snapshot", "--worker", "w1").out == await board.snapshot()
        assert "[src/a.c]" in await board.snapshot()
        assert (await board.snapshot_document(budget_tokens=500))["board"] == "main"
    assert node.run("snapshot", "--json").json["board"] == "main"


async def test_a_wait_ends_with_the_first_event(node: Node) -> None:
    """A long poll answers as soon as something matches, and with an empty page when nothing does."""
    async with node.client("w1") as board:
        await board.post(Fact(text="one"))
        page = await board.wait(after=0, types=["FACT"])
        assert [event.seq for event in page.events] == [1]
        assert (await board.wait(after=1, timeout_s=0)).events == ()


class Tail:
    """A `board tail` that runs beside the test; its output is read line by line."""

    def __init__(self, node: Node, *arguments: str) -> None:
        command = [sys.executable, "-m", "board", "tail", "--json", "--url", node.url, *arguments]
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )

    async def line(self) -> dict[str, Any]:
        """Wait for the next event."""
        assert self._process.stdout is not None
        with anyio.fail_after(START_S):
            line = await anyio.to_thread.run_sync(self._process.stdout.readline, abandon_on_cancel=True)
        return msgspec.json.decode(line)

    async def interrupt(self) -> tuple[int, str]:
        """Press Ctrl-C; give the exit status and what was said on standard error."""
        self._process.send_signal(signal.SIGINT)
        _, err = await anyio.to_thread.run_sync(lambda: self._process.communicate(timeout=START_S))
        return self._process.returncode, err.decode()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()


async def test_tail_survives_a_killed_server(node: Node) -> None:
    """A tail goes on without a hole or a double when the server was killed and started again, and says so."""
    async with node.client("w1", backoff=PATIENT) as board:
        await board.post(Observed(text="one"))
        with Tail(node, "--after", "0") as tail:
            assert (await tail.line())["text"] == "one"
            await node.kill9()
            await node.restart()
            await board.post(Observed(text="two"))
            assert (await tail.line())["seq"] == 2
            status, err = await tail.interrupt()
    assert status == 0
    assert "lost the board" in err
    assert "connected again, going on after 1" in err


async def test_tail_filters(node: Node) -> None:
    """A filtered tail shows only what matches."""
    async with node.client("w1") as board:
        await board.post_batch([Observed(text="no"), Fail(text="yes", scope=("src/a.c",)), Fail(text="elsewhere")])
        with Tail(node, "--after", "0", "--type", "fail", "--scope", "src") as tail:
            assert (await tail.line())["text"] == "yes"
            await board.post(Fail(text="later", scope=("src/b.c",)))
            assert (await tail.line())["text"] == "later"
            assert (await tail.interrupt())[0] == 0


async def test_an_export_restores_the_same_board(node: Node, tmp_path: Path) -> None:
    """An export read into a store, or into another board over HTTP, has the same events and folds to the same state."""
    async with node.client("w1") as board:
        await board.post(Fact(text="one", detail="long", key="k"))
        await board.claim(["src"], "mine")
        state = (await board.board()).state_hash
        assert node.run("boards", "--create", "copy").status == 0
    file = tmp_path / "main.jsonl"
    assert node.run("export", "-o", str(file)).status == 0
    assert [path.name for path in files_in(tmp_path) if path.suffix == ".part"] == []

    imported = node.run("import", str(file), "--board", "copy", "--json")
    assert imported.json == {"head": 2, "state_hash": state}
    assert node.run("export", "--board", "copy").lines[1:] == node.run("export").lines[1:]
    again = node.run("import", str(file), "--board", "copy")
    assert again.status == 1
    assert again.err.startswith("board_exists: ")

    store = f"sqlite:{tmp_path / 'restored.db'}"
    restored = run_board("import", str(file), "--store", store, "--json")
    assert restored.json == {"head": 2, "state_hash": state}, restored.err
    assert run_board("import", str(file), "--store", store).status == 1
    async with Node(tmp_path, name="restored", store=store) as other, other.client("w1") as board:
        assert (await board.board()).state_hash == state
        assert (await board.post(Fact(text="one", detail="long", key="k"))).seq == 1


async def test_a_cut_export_is_not_restored(node: Node, tmp_path: Path) -> None:
    """An export that ends too early stores nothing."""
    node.run("post", "FACT", "one")
    file = written(tmp_path / "cut.jsonl", node.run("export").out.splitlines()[:1])
    refused = run_board("import", str(file), "--store", "memory:")
    assert refused.status == 2
    assert refused.err.startswith("invalid_field: ")


async def test_replay_and_report(node: Node, tmp_path: Path) -> None:
    """A trace is replayed by its authors, and the report of the board counts what became of it."""
    events = [
        {"event": "created", "by": "a1", "title": "Move it. " + "x" * 500},
        {"event": "claimed", "by": "a1"},
        {"event": "claimed", "by": "a2"},
        {"event": "closed", "by": "a1", "reason": "moved"},
        {"event": "danced", "by": "a1"},
    ]
    lines = [msgspec.json.encode({"t": 100.0 + at, "issue": "bd-1", **event}) for at, event in enumerate(events)]
    trace = written(tmp_path / "trace.jsonl", [line.decode() for line in lines])
    # One second of the trace is a tenth here: enough to keep authors from overtaking each other.
    played = node.run("replay", str(trace), "--speed", "10", "--json")
    assert played.status == 0, played.err
    tally = played.json
    assert tally["posted"] == {"OBSERVED": 1, "CLAIM": 1, "FACT": 1}
    assert tally["refused"] == {"claim_conflict": 1}
    assert tally["done"] == {"release": 1}
    assert tally["left_out"] == {"event 'danced' has no reading": 1}
    assert tally["shortened"] == 1
    assert node.run("unfold", "1").out == "Move it. " + "x" * 500

    report = node.run("report", "-", "--json", stdin=node.run("export").out).json
    assert report["notes"] == {"CLAIM": 1, "FACT": 1, "OBSERVED": 1}
    assert report["averted"] == {"a2": 1}
    assert report["claims"]["outcomes"] == {"done": 1}
    copied = node.run("boards", "--create", "copy")
    assert copied.status == 0, copied.err
    export = tmp_path / "main.jsonl"
    node.run("export", "-o", str(export))
    again = node.run("replay", str(export), "--board", "copy", "--json").json
    assert again["posted"] == {"OBSERVED": 1, "CLAIM": 1, "FACT": 1}


async def test_tokens_on_a_store_and_on_a_board(node: Node) -> None:
    """A token made on the store opens the board at once; an admin makes and revokes more over HTTP."""
    store = {"BOARD_STORE": node.store}
    made = run_board("token", "create", "--role", "admin", "--json", environ=store).json
    admin = {"BOARD_TOKEN": made["token"]}
    async with node.client() as board, node.client(token=made["token"]) as mine:
        with anyio.fail_after(START_S):
            while not await _refused(board):
                pass
        assert (await mine.boards()).boards[0].board == "main"
    worker = node.run(
        "token", "create", "--role", "worker", "--worker", "w7", "--expires", "30d", "--json", environ=admin
    )
    assert worker.json["worker"] == "w7"
    assert worker.json["expires_at"]
    assert node.run("post", "FACT", "x", environ={"BOARD_TOKEN": worker.json["token"]}).status == 0
    listed = node.run("token", "list", environ=admin)
    assert made["id"] in listed.out
    assert made["token"] not in listed.out + listed.err
    assert node.run("token", "revoke", "--worker", "w7", environ=admin).out.strip() == worker.json["id"]
    refused = node.run("post", "FACT", "x", environ={"BOARD_TOKEN": worker.json["token"]})
    assert refused.status == 1
    assert refused.err.startswith("unauthorized: ")


async def _refused(board: BoardClient) -> bool:
    try:
        await board.board()
    except ProblemError as error:
        assert error.problem.code == "unauthorized"  # noqa: PT017 -- the other outcome is no failure yet
        return True
    return False


def test_a_store_that_is_not_there_is_not_made_by_mistake(tmp_path: Path) -> None:
    """Without a word about where, the token commands refuse rather than make a store in the wrong place."""
    done = subprocess.run(
        [sys.executable, "-m", "board", "token", "list"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=START_S,
        check=False,
    )
    assert done.returncode == 2
    assert "--store" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_migrate_says_the_version(tmp_path: Path) -> None:
    """A store is made and brought to this version, and the version is told."""
    done = run_board("migrate", "--store", f"sqlite:{tmp_path / 'board.db'}")
    assert done.status == 0
    assert done.out.startswith("sqlite store at version ")


def test_serve_without_a_token_refuses_another_address(tmp_path: Path) -> None:
    """Open mode is for loopback alone: another address without a token is status 2."""
    done = run_board("serve", "--host", "0.0.0.0", "--port", "0", "--store", f"sqlite:{tmp_path / 'board.db'}")
    assert done.status == 2


async def test_terminated_means_done(node: Node) -> None:
    """A server that is told to stop ends with 0."""
    assert await node.terminate() == 0


# The client library


async def test_the_client_survives_a_killed_server(node: Node) -> None:
    """A note that is posted while the server is away arrives exactly once when it is back."""
    async with node.client("w1", backoff=PATIENT) as board:
        await board.post(Observed(text="before"))
        await node.kill9()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(board.post, Observed(text="meanwhile"))
            await node.restart()
        texts = [note.text async for note in board.each_note()]
    assert texts == ["before", "meanwhile"]


async def test_a_subscription_resumes_over_a_restart(node: Node) -> None:
    """Events before, during and after a restart come once each and in order, with the lost connection told."""
    changes: list[Change] = []
    async with node.client("w1", backoff=PATIENT) as board:
        await board.post(Observed(text="1"))
        async with board.subscribe(after=0, backoff=PATIENT, on_change=changes.append) as stream:
            assert (await anext(stream)).seq == 1
            await node.terminate()
            await node.restart()
            await board.post_batch([Observed(text="2"), Observed(text="3")])
            with anyio.fail_after(START_S):
                assert [(await anext(stream)).seq for _ in range(2)] == [2, 3]
            posted = await stream.post(Fact(text="4"))
            with anyio.fail_after(START_S):
                assert (await anext(stream)).seq == posted.seq == 4
            assert (await stream.ack(through=4)).through == 4
    assert [change.again for change in changes if isinstance(change, Connected)] == [False, True]


async def test_a_subscription_from_the_future_is_refused(node: Node) -> None:
    """A position that the log has not reached, and an epoch that is not its, say: start from a snapshot."""
    async with node.client("w1") as board:
        for begin, code in (({"after": 99}, "position_from_future"), ({"after": 0, "epoch": "old"}, "wrong_epoch")):
            with pytest.raises(ProblemError) as refused:
                async with board.subscribe(**begin):
                    pass
            assert refused.value.problem.code == code


async def test_a_slow_reader_gets_every_event_once(node: Node) -> None:
    """A reader with little room that posts for each event it handles still gets all of them, in order."""
    count = 300
    async with node.client("w1") as board, board.subscribe(after=0) as warm:
        await warm.post(Observed(text="first"))
        await board.post_batch([Observed(text=f"{number}") for number in range(count)])
        seqs: list[int] = []
        async with Subscription(board.url, "main", board.caller, after=0, inbox=8, backoff=PATIENT) as slow:
            with anyio.fail_after(START_S):
                while len(seqs) < count:
                    event = await anext(slow)
                    seqs.append(event.seq)
                    await slow.ack([event.seq])
    assert seqs == list(range(1, count + 1))


async def test_the_filter_of_a_stream_can_be_replaced(node: Node) -> None:
    """From the next event on only what matches the new filter comes."""
    async with node.client("w1") as board, board.subscribe(after=0) as stream:
        await stream.filter(types=["FAIL"])
        await board.post_batch([Fact(text="no"), Fail(text="yes")])
        with anyio.fail_after(START_S):
            event = await anext(stream)
    assert isinstance(event, Note)
    assert event.text == "yes"


async def test_every_call_of_the_client_is_understood(node: Node) -> None:
    """The server answers each call with what the client expects of it."""
    async with node.client("w1") as board:
        posted = await board.post(Fact(text="rows end", scope=("src/a.c",), detail="long"))
        assert (await board.note(1)).text == "rows end"
        assert await board.detail(1) == "long"
        assert (await board.notes(types=["FACT"], scope=["src"])).notes[0].seq == 1
        assert (await board.search("rows")).notes[0].seq == 1
        again = await board.post(Fact(text="rows end", scope=("src/a.c",), detail="long"))
        assert again.duplicate
        assert again.seq == posted.seq
        claim = await board.claim(["src/a.c", "src/b.c"], "mine", ttl_s=60)
        assert claim.claim is not None
        assert claim.claim.state == "held"
        assert [note.seq for note in claim.related] == [1]
        other = board.acting_as("w2")
        with pytest.raises(ProblemError) as refused:
            await other.claim(["src/b.c", "src/c.c"], "too")
        assert [conflict.holder for conflict in conflicts_of(refused.value.problem)] == ["w1"]
        assert free_of(refused.value.problem) == ("src/c.c",)
        assert (await other.check(["src/b.c"])).conflicts[0].claim == claim.seq
        contested = await other.claim(["src/b.c"], "beside", on_conflict="contest")
        assert (await board.conflicts()).conflicts[0].holders == ("w1", "w2")
        assert (await board.renew(claim.seq, ttl_s=120)).expires_at > claim.claim.expires_at
        assert (await board.narrow(claim.seq, ["src/a.c"])).scope == ("src/a.c",)
        assert (await board.conflicts(state="closed")).conflicts[0].how == "narrowed"
        assert (await board.transfer(claim.seq, "w2")).holder == "w2"
        assert {view.claim for view in (await board.claims(holder="w2")).claims} == {claim.seq, contested.seq}
        await other.release(contested.seq, outcome="abandoned")
        assert (await board.claims(state="ended")).claims[0].outcome == "abandoned"
        await board.post(Fail(text="not so", refs=(Ref("refutes", 1),)))
        await board.retract(1, "refuted")
        kinds = [type(event).__name__ async for event in board.each_event(limit=3)]
        assert kinds[0] == "Note"
        assert kinds[-1] == "NoteRetracted"
        assert (await board.events(after=2, limit=2)).next == 4
        assert (await board.ack([1])).seqs == (1,)
        await board.register("/srv/wt-17")
        assert {view.worker for view in (await board.workers()).workers} >= {"w1", "w2"}
        assert (await board.boards()).boards[0].board == "main"
        made = await board.create_board("team-a", SettingsDraft(profile="agensh"))
        assert made.settings["text_chars"] == 100
        assert (await board.ticket()).ticket
        async with board.export(after=1) as lines:
            assert len([line async for line in lines]) == (await board.board()).head
