"""The chain of a home's receipts: each names the hash of the one before it, and carries a mac that no agent can make.

The key is made once, in a directory of its own that is kept from agents. Beside it stands the head: the last number and
hash that were written, so that a chain which was cut off at its end is found, too.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import stat
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from fleet.core import FleetError, Unavailable
from fleet.core.frozen import dataclass
from fleet.evidence.receipt import Receipt
from fleet.host import database, files, locks

SECRETS, KEY, HEAD, MAKING = "secrets", "receipt.key", "receipt.head", "making.lock"
KEY_BYTES = 32
PATIENCE = 10.0
OTHERS = 0o077
SCHEMA = """
CREATE TABLE IF NOT EXISTS receipts (
    number INTEGER PRIMARY KEY, attempt TEXT NOT NULL, hash TEXT NOT NULL, previous TEXT NOT NULL, mac TEXT NOT NULL,
    key TEXT NOT NULL, at REAL NOT NULL
);
CREATE INDEX IF NOT EXISTS receipts_of_an_attempt ON receipts (attempt);
"""
LAST = "SELECT number, attempt, hash, previous, mac, key, at FROM receipts ORDER BY number DESC LIMIT 1"
LAST_OF = "SELECT number, attempt, hash, previous, mac, key, at FROM receipts WHERE attempt = ? ORDER BY number DESC"
ALL = "SELECT number, attempt, hash, previous, mac, key, at FROM receipts ORDER BY number"
ADD = "INSERT INTO receipts VALUES (?, ?, ?, ?, ?, ?, ?)"


@dataclass(frozen=True, slots=True)
class Link:
    """One receipt in the chain of its home. `key` names the key of its mac, and does not give it away."""

    number: int
    attempt: str
    hash: str
    previous: str
    mac: str
    key: str
    at: float


@dataclass(frozen=True, slots=True)
class Key:
    secret: bytes

    @property
    def name(self) -> str:
        return hashlib.sha256(b"fleet receipts " + self.secret).hexdigest()[:16]

    def sign(self, text: str) -> str:
        return hmac.new(self.secret, text.encode(), hashlib.sha256).hexdigest()

    def signed(self, text: str, mac: str) -> bool:
        return hmac.compare_digest(self.sign(text).encode(), mac.encode())


@dataclass(frozen=True, slots=True)
class Head:
    """How far the chain went when it was last written to. After a crash it may be behind, never ahead."""

    number: int
    hash: str
    mac: str

    @property
    def text(self) -> str:
        return f"{self.number} {self.hash}"


HEAD_OF = msgspec.json.Decoder(Head)


def key_path(home: Path) -> Path:
    return home / SECRETS / KEY


def load_key(home: Path) -> Key | None:
    """The key of this home; None when there is none. One that others could have read or put there is refused."""
    path = key_path(home)
    _own(path.parent, stat.S_ISDIR, "directory")
    if not _own(path, stat.S_ISREG, "file"):
        return None
    secret = files.read(path, limit=4096) or b""
    if len(secret) != KEY_BYTES:
        raise FleetError(f"{path} is not a key of ours: it has {len(secret)} bytes", hint=f"mv {path} {path}.aside")
    return Key(secret)


def make_key(home: Path) -> Key:
    """The key of this home, made when there is none; of two who make it at once, both get the same."""
    found = load_key(home)
    if found is not None:
        return found
    turn = locks.take(files.private_dir(key_path(home).parent) / MAKING, PATIENCE)
    if turn is None:
        raise Unavailable(f"somebody else has been making {key_path(home)} for {PATIENCE:g} s", hint="try again")
    try:
        found = load_key(home)
        if found is None:  # written under its one name: a second, even for a moment, is not trusted
            found = Key(os.urandom(KEY_BYTES))
            files.write(key_path(home), found.secret, files.PRIVATE)
        return found
    finally:
        locks.release(turn)


def _own(path: Path, is_kind: Callable[[int], bool], kind: str) -> bool:
    """Whether it is there; unless it is ours alone, it is refused."""
    try:
        facts = os.lstat(path)
    except FileNotFoundError:
        return False
    if stat.S_ISLNK(facts.st_mode) or not is_kind(facts.st_mode):
        raise FleetError(f"{path} is no {kind}, and is not trusted", hint=f"mv {path} {path}.aside")
    if facts.st_uid != os.geteuid() or (kind == "file" and facts.st_nlink != 1):
        raise FleetError(f"{path} is not ours alone, and is not trusted", hint=f"mv {path} {path}.aside")
    if facts.st_mode & OTHERS:
        mode = "700" if kind == "directory" else "600"
        raise FleetError(f"{path} can be read by others, and is not trusted", hint=f"chmod {mode} {path}")
    return True


def canonical(content: bytes) -> bytes:
    """The bytes that are hashed: the receipt without its hash and mac, keys in order, ASCII, no spaces.

    A key that stands there twice could mean one thing to us and another to somebody else: ValueError.
    """
    fields = json.loads(content, object_pairs_hook=_once)
    if not isinstance(fields, dict):
        raise ValueError("it is no object")
    kept = {name: value for name, value in fields.items() if name not in ("hash", "mac")}
    return json.dumps(kept, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands there twice")
    return found


def hash_of(receipt: Receipt) -> str:
    return hashlib.sha256(canonical(msgspec.json.encode(receipt))).hexdigest()


def seal(home: Path, receipt: Receipt, key: Key | None) -> Receipt:
    """The receipt as the next of its home's chain. The same one again, after a crash, is the one it was before; an
    attempt that was settled anew gets one more, and the earlier stays in the chain.

    Without a key it gets no mac, and whoever verifies it is told so.
    """
    link, sealed = _append(home, receipt, key)
    if key is not None:
        _note_head(home, key, link)
    return sealed


def _append(home: Path, receipt: Receipt, key: Key | None) -> tuple[Link, Receipt]:
    bare = replace(receipt, previous="", hash="", mac="")
    with database.changing(database.path(home), SCHEMA) as db:
        mine = next((Link(*row) for row in db.execute(LAST_OF, (receipt.attempt.id,))), None)
        if mine is not None:
            before = replace(bare, previous=mine.previous)
            if hash_of(before) == mine.hash:
                return mine, replace(before, hash=mine.hash, mac=mine.mac)
        last = next((Link(*row) for row in db.execute(LAST)), None)
        chained = replace(bare, previous=last.hash if last else "")
        name = hash_of(chained)
        mac = key.sign(name) if key else ""
        number = last.number + 1 if last else 1
        link = Link(number, receipt.attempt.id, name, chained.previous, mac, key.name if key else "", time.time())
        db.execute(ADD, (link.number, link.attempt, link.hash, link.previous, link.mac, link.key, link.at))
    return link, replace(chained, hash=name, mac=mac)


def _note_head(home: Path, key: Key, link: Link) -> None:
    known = load_head(home)
    if known is not None and known.number >= link.number:
        return
    head = Head(link.number, link.hash, "")
    content = msgspec.json.encode(replace(head, mac=key.sign(head.text)))
    files.write(home / SECRETS / HEAD, content, files.PRIVATE)


def load_head(home: Path) -> Head | None:
    try:
        content = files.read(home / SECRETS / HEAD, limit=4096)
        return None if content is None else HEAD_OF.decode(content)
    except (OSError, msgspec.MsgspecError):
        return None


def links(home: Path) -> list[Link]:
    """The whole chain, the first one first."""
    return [Link(*row) for row in database.ask(database.path(home), SCHEMA, ALL)]


def faults(chain: Sequence[Link], key: Key | None, head: Head | None) -> list[tuple[Link | None, str]]:
    """What is wrong with a chain, each in a sentence with the link that it is about; purely."""
    found: list[tuple[Link | None, str]] = []
    before = ""
    for number, link in enumerate(chain, 1):
        if link.number != number or link.previous != before:
            found.append((link, _gap(link, number)))
        if (why := _unsigned(link, key)) is not None:
            found.append((link, why))
        before = link.hash
        if link.number != number:
            return found  # the numbers of all that follow are off by the same
    return [*found, *_cut_off(chain, key, head)]


def _gap(link: Link, number: int) -> str:
    if link.number != number:
        return f"receipt {number} of the chain is missing: the next one is {link.number}, of {link.attempt}"
    return f"receipt {number}, of {link.attempt}, does not follow the one before it: one was taken out or put in"


def _unsigned(link: Link, key: Key | None) -> str | None:
    if not link.mac:
        return f"the receipt of {link.attempt} was written without a key, so nobody can tell who wrote it"
    if key is None:
        return f"the mac of {link.attempt}'s receipt cannot be checked: the key is gone"
    if key.signed(link.hash, link.mac):
        return None
    other = f"another key ({link.key})" if link.key != key.name else "no key of ours"
    return f"the mac of {link.attempt}'s receipt was made with {other}"


def _cut_off(chain: Sequence[Link], key: Key | None, head: Head | None) -> list[tuple[Link | None, str]]:
    """Whether as much is there as was once written."""
    if head is None:
        return [(None, "the head of the chain is gone: whether its end was cut off cannot be told")] if chain else []
    if key is None:  # said of each receipt
        return [(None, "whether the end of the chain was cut off cannot be told: the key is gone")] if not chain else []
    if not key.signed(head.text, head.mac):
        return [(None, "the head of the chain was not written by us")]
    if len(chain) < head.number:
        return [(None, f"the end of the chain was cut off: it has {len(chain)} of {head.number} receipts")]
    if chain[head.number - 1].hash != head.hash:
        return [(None, f"receipt {head.number} of the chain is not the one that was written")]
    return []
