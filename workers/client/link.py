"""One pool of HTTP connections to one server: sends a call, tries again where that is safe, translates what fails."""

from __future__ import annotations

import random
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, Literal

import anyio
import httpx
import msgspec

from workers.client.address import is_loopback
from workers.client.refusals import refusal, unreachable

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable

    from schema.codes import ProblemError
    from workers.client.backoff import Backoff

Method = Literal["GET", "POST", "PUT", "DELETE"]

_NOT_SENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
_BUSY: Final = 429
_AWAY: Final = frozenset({502, 503, 504})
"""The board is away, or a proxy before it says so: nobody knows whether the call was carried out."""
_FAILED: Final = 400
_CONNECT_S: Final = 5.0


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One call: what to send, and whether sending it twice does the same as once.

    `wait_s` is how long the server may take by design (a long poll), beside the time that any answer may take.
    """

    method: Method
    path: str
    headers: dict[str, str]
    params: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    media: str = "application/json"
    repeatable: bool = True
    wait_s: float = 0.0


class Link:
    """Sends calls to `url`. At most `connections` at a time; further ones wait for their turn.

    Tried again, with full jitter, after at least what Retry-After says: what never reached the server and what it
    put off (429), always; a lost connection, a missing answer and 503, only where the call is `repeatable`.
    """

    def __init__(
        self,
        url: str,
        *,
        timeout_s: float,
        connections: int,
        backoff: Backoff,
        transport: httpx.AsyncBaseTransport | None = None,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.url = url.rstrip("/")
        self._timeout_s = timeout_s
        self._backoff = backoff
        self._sleep = sleep
        self._chance = chance
        self._http = httpx.AsyncClient(
            timeout=self._timeout(),
            limits=httpx.Limits(max_connections=connections, max_keepalive_connections=connections),
            transport=transport,
            trust_env=not is_loopback(url),
        )

    async def close(self) -> None:
        """Close the connections; calls under way fail. Closing twice is a no-op."""
        await self._http.aclose()

    async def send(self, call: Call) -> bytes:
        """Send a call and give the body of its answer. Raises ProblemError.

        Cancelled, it leaves open whether the server carried the call out.
        """
        failures = 0
        while True:
            try:
                response = await self._http.send(self._request(call))
            except httpx.TransportError as error:
                asked_s, repeat = 0.0, call.repeatable or isinstance(error, _NOT_SENT)
                failed = unreachable(self.url, _reason(error))
            except httpx.InvalidURL as error:
                raise unreachable(self.url, str(error)) from error
            else:
                if response.status_code < _FAILED and not response.is_redirect:
                    return response.content
                asked_s, repeat = _retry_after_s(response), _may_repeat(call, response.status_code)
                failed = refusal(response.status_code, response.content, self.url)
            failures += 1
            await self._pause(failed, failures, asked_s, repeat=repeat)

    async def _pause(self, failed: ProblemError, failures: int, asked_s: float, *, repeat: bool) -> None:
        delay_s = self._backoff.next_delay_s(failures, self._chance(), asked_s) if repeat else None
        if delay_s is None:
            raise failed
        await self._sleep(delay_s)

    @asynccontextmanager
    async def lines(self, call: Call) -> AsyncGenerator[AsyncIterator[bytes]]:
        """Send a call once and give the lines of its answer as they come, without their ends. Raises ProblemError.

        A connection that is lost half-way raises `unreachable`: an answer that ends is whole.
        """
        try:
            response = await self._http.send(self._request(call), stream=True)
        except (httpx.TransportError, httpx.InvalidURL) as error:
            raise unreachable(self.url, _reason(error)) from error
        try:
            if response.status_code >= _FAILED or response.is_redirect:
                raise refusal(response.status_code, await response.aread(), self.url)
            yield self._lines(response)
        finally:
            await response.aclose()

    async def _lines(self, response: httpx.Response) -> AsyncIterator[bytes]:
        # httpx's own aiter_lines splits at every line end of Unicode, U+2028 inside of a JSON string included.
        rest = b""
        try:
            async for chunk in response.aiter_bytes():
                *whole, rest = (rest + chunk).split(b"\n")
                for line in whole:
                    yield line
        except httpx.TransportError as error:
            raise unreachable(self.url, _reason(error)) from error
        if rest:
            yield rest

    async def upload(self, call: Call, lines: AsyncIterable[bytes]) -> bytes:
        """Send a call once, with lines as its body, and give the body of its answer. Raises ProblemError."""
        try:
            response = await self._http.send(self._request(call, lines))
        except (httpx.TransportError, httpx.InvalidURL) as error:
            raise unreachable(self.url, _reason(error)) from error
        if response.status_code >= _FAILED or response.is_redirect:
            raise refusal(response.status_code, response.content, self.url)
        return response.content

    def _request(self, call: Call, lines: AsyncIterable[bytes] | None = None) -> httpx.Request:
        has_body = call.body is not None or lines is not None
        headers = call.headers | ({"Content-Type": call.media} if has_body else {})
        return self._http.build_request(
            call.method,
            self.url + call.path,
            params=list(call.params),
            content=lines if lines is not None else call.body,
            # As bytes: httpx takes text of ASCII only, and a root may be any path.
            headers={name.encode(): value.encode() for name, value in headers.items()},
            timeout=self._timeout(call.wait_s),
        )

    def _timeout(self, wait_s: float = 0.0) -> httpx.Timeout:
        return httpx.Timeout(self._timeout_s + wait_s, connect=min(_CONNECT_S, self._timeout_s))


def _may_repeat(call: Call, status: int) -> bool:
    return status == _BUSY or (status in _AWAY and call.repeatable)


def _retry_after_s(response: httpx.Response) -> float:
    text = response.headers.get("Retry-After", "")
    return float(text) if text.isdigit() else 0.0


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__
