"""The proxy of `compose.yaml`, as a real nginx before nodes of this machine."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import yaml

if TYPE_CHECKING:
    from types import TracebackType

    from tests.harness.node import Node

START_S: Final = 20.0
PROGRAM: Final = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
"""Where nginx is; None where it is not installed."""

_COMPOSE: Final = Path(__file__).parents[2] / "compose.yaml"
_OWN_FOLDERS: Final = "".join(f"{kind}_temp_path {kind};\n" for kind in ("client_body", "proxy"))


class NginxFailed(Exception):
    """The proxy did not start; the sentence ends with what it said."""


class Nginx:
    """One proxy, with the configuration of the compose file but for addresses. Use as `with`; `url` is where clients go."""

    def __init__(self, folder: Path, *nodes: Node) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.port: int = listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._folder = folder
        self._nodes = nodes
        self._log = folder / "nginx.log"

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / "nginx.conf").write_text(self._configuration())
        command = [str(PROGRAM), "-p", str(self._folder), "-c", "nginx.conf", "-e", str(self._log)]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "-g", "daemon off; pid nginx.pid;"], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        self._wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.wait(START_S)

    def _configuration(self) -> str:
        said: dict[str, Any] = yaml.safe_load(_COMPOSE.read_text())
        text: str = said["configs"]["proxy"]["content"].replace("$$", "$")
        ports = iter(node.port for node in self._nodes)
        text = re.sub(r"server board-\d+:8420", lambda _: f"server 127.0.0.1:{next(ports)}", text)
        text = text.replace("listen 8420;", f"listen 127.0.0.1:{self.port};")
        return text.replace("access_log off;", f"access_log off;\n{_OWN_FOLDERS}")

    def _wait(self) -> None:
        deadline = time.monotonic() + START_S
        while not self._listens():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise NginxFailed(self._log.read_text(errors="replace")[-4000:])
            time.sleep(0.02)

    def _listens(self) -> bool:
        with socket.socket() as peer:
            return peer.connect_ex(("127.0.0.1", self.port)) == 0
