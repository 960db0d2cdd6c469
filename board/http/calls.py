"""What each route does: decode what is asked, call the service, give its reply."""

from __future__ import annotations

from typing import TYPE_CHECKING

from board.http.call import Answer
from board.service import questions
from board.service.decoding import read_batch, read_draft
from board.service.service import Reply, Service
from schema.codes import ProblemError, problem

if TYPE_CHECKING:
    from board.http.call import Call

MARKDOWN = "text/markdown; charset=utf-8"


async def post_note(service: Service, call: Call) -> Reply:
    """Write one note. The reply to a CLAIM says what is held, and what the team knows about the scope."""
    return await service.post(call.who, call.board, await call.decode(read_draft), call.root)


async def post_batch(service: Service, call: Call) -> Reply:
    """Write up to 1,000 notes: all or none, with consecutive seqs. A refusal names the index."""
    return await service.post_batch(call.who, call.board, await call.decode(read_batch), call.root)


async def notes(service: Service, call: Call) -> Reply:
    """Read notes that are not retracted, in seq order or the newest first, filtered."""
    return await service.notes(call.who, call.board, call.query(questions.NotesQuery))


async def note(service: Service, call: Call) -> Reply:
    """Read one note, with what became of it."""
    return await service.note(call.who, call.board, call.seq())


async def detail(service: Service, call: Call) -> Reply:
    """Read the long text of a note."""
    return await service.detail(call.who, call.board, call.seq())


async def retract(service: Service, call: Call) -> Reply:
    """Take a note back: its author may, or an admin with a reason. The log keeps it, live views drop it."""
    return await service.retract(call.who, call.board, call.seq(), await call.body(questions.RetractBody))


async def events(service: Service, call: Call) -> Reply:
    """Read events of every kind, as they stand in the log."""
    return await service.events(call.who, call.board, call.query(questions.EventsQuery))


async def check(service: Service, call: Call) -> Reply:
    """Ask what stands in the way of a scope, what of it is free, and what the team knows about it. Writes nothing."""
    return await service.check(call.who, call.board, await call.body(questions.CheckBody), call.root)


async def list_claims(service: Service, call: Call) -> Reply:
    """List claims: live, waiting, ended, or all."""
    return await service.list_claims(call.who, call.board, call.query(questions.ClaimsQuery))


async def renew(service: Service, call: Call) -> Reply:
    """Move the end of a lease; never to an earlier time, never past six hours of life."""
    return await service.renew(call.who, call.board, call.seq(), await call.body(questions.RenewBody))


async def release(service: Service, call: Call) -> Reply:
    """End a claim. Releasing twice is a no-op. Its holder may, or an admin with a reason."""
    return await service.release(call.who, call.board, call.seq(), await call.body(questions.ReleaseBody))


async def narrow(service: Service, call: Call) -> Reply:
    """Hold less than before."""
    body = await call.body(questions.NarrowBody)
    return await service.narrow(call.who, call.board, call.seq(), body, call.root)


async def transfer(service: Service, call: Call) -> Reply:
    """Give a claim to another worker. Its holder may, or an admin with a reason."""
    return await service.transfer(call.who, call.board, call.seq(), await call.body(questions.TransferBody))


async def list_conflicts(service: Service, call: Call) -> Reply:
    """List conflicts: open, closed, or all."""
    return await service.list_conflicts(call.who, call.board, call.query(questions.ConflictsQuery))


async def search(service: Service, call: Call) -> Reply:
    """Search the whole history: words; a comma is OR, `&` is AND, quotes make a phrase."""
    return await service.search(call.who, call.board, call.query(questions.SearchQuery))


async def export(service: Service, call: Call) -> Answer:
    """Read the log as NDJSON: a header line with board, epoch, head and schema version, then one event a line."""
    lines = await service.export(call.who, call.board, call.query(questions.ExportQuery))
    return Answer(200, b"", "application/x-ndjson", pieces=lines)


async def import_log(service: Service, call: Call) -> Reply:
    """Take an export (NDJSON, its header first) into an empty board, with its seqs and times: all of it or nothing."""
    return await service.import_log(call.who, call.board, call.chunks())


