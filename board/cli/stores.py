"""Commands that work on a store itself, without a server: how one is opened, and how what fails is told."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from board import settings as server_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from board.settings import ServerSettings

T = TypeVar("T")


def read_settings(**flags: Any) -> ServerSettings:  # noqa: ANN401 -- typed by the settings
    """Read the settings from the environment and these flags; a bad one is a usage error."""
    try:
        return server_settings.read(**flags)
    except server_settings.BadSetting as error:
        raise typer.BadParameter(str(error)) from error


def on_store(body: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run what works on a store; a refusal or a failure of the store ends the command with its exit status."""
    from board.cli.refusing import print_refusal
    from board.store.contract import StoreFull, StoreUnavailable
    from schema.codes import ProblemError, problem

    try:
        return asyncio.run(body())
    except ProblemError as error:
        raise typer.Exit(print_refusal(error.problem)) from error
    except StoreUnavailable as error:
        code = "store_full" if isinstance(error, StoreFull) else "store_unavailable"
        raise typer.Exit(print_refusal(problem(code, str(error)))) from error
