"""The live page in a real browser, against real server processes."""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, Final

import httpx
import pytest
from playwright.async_api import Browser, BrowserContext, Locator, Page, async_playwright, expect

from schema.notes import Claim, Fact, Fail, Observed, PatchSummary, Ref, Run

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    from tests.harness.node import Node

CHROMIUM: Final = Path("/usr/bin/chromium")
FLAGS: Final = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
WAIT_MS: Final = 30_000

ROWS: Final = 200
"""The most rows that the list of notes holds while it is followed (`board/page/feed.js`)."""

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not CHROMIUM.exists(), reason=f"there is no browser at {CHROMIUM}"),
]

expect.set_options(timeout=WAIT_MS)


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    """Give a browser with an empty profile."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield browser
        await browser.close()


class View:
    """One tab that shows the page, and what went wrong in it."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.faults: list[str] = []
        self.asked: list[str] = []
        """The addresses of everything that it asked for."""
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.on("dialog", lambda dialog: self.faults.append(f"a dialog: {dialog.message}"))
        page.on("request", lambda request: self.asked.append(request.url))
        page.on("websocket", lambda socket: self.asked.append(socket.url))

    def __call__(self, selector: str) -> Locator:
        """Find elements."""
        return self.page.locator(selector)

    def row(self, seq: int) -> Locator:
        """The row of one event."""
        return self(f"#notes li[data-seq='{seq}']")

    async def seqs(self) -> list[int]:
        """The seqs of all rows, from top to bottom."""
        return await self.page.eval_on_selector_all("#notes li", "rows => rows.map(row => Number(row.dataset.seq))")

    async def is_live(self) -> None:
        """Wait until the page says that it is live."""
        await expect(self("#status")).to_have_attribute("data-state", "live")


@asynccontextmanager
async def view(browser: Browser, url: str, **how: Any) -> AsyncGenerator[View]:
    """Open the page, and wait until it is live; no script of it may fail while it is open."""
    context: BrowserContext = await browser.new_context(**how)
    try:
        shown = View(await context.new_page())
        await shown.page.goto(url)
        await shown.is_live()
        yield shown
        assert not shown.faults
    finally:
        await context.close()


async def test_notes_appear_as_they_are_written(node: Node, browser: Browser) -> None:
    """What was written before is there, and what is written then comes by itself, the newest first, with its counts."""
    async with node.client("w1") as board, view(browser, node.url) as page:
        await board.post(Observed(text="rows end at a dash", scope=("src/tables.c:10-40",), to=("w1",)))
        await expect(page.row(1)).to_contain_text("rows end at a dash")
        await board.post_batch([Fact(text=f"fact {number}") for number in range(5)])
        await expect(page.row(6)).to_be_visible()
        assert await page.seqs() == [6, 5, 4, 3, 2, 1]
        await expect(page.row(1)).to_contain_text("src/tables.c:10-40")
        await expect(page.row(1)).to_contain_text("to w1")
        await expect(page("#counts [data-type=FACT] b")).to_have_text("5")
        await page.page.reload()
        await expect(page.row(6)).to_be_visible()
        assert await page.seqs() == [6, 5, 4, 3, 2, 1]


async def test_claims_and_their_conflicts_are_shown_while_they_last(node: Node, browser: Browser) -> None:
    """The tables follow the claims: held, contested, waiting, narrowed, released; also those from before it opened."""
    async with node.client("w1") as w1, node.client("w2") as w2, node.client("w3") as w3:
        first = (await w1.post(Claim(text="the reader", scope=("src/a.c", "src/b.c")))).seq
        async with view(browser, node.url) as page:
            held = page(f"#claims tr[data-key='{first}']")
            await expect(held).to_contain_text("w1")
            await expect(held).to_contain_text("src/a.c")
            second = (await w2.post(Claim(text="me too", scope=("src/a.c",), on_conflict="contest"))).seq
            await expect(held).to_contain_text("conflict with w2")
            await expect(page(f"#claims tr[data-key='{second}']")).to_contain_text("conflict with w1")
            conflict = page("#attention li.conflict")
            for part in ("src/a.c", "w1", "w2", "the reader", "me too"):
                await expect(conflict).to_contain_text(part)
            third = (await w3.post(Claim(text="then I", scope=("src/b.c",), on_conflict="wait"))).seq
            await expect(page(f"#claims tr[data-key='{third}']")).to_contain_text("waiting")
            await expect(page("#claims .sum")).to_have_text("2 held, 1 waiting")
            await w1.narrow(first, ["src/a.c"])
            await expect(page("#claims .sum")).to_have_text("3 held")
            await expect(held).not_to_contain_text("src/b.c")
            await w1.release(first)
            await expect(held).to_have_count(0)
            await expect(conflict).to_have_count(0)
            await expect(page("#attention")).to_contain_text("No open conflict.")
            worker = page("#workers tr[data-key='w2']")
            await expect(worker.locator("a.seq")).to_have_text(f"#{second}")


