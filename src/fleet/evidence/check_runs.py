"""What checks said of trees: one store of them, so that a check that was just run on a tree is not run on it again."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from fleet.core.proof import CheckSpec
from fleet.evidence.receipt import Check
from fleet.host import database

SCHEMA = """
CREATE TABLE IF NOT EXISTS check_runs (key TEXT PRIMARY KEY, at REAL NOT NULL, facts TEXT NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS check_runs_at ON check_runs (at);
"""
FIND = "SELECT facts FROM check_runs WHERE key = :key AND at BETWEEN :since AND :now"
KEEP = "INSERT INTO check_runs VALUES (:key, :at, :facts) ON CONFLICT DO UPDATE SET at = :at, facts = :facts"
FORGET = "DELETE FROM check_runs WHERE at < :before"
VALID_S = 86_400.0  # what else a check depends on, such as the machine's own programs, is no part of the key
READ = msgspec.json.Decoder(Check)  # made once, here: msgspec crashes when two threads need it first at the same time


def run_key(tree: str, directory: str, spec: CheckSpec, lent: Sequence[Sequence[object]], path: str, fence: str) -> str:
    """What a run of a check is known by: everything that decides what it says."""
    whole = [1, tree, directory, spec.run, spec.timeout, lent, path, fence]
    return hashlib.sha256(json.dumps(whole, ensure_ascii=True).encode()).hexdigest()


class CheckRuns:
    """The runs of the last day, in fleet.db: of supervisors, and of landings. A check that could not start, or was cut
    off, is no run.
    """

    def __init__(self, home: Path) -> None:
        self._file = database.path(home)

    def find(self, key: str) -> Check | None:
        now = time.time()
        rows = database.ask(self._file, SCHEMA, FIND, {"key": key, "since": now - VALID_S, "now": now})
        try:
            return READ.decode(rows[0][0]) if rows else None
        except msgspec.MsgspecError:  # of another version
            return None

    def keep(self, key: str, check: Check) -> None:
        now = time.time()
        with database.changing(self._file, SCHEMA) as db:
            db.execute(FORGET, {"before": now - VALID_S})
            db.execute(KEEP, {"key": key, "at": now, "facts": msgspec.json.encode(check).decode()})
