"""What we wrote, so that we never write over, or remove, what somebody else did."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

PATH = ".subagent-fleet/manifest.json"


class Change(StrEnum):
    """What writing a file would mean."""

    NEW = "new"
    SAME = "same"
    CHANGED = "changed"
    EDITED = "edited"
    FOREIGN = "foreign"
    OBSOLETE = "obsolete"

    @property
    def blocks(self) -> bool:
        """Somebody else's bytes would be lost."""
        return self in (Change.EDITED, Change.FOREIGN)


@dataclass(frozen=True, slots=True)
class Manifest:
    """The hash of every file as we last wrote it, and the targets it was written for."""

    hashes: Mapping[str, str]
    targets: tuple[str, ...] = ()

    def dump(self) -> bytes:
        body = {"version": 1, "targets": list(self.targets), "files": dict(sorted(self.hashes.items()))}
        return (json.dumps(body, indent=2) + "\n").encode()


def parse(content: bytes | None) -> Manifest:
    """The manifest, or an empty one when it is missing or spoilt: then nothing on disk counts as ours."""
    try:
        body = json.loads(content or b"{}")
        files, targets = body["files"], body["targets"]
        return Manifest({str(path): str(hash_) for path, hash_ in files.items()}, tuple(map(str, targets)))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return Manifest({})


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def judge(wanted: bytes | None, on_disk: bytes | None, ours: str | None) -> Change | None:
    """What becomes of one file: wanted (None: no longer), on disk (None: not there), and the hash we wrote last."""
    match wanted, on_disk:
        case None, None:
            return None
        case None, bytes():
            return Change.OBSOLETE if ours == digest(on_disk) else None
        case bytes(), None:
            return Change.NEW
        case bytes(), bytes() if wanted == on_disk:
            return Change.SAME
        case _, bytes() if ours is None:
            return Change.FOREIGN
        case _, bytes() if ours == digest(on_disk):
            return Change.CHANGED
        case _:
            return Change.EDITED


def after(before: Manifest, written: Mapping[str, bytes], removed: Iterable[str], targets: Iterable[str]) -> Manifest:
    kept = {path: hash_ for path, hash_ in before.hashes.items() if path not in set(removed)}
    return Manifest(kept | {path: digest(content) for path, content in written.items()}, tuple(targets))
