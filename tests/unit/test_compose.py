"""The compose file: no container engine runs here, so it is held to what it names."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

from board.cli.root import app
from board.settings import ServerSettings, environment_name, read

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())
OURS = {name: service for name, service in COMPOSE["services"].items() if "build" in service}


def substituted(text: str) -> str:
    """Put defaults in place of variables that are not set, as compose does."""
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text)


@pytest.mark.parametrize("name", OURS)
def test_every_setting_exists(name: str) -> None:
    """What a service sets is a setting of the server, with a value that the server takes."""
    said = {key: substituted(value) for key, value in OURS[name]["environment"].items()}
    assert said.keys() <= {environment_name(field) for field in ServerSettings.__struct_fields__}
    settings = read(said)
    assert settings.host == "0.0.0.0"
    assert settings.store.partition(":")[0] == ("sqlite" if name == "board" else "postgresql")


@pytest.mark.parametrize("name", OURS)
def test_every_command_parses(name: str) -> None:
    """The command of a service, and those in the file's first lines, are commands of the program."""
    parse(OURS[name]["command"])


def test_the_commands_of_the_first_lines_parse() -> None:
    """So are those that the file's first lines tell the reader to give."""
    said = re.findall(r"run --rm (\S+) (.*)", (ROOT / "compose.yaml").read_text())
    assert {service for service, _ in said} <= OURS.keys()
    for _, command in said:
        parse(command.split())


def parse(arguments: list[str]) -> None:
    """Read a command line to its end without carrying it out."""
    command: Any = get_command(app)
    context = command.make_context("board", list(arguments), resilient_parsing=False)
    while hasattr(command, "resolve_command"):
        name, command, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        context = command.make_context(name, rest, parent=context)


def test_what_is_depended_on_is_there() -> None:
    """Every service, volume and config that is named is defined, and what is waited for has a health check."""
    services = COMPOSE["services"]
    for service in services.values():
        for name, how in service.get("depends_on", {}).items():
            assert name in services
            assert how["condition"] != "service_healthy" or "healthcheck" in services[name]
        assert {volume.partition(":")[0] for volume in service.get("volumes", ())} <= COMPOSE["volumes"].keys()
        assert {config["source"] for config in service.get("configs", ())} <= COMPOSE["configs"].keys()


def test_one_board_is_the_default() -> None:
    """Without a profile one board starts; the profile `cluster` adds two nodes and all that they need."""
    assert [name for name, service in COMPOSE["services"].items() if "profiles" not in service] == ["board"]
    cluster = {name for name, service in COMPOSE["services"].items() if service.get("profiles") == ["cluster"]}
    assert cluster == {"board-1", "board-2", "postgres", "redis", "proxy"}


def test_the_proxy_balances_the_nodes() -> None:
    """The proxy passes to every node, upgrades included; its own variables are escaped from compose."""
    content = COMPOSE["configs"]["proxy"]["content"]
    nodes = sorted(name for name in OURS if name != "board")
    assert re.findall(r"server (\S+):8420", content) == nodes
    assert "proxy_set_header Upgrade $$http_upgrade;" in content
    assert not re.search(r"(?<!\$)\$(?!\$)", content)


def test_the_image_holds_every_package() -> None:
    """The image is built from the packages that the project lists, and their data."""
    lines = COMPOSE["x-board"]["build"]["dockerfile_inline"].splitlines()
    copied = {part for line in lines if line.startswith("COPY") for part in line.split()[1:-1]}
    assert {"board", "schema", "workers", "loadtest", "pyproject.toml", "README.md", "LICENSE"} == copied
    assert all((ROOT / part).exists() for part in copied)
