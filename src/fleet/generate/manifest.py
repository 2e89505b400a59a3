"""What we wrote, so that we never write over, or remove, what somebody else did."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

PATH = ".subagent-fleet/manifest.json"
OURS = re.compile(
    r"litellm_config\.yaml|\.env\.subagent-fleet|\.claude/agents/[a-z0-9_-]+\.md|\.codex/fleet\.config\.toml|"
    r"\.codex/\.gitignore|"
    r"\.codex/agents/[a-z0-9_-]+\.toml|\.opencode/opencode\.jsonc|\.opencode/agents/[a-z0-9_-]+\.md|"
    r"\.aider\.conf\.yml|\.aider\.model\.metadata\.json"
)


class Change(StrEnum):
    """What writing a file would mean."""

    NEW = "new"
    SAME = "same"
    CHANGED = "changed"
    EDITED = "edited"
    FOREIGN = "foreign"
    OBSOLETE = "obsolete"

    @property
    def done(self) -> str:
        """The same once it was written."""
        return {Change.EDITED: "replaced", Change.FOREIGN: "replaced", Change.OBSOLETE: "removed"}.get(self, str(self))

    @property
    def blocks(self) -> bool:
        """Somebody else's bytes would be lost."""
        return self in (Change.EDITED, Change.FOREIGN)


@dataclass(frozen=True, slots=True)
class Manifest:
    """The hashes that each file of ours may have, and the targets they were written for.

    There is one hash a file, and two while a change is being written: what was killed in between is still ours.
    """

    hashes: Mapping[str, tuple[str, ...]]
    targets: tuple[str, ...] = ()

    def dump(self) -> bytes:
        body = {
            "version": 1,
            "targets": list(self.targets),
            "files": {path: list(self.hashes[path]) for path in sorted(self.hashes)},
        }
        return (json.dumps(body, indent=2) + "\n").encode()


def parse(content: bytes | None) -> Manifest:
    """The manifest, or an empty one when it is missing or spoilt: then nothing on disk counts as ours."""
    try:
        body = json.loads(content or b"{}")
        files = {str(path): tuple(map(str, hashes)) for path, hashes in body["files"].items() if could_be_ours(path)}
        return Manifest(files, tuple(map(str, body["targets"])))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return Manifest({})


def could_be_ours(path: str) -> bool:
    """Whether any target writes to such a path: a record that claims more than that was not written by us."""
    return OURS.fullmatch(path) is not None


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def judge(wanted: bytes | None, on_disk: bytes | None, ours: Collection[str]) -> Change | None:
    """What becomes of a file: wanted (None: no longer), on disk (None: not there), and the hashes of what we wrote."""
    match wanted, on_disk:
        case None, None:
            return None
        case None, bytes():
            return Change.OBSOLETE if digest(on_disk) in ours else None
        case bytes(), None:
            return Change.NEW
        case bytes(), bytes() if wanted == on_disk:
            return Change.SAME
        case _, bytes() if not ours:
            return Change.FOREIGN
        case _, bytes() if digest(on_disk) in ours:
            return Change.CHANGED
        case _:
            return Change.EDITED


def during(before: Manifest, written: Mapping[str, bytes]) -> Manifest:
    """While files are being replaced, both their old and their new content are ours."""
    both = {path: (*before.hashes.get(path, ()), digest(content)) for path, content in written.items()}
    return Manifest({**before.hashes, **both}, before.targets)


def after(before: Manifest, written: Mapping[str, bytes], removed: Iterable[str], targets: Iterable[str]) -> Manifest:
    gone = set(removed)
    kept = {path: hashes for path, hashes in before.hashes.items() if path not in gone}
    return Manifest(kept | {path: (digest(content),) for path, content in written.items()}, tuple(targets))