async def workers(service: Service, call: Call) -> Reply:
    """Who is here: last seen, open sockets, live claims."""
    return await service.workers(call.who, call.board)


async def register(service: Service, call: Call) -> Reply:
    """Register the root of the calling worker's checkout: it is stripped from absolute paths."""
    return await service.register(call.who, call.board, await call.body(questions.RegisterBody))


async def snapshot(service: Service, call: Call) -> Reply | Answer:
    """Read the prompt view: Markdown within `budget_tokens`, or the same selection as JSON.

    It begins with the same bytes as long as it can, so that a model's prompt cache keeps working; newer lines correct
    older ones. What other agents wrote stands between quotes that it cannot end.
    """
    reply = await service.snapshot(call.who, call.board, call.query(questions.SnapshotQuery), call.root)
    return Answer(reply.status, reply.body.encode(), MARKDOWN) if isinstance(reply.body, str) else reply


async def unread(service: Service, call: Call) -> Reply:
    """Read what the calling worker has not acknowledged, most relevant first. Reading acknowledges nothing."""
    return await service.unread(call.who, call.board, call.query(questions.UnreadQuery))


async def wait(service: Service, call: Call) -> Reply:
    """Wait for the first events after a position (from now on, where none is given) that match; a long poll."""
    query = call.query(questions.WaitQuery)
    return await call.while_there(service.wait(call.who, call.board, query, call.root))


async def ack(service: Service, call: Call) -> Reply:
    """Acknowledge notes: just `seqs`, or everything up to `through`. Doing so twice changes nothing."""
    return await service.ack(call.who, call.board, await call.body(questions.AckBody))


async def list_boards(service: Service, call: Call) -> Reply:
    """List the boards that the caller may see."""
    return await service.list_boards(call.who)


async def create_board(service: Service, call: Call) -> Reply:
    """Create a board."""
    return await service.create_board(call.who, await call.body(questions.BoardBody))


async def board(service: Service, call: Call) -> Reply:
    """Read a board's settings and limits, head, epoch, counts by type, and the hash of its folded state."""
    return await service.board(call.who, call.board)


async def make_ticket(service: Service, call: Call) -> Reply:
    """Make a one-use ticket for a stream, for a browser. It is over after a minute."""
    return await service.make_ticket(call.who)


async def list_tokens(service: Service, call: Call) -> Reply:
    """List all tokens ever made, without what is secret of them."""
    return await service.list_tokens(call.who)


async def create_token(service: Service, call: Call) -> Reply:
    """Make a token. It is shown this once; the first one ends open mode."""
    return await service.create_token(call.who, await call.body(questions.TokenBody))


async def revoke_token(service: Service, call: Call) -> Reply:
    """Revoke one token at once: its open streams close with 4401."""
    return await service.revoke_tokens(call.who, id=call.path("id"))


async def revoke_worker(service: Service, call: Call) -> Reply:
    """Revoke every token of a worker at once."""
    return await service.revoke_tokens(call.who, worker=call.query(questions.RevokeQuery).worker)


async def stream(service: Service, call: Call) -> Answer:
    """Open a stream of events: a websocket (RFC 6455), which is not described here but in the documentation.

    The server sends `hello`, `events`, `live` and `reply`; the client sends `post`, `ack` and `filter`. A call without
    the websocket handshake is refused with 426.
    """
    del service, call
    raise ProblemError(problem("upgrade_required", "This is a websocket; a plain GET gets nothing here."))


async def alive(service: Service, call: Call) -> Answer:
    """Tell that the process runs."""
    del service, call
    return Answer(200, b'{"status":"alive"}')


async def ready(service: Service, call: Call) -> Answer:
    """Tell whether a note could be stored now."""
    del call
    await service.ready()
    return Answer(200, b'{"status":"ready"}')


async def show_metrics(service: Service, call: Call) -> Answer:
    """Give the server's figures for Prometheus; to a token of one board, that board's alone."""
    del service
    body, media = call.metrics.render(call.who.board)
    return Answer(200, body, media)
