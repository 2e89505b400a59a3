"""A proxy that lets nothing through and keeps what was asked of it: whoever wants to leave this machine is seen."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from standins import bad_nodes


@dataclass
class Watch:
    url: str = ""
    asked: list[str] = field(default_factory=list)

    @property
    def env(self) -> dict[str, str]:
        names = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")
        return dict.fromkeys(names, self.url) | {"NO_PROXY": "127.0.0.1,localhost", "no_proxy": "127.0.0.1,localhost"}


@contextmanager
def watching() -> Iterator[Watch]:
    watch = Watch()

    def refuse(client: socket.socket, _: threading.Event) -> None:
        watch.asked.append(client.recv(4096).split(b"\r\n")[0].decode(errors="replace"))
        client.sendall(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n")

    with bad_nodes.node(refuse) as url:
        watch.url = url
        yield watch
