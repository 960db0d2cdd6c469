"""A server that asks for tokens, and callers that have one each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import httpx

from tests.harness.node import Node

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from types import TracebackType


class Guarded:
    """A node whose open mode has ended: `tokens` by the name of their worker. Use as `async with`."""

    def __init__(self, folder: Path, *, environ: Mapping[str, str] | None = None, node: Node | None = None) -> None:
        self.node = node or Node(folder, environ=environ)
        self.tokens: dict[str, str] = {}
        self.ids: dict[str, str] = {}
        self._http = httpx.AsyncClient(trust_env=False, timeout=60)

    async def __aenter__(self) -> Self:
        await self.node.start()
        await self.make_token("ops", role="admin")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.aclose()
        self.node.close()

    async def make_token(self, worker: str, *, role: str = "worker", name: str = "", **said: Any) -> str:
        """Make a token as an admin, and keep it under `name`, or the worker's own."""
        body = {"role": role, "worker": worker, **said}
        made = (await self.call("POST", "/v1/tokens", json=body)).json()
        self.ids[name or worker] = made["id"]
        self.tokens[name or worker] = made["token"]
        return made["token"]

    async def call(self, method: str, path: str, who: str = "ops", **said: Any) -> httpx.Response:
        """Call as somebody; as nobody with an empty name."""
        headers = {**said.pop("headers", {}), **self.header(who)}
        return await self._http.request(method, self.node.url + path, headers=headers, **said)

    def header(self, who: str) -> dict[str, str]:
        """The credential of somebody."""
        return {"Authorization": f"Bearer {self.tokens[who]}"} if who in self.tokens else {}

    def line(self, who: str) -> str:
        """The credential as a line of a handshake."""
        return f"Authorization: Bearer {self.tokens[who]}\r\n"