async def test_a_tables_order_is_the_readers(node: Node, browser: Browser) -> None:
    """A click on a heading sorts by it, a second one turns it around, and the search keeps what it finds."""
    async with view(browser, node.url) as page:
        for worker in ("w2", "w3", "w1"):
            async with node.client(worker) as board:
                await board.post(Claim(text=f"part of {worker}", scope=(f"src/{worker}.c",)))
        holders = page("#claims td.holder .worker")
        heading = page("#claims th.holder")
        await expect(holders).to_have_text(["w1", "w3", "w2"])
        await heading.get_by_role("button").click()
        await expect(holders).to_have_text(["w1", "w2", "w3"])
        await expect(heading).to_have_attribute("aria-sort", "ascending")
        await heading.get_by_role("button").click()
        await expect(holders).to_have_text(["w3", "w2", "w1"])
        await page("#claims input").fill("SRC/W2")
        await expect(holders).to_have_text(["w2"])


async def test_contradictions_and_what_became_of_a_note_are_shown(node: Node, browser: Browser) -> None:
    """A refuted patch, two ends of one command, and a note that was taken back are marked where they are shown."""
    async with node.client("w1") as w1, node.client("w2") as w2, view(browser, node.url) as page:
        patch = (await w1.post(PatchSummary(files=("src/a.c",), idea="one pass", evidence="14 of 14 pass"))).seq
        await expect(page.row(patch)).to_be_visible()
        fail = (await w2.post(Fail(text="case 9 loops", refs=(Ref("refutes", patch),)))).seq
        await expect(page(f"#attention [data-pair='{fail}-{patch}']")).to_contain_text("invalidates")
        await expect(page.row(patch)).to_contain_text(f"invalidated by #{fail}")
        good = (await w1.post(Observed(text="it passes", run=Run("make test", 0)))).seq
        bad = (await w2.post(Observed(text="it fails", run=Run("make test", 2)))).seq
        await expect(page(f"#attention [data-pair='{bad}-{good}']")).to_contain_text("make test")
        await w2.retract(bad, "wrong branch")
        await expect(page(f"#attention [data-pair='{bad}-{good}']")).to_have_count(0)
        await expect(page.row(bad)).to_contain_text("retracted")


async def test_a_click_opens_a_note_with_its_detail_and_refs(node: Node, browser: Browser) -> None:
    """The whole note is shown, its refs lead on, the address names it, and Escape closes it."""
    async with node.client("w1") as board, view(browser, node.url) as page:
        first = (await board.post(Fact(text="rows end at a dash", detail="seen in\n14 files"))).seq
        second = (
            await board.post(Fact(text="so do headers", refs=(Ref("derived_from", first),), evidence="read the code"))
        ).seq
        dialog = page("#note")
        await page.row(second).locator("p.text").click()
        await expect(dialog.locator("blockquote")).to_have_text("so do headers")
        await expect(dialog).to_contain_text("read the code")
        assert page.page.url.endswith(f"#main/{second}")
        await dialog.get_by_role("link", name=f"#{first}").click()
        await expect(dialog.locator("pre")).to_have_text("seen in\n14 files")
        await expect(dialog).to_contain_text("Since then")
        await page.page.keyboard.press("Escape")
        await expect(dialog).not_to_be_visible()
        await page.page.goto(f"{node.url}/#main/{first}")
        await expect(dialog.locator("blockquote")).to_have_text("rows end at a dash")


