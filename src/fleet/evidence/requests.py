"""What the gateways of this home say of model requests: a line for each that ended, and who has one in flight.

LiteLLM writes both, by `gateway/callback/fleet_requests.py`. Which attempt a request is of, its agent said itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

import msgspec

from fleet.core.work import Usage
from fleet.host import files, locks

DIRECTORY, LONGEST_LINE = "gateway", 4096
LINES, FLYING, LOCK = ".requests.jsonl", ".flying.json", ".lock"
BEFORE = ".requests.1.jsonl"
OK, UNTOLD = "ok", ("unknown", "499")  # a client that left may have been answered all the same
MOST_READ = 64 * 1024 * 1024  # bytes of one file; LiteLLM begins another one long before


@dataclass(frozen=True, slots=True)
class Request:
    """One model request that ended. What is None is not known; `local` is a node of one's own, which costs nothing."""

    at: float
    attempt: str
    alias: str
    status: str  # ok, what the provider answered, or unknown: nobody told how it ended
    wait: float | None = None
    seconds: float | None = None
    model: str = ""
    node: str = ""
    local: bool = False
    prompt: int | None = None
    completion: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    cost: float | None = None


@dataclass(frozen=True, slots=True)
class Served:
    """What the gateway served one attempt of one kind: the same name asked for, the same model on the same node, the
    cost told or not (then `usage.cost` is None).
    """

    alias: str
    model: str
    node: str
    local: bool
    requests: int
    usage: Usage
    untold: int  # of these requests, of which nobody knows what they used
    wait: float
    last: float


REQUEST, SINCE = msgspec.json.Decoder(Request), msgspec.json.Decoder(dict[str, float])


def flying(home: Path) -> dict[str, float]:
    """Every attempt that has a request in flight, and since when. A gateway that is dead has none."""
    found: dict[str, float] = {}
    for path, lock in ((path, _beside(path, FLYING, LOCK)) for path in _files(home, FLYING)):
        if not locks.held(lock):
            continue
        for attempt, since in _since(path).items():
            found[attempt] = min(since, found.get(attempt, since))
    return found


def _since(path: Path) -> dict[str, float]:
    try:
        return SINCE.decode(files.read(path) or b"{}")
    except (OSError, msgspec.MsgspecError):
        return {}


class Records:
    """What every gateway of a home served, by attempt; asked again, only what is new is read."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._lock = Lock()
        self._found: dict[str, dict[tuple[object, ...], Served]] = {}
        self._read: dict[bytes, int] = {}  # how far, of each file by its first line: it gets another name

    def served(self) -> dict[str, list[Served]]:
        with self._lock:
            for path in (*_files(self._home, BEFORE), *_files(self._home, LINES)):
                for request in self._new(path):
                    add(self._found.setdefault(request.attempt, {}), request)
            return {attempt: list(kinds.values()) for attempt, kinds in self._found.items()}

    def _new(self, path: Path) -> Iterator[Request]:
        fd = files.open_regular(path)
        if fd is None:
            return
        try:
            first = os.pread(fd, LONGEST_LINE, 0).partition(b"\n")[0]
            start = self._read.get(first, 0)
            data = os.pread(fd, MOST_READ, start)
        finally:
            os.close(fd)
        whole = data[: data.rfind(b"\n") + 1]
        if whole:
            self._read[first] = start + len(whole)
        for line in whole.splitlines():
            try:
                yield REQUEST.decode(line)
            except msgspec.MsgspecError:  # half a line, of a disk that was full
                continue


def add(kinds: dict[tuple[object, ...], Served], request: Request) -> None:
    """Count one more request among those of its kind."""
    told = request.status not in UNTOLD and (request.status != OK or request.prompt is not None)
    usage = Usage(request.prompt or 0, request.completion or 0, request.cache_read, request.cache_write, request.cost)
    priced = not told or request.cost is not None
    kind = (request.alias, request.model, request.node, request.local, priced)
    one = Served(*kind[:4], 1, usage, 0 if told else 1, request.wait or 0.0, request.at)
    known = kinds.get(kind)
    kinds[kind] = one if known is None else Served(
        *kind[:4], known.requests + 1, known.usage.plus(usage), known.untold + one.untold, known.wait + one.wait,
        max(known.last, one.last),
    )  # fmt: skip


def _files(home: Path, ending: str) -> list[Path]:
    return sorted((home / DIRECTORY).glob(f"*{ending}"))


def _beside(path: Path, ending: str, other: str) -> Path:
    return path.with_name(path.name.removesuffix(ending) + other)
