"""Nodes that misbehave: real sockets on loopback, each bad in one way."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Behaviour = Callable[[socket.socket, threading.Event], None]


def answer(status: str, body: bytes, headers: str = "content-type: application/json\r\n") -> Behaviour:
    def behave(client: socket.socket, _: threading.Event) -> None:
        client.recv(65536)
        client.sendall(f"HTTP/1.1 {status}\r\n{headers}content-length: {len(body)}\r\n\r\n".encode() + body)

    return behave


def by_path(known: dict[str, Behaviour], otherwise: Behaviour) -> Behaviour:
    """Another behaviour for some paths."""

    def behave(client: socket.socket, over: threading.Event) -> None:
        path = client.recv(65536, socket.MSG_PEEK).split(b" ")[1].decode()
        known.get(path, otherwise)(client, over)

    return behave


def silent(client: socket.socket, over: threading.Event) -> None:
    """Accepts, and never says a word."""
    over.wait()


def drip(client: socket.socket, over: threading.Event) -> None:
    """A byte now and then, for ever: every single read is quick, the answer never ends."""
    client.recv(65536)
    client.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n")
    while not over.wait(0.05):
        client.sendall(b" ")


def endless(client: socket.socket, over: threading.Event) -> None:
    """A flood without end."""
    client.recv(65536)
    client.sendall(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
    while not over.is_set():
        client.sendall(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")


def hang_up(client: socket.socket, _: threading.Event) -> None:
    client.recv(65536)


def not_http(client: socket.socket, _: threading.Event) -> None:
    client.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")


@contextmanager
def node(behave: Behaviour) -> Iterator[str]:
    """The endpoint of a node that behaves so to everybody."""
    over = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0), backlog=200)

    def serve(client: socket.socket) -> None:
        with client:
            try:
                behave(client, over)
            except OSError:
                return  # the other side left

    def accept() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(client,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        over.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