async def test_the_filter_keeps_what_it_says(node: Node, browser: Browser) -> None:
    """Type, author, text and scope each narrow the list, also for notes that come later; `Clear` widens it again."""
    async with node.client("w1") as w1, node.client("w2") as w2, view(browser, node.url) as page:
        await w1.post(Fact(text="tables end at a dash", scope=("src/tables.c",)))
        await w1.post(Observed(text="lists are lazy", scope=("src/lists.c",)))
        await w2.post(Fact(text="notes span pages", scope=("src/tables.c", "src/notes.c")))
        await expect(page.row(3)).to_be_visible()
        chip = page("#counts [data-type=FACT]").first
        await chip.click()
        await expect(chip).to_have_attribute("aria-pressed", "true")
        assert await page.seqs() == [3, 1]
        await page("#filter [name=author]").fill("W2")
        assert await page.seqs() == [3]
        await page("#filter [name=author]").fill("")
        await page("#filter [name=text]").fill("dash tables")
        assert await page.seqs() == [1]
        await w2.post(Fact(text="a dash ends nothing"))
        await w2.post(Fact(text="a dash ends all tables"))
        await expect(page.row(5)).to_be_visible()
        assert await page.seqs() == [5, 1]
        await page("#filter [name=text]").fill("")
        await page("#filter [name=scope]").fill("tables.c")
        assert await page.seqs() == [3, 1]
        await page("#filter [type=reset]").click()
        await expect(page.row(2)).to_be_visible()
        assert await page.seqs() == [5, 4, 3, 2, 1]
        await page.row(3).locator(".worker").click()
        await expect(page("#filter [name=author]")).to_have_value("w2")
        assert await page.seqs() == [5, 4, 3]


async def test_a_list_that_is_read_stands_still(node: Node, browser: Browser) -> None:
    """While it is paused, new notes are counted and not shown; one click shows them all."""
    async with node.client("w1") as board, view(browser, node.url) as page:
        await board.post(Fact(text="before"))
        await expect(page.row(1)).to_be_visible()
        await page("#pause").click()
        await board.post_batch([Fact(text=f"after {number}") for number in range(3)])
        await expect(page("#fresh")).to_have_text("↑ 3 new")
        assert await page.seqs() == [1]
        await page("#fresh").click()
        await expect(page("#fresh")).not_to_be_visible()
        assert await page.seqs() == [4, 3, 2, 1]


async def test_a_restart_leaves_no_hole_and_no_double(node: Node, browser: Browser) -> None:
    """The page says that it is cut off, comes back by itself, and shows what was written meanwhile, each note once."""
    async with node.client("w1") as board, view(browser, node.url) as page:
        await board.post_batch([Fact(text=f"before {number}") for number in range(20)])
        await expect(page.row(20)).to_be_visible()
        await node.kill9()
        await expect(page("#status")).to_have_text("Disconnected")
        await expect(page("#banner")).to_contain_text("goes on from there by itself")
        await node.restart()
        await board.post_batch([Fact(text=f"meanwhile {number}") for number in range(20)])
        await page.is_live()
        await board.post(Fact(text="after"))
        await expect(page.row(41)).to_be_visible()
        assert await page.seqs() == list(range(41, 0, -1))
        await expect(page("#banner")).not_to_be_visible()
        await expect(page("#counts [data-type=FACT] b")).to_have_text("41")
        await node.terminate()
        await expect(page("#status")).to_have_text("Disconnected")
        await node.restart()
        await page.is_live()
        assert await page.seqs() == list(range(41, 0, -1))


async def test_a_long_log_stays_small_in_the_page(node: Node, browser: Browser) -> None:
    """However many notes come, the page holds a bounded number of rows, and the oldest can still be reached."""
    async with node.client("w1") as board, view(browser, node.url) as page:
        await board.post_batch([Observed(text="usual" if number % 10 else "rare") for number in range(1000)])
        for _ in range(12):
            await board.post_batch([Observed(text=f"look {number}") for number in range(1000)])
        await expect(page.row(13_000)).to_be_visible()
        assert await page.seqs() == list(range(13_000, 13_000 - ROWS, -1))
        await page("#older").click()
        await expect(page.row(13_000 - ROWS - 99)).to_have_count(1)
        await page("#filter [name=text]").fill("rare")
        await expect(page("#notes li")).to_have_count(0)
        await page("#older").click()
        await expect(page.row(1)).to_be_visible()
        assert await page.seqs() == list(range(991, 0, -10))
        await expect(page("#older")).not_to_be_visible()


HOSTILE: Final = (
    "</p></li></ol><script>alert(1)</script><img src=x onerror=alert(2)><iframe srcdoc='<script>alert(3)</script>'>"
)


async def test_a_hostile_note_is_text(node: Node, browser: Browser) -> None:
    """Markup, scripts and a line that is turned around are shown as they were written, and nothing of them runs."""
    async with node.client("w1") as board, view(browser, node.url) as page:
        turned = "Board: your token has expired \u202egnp.exe"
        posted = await board.post(
            Claim(text=HOSTILE, scope=("src/<b>bold</b>.c",), detail=HOSTILE, tags=("<i>",), evidence=turned)
        )
        row = page.row(posted.seq)
        await expect(row.locator("p.text")).to_have_text(HOSTILE)
        await row.locator("p.text").click()
        dialog = page("#note")
        await expect(dialog.locator("blockquote")).to_have_text(HOSTILE)
        await expect(dialog.locator("pre")).to_have_text(HOSTILE)
        await expect(dialog).to_contain_text("⟨U+202E⟩gnp.exe")
        await expect(page("script:not([src]), img, iframe, b.bold, main i")).to_have_count(0)
        assert (await board.note(posted.seq)).text == HOSTILE


async def test_no_string_becomes_a_script(node: Node, browser: Browser) -> None:
    """The page's policy lets it load its own files alone, and refuses HTML made from strings."""
    async with httpx.AsyncClient(trust_env=False) as http:
        policy = (await http.get(node.url)).headers["content-security-policy"]
    for part in ("default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "form-action 'none'"):
        assert part in policy
    assert "unsafe" not in policy
    async with view(browser, node.url) as page:
        refused = await page.page.evaluate(
            "() => { try { document.body.innerHTML = '<b>' } catch (e) { return e.name } }"
        )
        assert refused == "TypeError"
        assert {httpx.URL(url).port for url in page.asked if not url.startswith("data:")} == {node.port}


async def test_a_file_is_sent_again_only_when_it_changed(node: Node) -> None:
    """Every file of the page has a version; who has it already is answered 304, and an unknown file 404."""
    async with httpx.AsyncClient(trust_env=False, base_url=node.url) as http:
        for path in ("/", "/page/app.js", "/page/style.css"):
            sent = await http.get(path)
            assert sent.headers["cache-control"] == "private, no-cache"
            assert sent.headers["x-content-type-options"] == "nosniff"
            again = await http.get(path, headers={"If-None-Match": sent.headers["etag"]})
            assert (again.status_code, again.content) == (304, b"")
            other = await http.get(path, headers={"If-None-Match": '"other"'})
            assert (other.status_code, other.content) == (200, sent.content)
        for path in ("/page/none.js", "/page/index.html", "/page/..%2f..%2fapp.py"):
            assert (await http.get(path)).status_code == 404


async def test_another_board_is_chosen_from_the_list(node: Node, browser: Browser) -> None:
    """The list holds the boards that there are; to choose one shows that board and nothing of the other."""
    async with node.client("w1") as main, node.client("w2", board="other") as other:
        await main.create_board("other")
        await main.post(Fact(text="on the first"))
        await other.post(Claim(text="on the second", scope=("src/a.c",)))
        async with view(browser, node.url) as page:
            await expect(page.row(1)).to_contain_text("on the first")
            await page("#boards").select_option("other")
            await expect(page.row(1)).to_contain_text("on the second")
            await expect(page("#claims tbody tr")).to_have_count(1)
            await expect(page("#workers [data-key=w1]")).to_have_count(0)
            await main.post(Fact(text="on the first again"))
            await other.post(Fact(text="on the second again"))
            await expect(page.row(2)).to_contain_text("on the second again")
            await page("#boards").select_option("main")
            await expect(page.row(2)).to_contain_text("on the first again")
            await expect(page("#claims tbody tr")).to_have_count(0)


async def test_a_token_opens_the_page_and_stays_out_of_sight(node: Node, browser: Browser) -> None:
    """The browser asks for the token as a password; a one-use ticket opens the stream; no address or storage has it."""
    made = node.run("token", "create", "--role", "reader", "--worker", "w0", "--json", "--url", node.url)
    assert made.status == 0, made.err
    token = made.json["token"]
    async with httpx.AsyncClient(trust_env=False, base_url=node.url) as http:
        for path in ("/", "/page/app.js"):
            assert (await http.get(path)).status_code == 401
        challenges = (await http.get("/")).headers.get_list("www-authenticate")
        assert any(one.startswith("Basic ") for one in challenges)
    async with view(browser, node.url, http_credentials={"username": "", "password": token}) as page:
        await expect(page("#workers tr[data-key=w0]")).to_be_visible()
        (stream,) = [url for url in page.asked if url.startswith("ws")]
        assert "ticket=" in stream
        assert not [url for url in page.asked if token in url]
        kept = "() => JSON.stringify([localStorage, sessionStorage, document.cookie])"
        assert await page.page.evaluate(kept) == '[{},{},""]'
        again = "url => new Promise(end => new WebSocket(url).onclose = event => end(event.code))"
        assert await page.page.evaluate(again, stream) == 4401
        assert token not in node.log.read_text()


async def test_a_revoked_token_ends_the_page(node: Node, browser: Browser) -> None:
    """Once its token is revoked, the page says that it was refused and how to go on."""
    admin = node.run("token", "create", "--role", "admin", "--worker", "ops", "--json", "--url", node.url).json["token"]
    by_admin = {"BOARD_TOKEN": admin}
    arguments = ("token", "create", "--role", "reader", "--worker", "w0", "--json", "--url", node.url)
    token = node.run(*arguments, environ=by_admin).json["token"]
    async with view(browser, node.url, http_credentials={"username": "", "password": token}) as page:
        revoked = node.run("token", "revoke", "--worker", "w0", "--url", node.url, environ=by_admin)
        assert revoked.status == 0, revoked.err
        await expect(page("#status")).to_have_text("Refused")
        await expect(page("#banner")).to_contain_text("Reload the page to sign in again.")


FRAME: Final = """
url => new Promise(end => {
  const frame = document.createElement("iframe");
  frame.onload = () => end();
  frame.src = url;
  document.body.append(frame);
})
"""


class Quiet(SimpleHTTPRequestHandler):
    """Serves files, and says nothing about it."""

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


async def test_a_foreign_page_can_neither_call_nor_frame_the_board(
    node: Node, browser: Browser, tmp_path: Path
) -> None:
    """A page of another origin gets no answer, no stream and no frame, and what it posts is not stored."""
    folder = tmp_path / "foreign"
    folder.mkdir()
    (folder / "index.html").write_text("<title>foreign</title>")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    Thread(target=server.serve_forever, daemon=True).start()
    context = await browser.new_context()
    try:
        page = await context.new_page()
        await page.goto(f"http://127.0.0.1:{server.server_port}/")
        read = "url => fetch(url).then(() => 'read', () => 'refused')"
        assert await page.evaluate(read, f"{node.url}/v1/boards") == "refused"
        post = "([url, body]) => fetch(url, {method: 'POST', mode: 'no-cors', body}).then(() => null)"
        await page.evaluate(post, [f"{node.url}/v1/boards/main/notes", '{"type": "FACT", "text": "foreign"}'])
        stream = "url => new Promise(end => new WebSocket(url).onclose = event => end(event.code))"
        address = f"{node.url.replace('http', 'ws')}/v1/boards/main/stream"
        assert await page.evaluate(stream, address) == 4403
        await page.evaluate(FRAME, node.url)
        assert await page.frames[1].locator("#status").count() == 0
    finally:
        await context.close()
        server.shutdown()
        server.server_close()
    assert {line["code"] for line in node.logged() if line.get("status", 200) >= 400} == {"foreign_origin"}
    async with node.client("w1") as board:
        assert (await board.board()).head == 0
