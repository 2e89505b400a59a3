"""What really happened: the ledger, the journals, the receipts; with a real database, real files and the real git."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from fleet import places
from fleet.core import FleetError
from fleet.core.work import AGENT, Attempt, Ending, Limits, Verdict
from fleet.evidence import snapshot
from fleet.evidence.journal import Journal
from fleet.evidence.ledger import Ledger
from fleet.evidence.receipt import Check, Process, Receipt, Result, examine, load_receipt, load_snapshot, save
from fleet.evidence.snapshot import Snapshot, changed, look, walk
from fleet.host import database, git, locks

NEW = Attempt("", "t1", 0, "c", "m", "/", "me", 1.0)


# ---- the ledger


def test_attempts_are_numbered_by_their_task_and_none_is_lost_when_many_begin_at_once(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda n: ledger.begin(replace(NEW, task=f"t{n % 2}")), range(20)))
    assert sorted(one.id for one in made) == sorted(f"t{task}.{n}" for task in range(2) for n in range(1, 11))
    assert [one.number for one in ledger.of("t0")] == list(range(1, 11))
    assert {task: one.number for task, one in ledger.last_of_each().items()} == {"t0": 10, "t1": 10}
    assert {task: one.number for task, one in ledger.last_of(["t1", "t9"]).items()} == {"t1": 10}
    assert ledger.of("t9") == []


def test_what_is_saved_comes_back_whole_and_a_verdict_settles(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    begun = ledger.begin(NEW)
    full = replace(
        begun, branch="b", base="c0", started=2.0, ended=3.5, cause="x\n\x1b", retry_after=1.5, session="s",
        resumed=True, events=3, tokens=0, cost=0.25, tools={"Bash": 2}, limits=Limits(1.0, 2, 3),
        origins={"timeout": "task"}, offset=9,
    )  # fmt: skip
    ledger.save(full)
    assert Ledger(tmp_path).get("t1.1") == full
    assert ledger.unsettled() == [full]
    settled = replace(full, ending=Ending.CRASHED, verdict=Verdict.RETRY)
    ledger.save(settled)
    assert (ledger.unsettled(), ledger.get("t1.1")) == ([], settled)
    with pytest.raises(FleetError):
        ledger.get("t1.2")


def test_how_much_a_model_reads_is_remembered_once_an_agent_has_said_so(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    begun = ledger.begin(replace(NEW, coder="c", model="m"))
    guessed = replace(begun, verdict=Verdict.RETRY, context_limit=5, context_from="fleet's default")
    ledger.save(guessed)
    assert ledger.context("c", "m") is None, "a default is nobody's word"
    for limit in (200_000, 1_000_000):
        ledger.save(replace(guessed, context_limit=limit, context_from=AGENT))
    assert ledger.context("c", "m") == 1_000_000
    assert (ledger.context("c", None), ledger.context("other", "m")) == (None, None)


def test_an_attempt_that_an_older_fleet_wrote_down_is_read(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    begun = ledger.begin(NEW)
    with database.changing(database.path(tmp_path)) as db:
        facts = json.loads(db.execute("SELECT facts FROM attempts").fetchone()[0])
        for name in ("recent", "context_from", "handover", "asking"):
            del facts[name]
        facts["limits"] = {"timeout": 1.0, "attempts": 2, "output": 3}
        db.execute("UPDATE attempts SET facts = ?", [json.dumps(facts)])
    assert ledger.get(begun.id) == replace(begun, limits=Limits(1.0, 2, 3))


def test_forgiving_touches_what_is_settled_only(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    ledger.save(replace(ledger.begin(NEW), verdict=Verdict.FAILED, ending=Ending.CRASHED))
    running = ledger.begin(NEW)
    ledger.begin(replace(NEW, task="t2"))
    ledger.forgive("t1")
    assert [one.forgiven for one in ledger.of("t1")] == [True, False]
    assert ledger.get(running.id).verdict is None
    assert [one.forgiven for one in ledger.of("t2")] == [False]


# ---- journals


def lines(path: Path) -> list[object]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_journal_goes_on_where_it_was_and_cuts_off_what_a_crash_tore(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    first = Journal(path)
    assert first.last == {}
    first.append([{"id": 1, "text": "ü\n\x1b"}, {"id": 2}])
    first.append([])
    first.close()
    assert path.stat().st_mode & 0o777 == 0o600
    with path.open("ab") as file:
        file.write(b'{"id": 3, "te')
    second = Journal(path)
    assert second.last == {"id": 2}
    second.append([{"id": 3}])
    second.close()
    assert lines(path) == [{"id": 1, "text": "ü\n\x1b"}, {"id": 2}, {"id": 3}]


def test_what_stands_in_a_journals_place_is_never_written_through(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("precious\n")
    for name, plant in (
        ("link", lambda path: path.symlink_to(tmp_path / "precious")),
        ("hard", lambda path: path.hardlink_to(tmp_path / "precious")),
        ("pipe", os.mkfifo),
        ("directory", lambda path: path.mkdir()),
    ):
        path = tmp_path / name
        plant(path)
        journal = Journal(path)
        journal.append([{"id": 1}])
        journal.close()
        assert lines(path) == [{"id": 1}], name
    assert (tmp_path / "precious").read_text() == "precious\n"


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """As when the disk is full: no file of this process grows over the size."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    heard = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, heard)


def test_a_record_that_does_not_fit_on_the_disk_is_not_there_at_all(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    journal = Journal(path)
    journal.append([{"id": 1}])
    with files_of_at_most(40), pytest.raises(OSError, match=r"space|large"):
        journal.append([{"id": 2, "text": "x" * 100}])
    assert lines(path) == [{"id": 1}]
    assert journal.last == {"id": 1}
    journal.append([{"id": 2}])
    journal.close()
    assert lines(path) == [{"id": 1}, {"id": 2}]


WRITER = """
import sys
from pathlib import Path
from fleet.evidence.journal import Journal
for n in range(60):
    one = Journal(Path(sys.argv[1]))
    one.append([{"who": sys.argv[2], "n": n, "text": "x" * 2000}] * 3, numbered=True)
    one.close()
"""


def test_several_writers_keep_whole_lines_and_one_count(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    kept = Journal(path)  # open all the while, as a supervisor has it
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(path), str(n)]) for n in range(4)]
    while any(one.poll() is None for one in writers):
        kept.append([{"who": "me"}], numbered=True)
    kept.close()
    assert [one.returncode for one in writers] == [0] * 4
    found = [json.loads(line) for line in path.read_text().splitlines()]
    assert [one["id"] for one in found] == list(range(1, len(found) + 1))
    for who in "0123":
        assert [one["n"] for one in found if one["who"] == who] == [n // 3 for n in range(180)]


def test_a_torn_line_of_any_length_is_cut_off_whoever_writes_next(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    journal = Journal(path)
    journal.append([{"text": "whole"}], numbered=True)
    with path.open("ab") as file:
        file.write(b'{"id": 2, "te' + b"x" * 200_000)
    journal.append([{"text": "next"}], numbered=True)
    journal.close()
    assert lines(path) == [{"id": 1, "text": "whole"}, {"id": 2, "text": "next"}]


def test_a_journal_that_somebody_locks_for_ever_holds_nobody_up_for_long(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    journal = Journal(path)
    theirs = locks.take(path)
    assert theirs is not None
    with pytest.raises(OSError, match="locked"):
        journal.append([{"id": 1}])
    locks.release(theirs)
    journal.append([{"id": 1}])
    journal.close()
    assert lines(path) == [{"id": 1}]


# ---- receipts


def test_a_receipt_comes_back_whole_and_a_damaged_one_is_none(tmp_path: Path) -> None:
    path = tmp_path / "receipt.json"
    result = Result("a", None, [], [], None, ["notes"])
    receipt = Receipt(NEW, Process("exited", code=0), result, [Check("make", True, "exit 0", 0, 1.0, "")])
    save(path, receipt)
    assert load_receipt(path) == receipt
    assert path.stat().st_mode & 0o777 == 0o600
    for content in (b"", b"{", b"[]", b'{"attempt": 1}', path.read_bytes()[:-20], b"\xff"):
        path.write_bytes(content)
        assert load_receipt(path) is None, content
    path.unlink()
    assert load_receipt(path) is None
    path.symlink_to("/etc/hostname")
    assert load_snapshot(path) is None


@pytest.mark.parametrize(
    ("result", "effect"),
    [
        (Result("a", "a", [], [], [], []), False),
        (Result(None, None, [], [], [], []), False),
        (Result("a", "b", [], [], [], []), True),
        (Result(None, "b", [], [], None, None), True),
        (Result("a", "a", [], [], ["x"], None), True),
        (Result("a", "a", [], [], None, []), None),
        (Result("a", "a", [], [], [], None), None),
        (Result("a", "a", [], [], [], ["KNOWLEDGE.md"]), True),
        (Result("a", None, [], [], [], []), False),
    ],
)
def test_what_is_an_effect_and_what_is_unknown(result: Result, effect: bool | None) -> None:
    assert result.effect is effect


# ---- a directory, before and after


def commit(repo: Path, message: str = "work") -> str:
    run(repo, "add", "-A")
    run(repo, "commit", "-qm", message)
    return run(repo, "rev-parse", "HEAD")


def run(repo: Path, *args: str) -> str:
    who = ("-c", "user.name=n", "-c", "user.email=e@example.invalid", "-c", "commit.gpgSign=false")
    env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(["git", *who, *args], cwd=repo, env=env, capture_output=True, check=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    path = tmp_path / "repo"
    path.mkdir()
    run(path, "init", "-q", "-b", "main")
    (path / "one.txt").write_text("1\n")
    commit(path, "first")
    return path


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    path = tmp_path / "artifacts"
    path.mkdir()
    return path


def test_a_commit_is_seen_with_its_subject_and_its_lines(repo: Path, notes: Path) -> None:
    before = look(repo, notes)
    (repo / "one.txt").write_text("1\n2\n")
    (repo / "ü \t x.txt").write_text("a\nb\n")
    (repo / "bytes").write_bytes(b"\0\1\n")
    first = commit(repo, "more\n\nbody")
    second = (run(repo, "commit", "-q", "--allow-empty", "-m", "empty"), run(repo, "rev-parse", "HEAD"))[1]
    result = examine(repo, before, look(repo, notes))
    assert [(one.id, one.subject) for one in result.commits] == [(second, "empty"), (first, "more")]
    assert {one.path: (one.added, one.removed) for one in result.changes} == {
        "one.txt": (1, 0), "ü \t x.txt": (2, 0), "bytes": (0, 0),
    }  # fmt: skip
    assert (result.base, result.head, result.uncommitted, result.effect) == (before.head, second, [], True)


def test_what_is_not_committed_is_seen_and_what_was_so_before_is_not_blamed_on_the_agent(
    repo: Path, notes: Path
) -> None:
    (repo / "mine.txt").write_text("dirty before")
    (repo / ".gitignore").write_text("ignored\n")
    before = look(repo, notes)
    assert examine(repo, before, look(repo, notes)).effect is False
    (repo / "ignored").write_text("x")
    assert examine(repo, before, look(repo, notes)).effect is False
    (repo / "new").mkdir()
    (repo / "new" / "a").write_text("x")
    (repo / "one.txt").unlink()
    assert examine(repo, before, look(repo, notes)).uncommitted == ["new/a", "one.txt"]
    (repo / "mine.txt").write_text("dirty again")
    assert examine(repo, before, look(repo, notes)).uncommitted == ["mine.txt", "new/a", "one.txt"]


def test_notes_are_seen_and_a_directory_without_git_is_looked_at_file_by_file(tmp_path: Path, notes: Path) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    (plain / "a").write_text("1")
    before = look(plain, notes)
    assert before.head is None
    (notes / "KNOWLEDGE.md").write_text("k")
    (plain / "a").write_text("22")
    (plain / "link").symlink_to("/")
    result = examine(plain, before, look(plain, notes))
    assert (result.uncommitted, result.artifacts, result.commits) == (["a", "link"], ["KNOWLEDGE.md"], [])


def test_too_many_files_to_look_at_are_unknown_and_not_nothing(tmp_path: Path, notes: Path) -> None:
    for n in range(snapshot.MOST + 1):
        (notes / str(n)).touch()
    assert walk(notes) is None
    assert changed(None, {}) is None
    result = examine(tmp_path, Snapshot(None, {}, {}), Snapshot(None, {}, None))
    assert (result.artifacts, result.effect) == (None, None)


def test_where_a_repository_stands(repo: Path, tmp_path: Path) -> None:
    tip = run(repo, "rev-parse", "HEAD")
    (repo / "sub").mkdir()
    assert places.prepare(repo / "sub") == places.Place(repo / "sub", "main", tip)
    run(repo, "branch", "feature/a")
    run(repo, "pack-refs", "--all")
    run(repo, "worktree", "add", "-q", str(tmp_path / "linked"), "feature/a")
    assert places.prepare(tmp_path / "linked") == places.Place(tmp_path / "linked", "feature/a", tip)
    run(repo, "checkout", "-q", "--detach")
    assert places.prepare(repo) == places.Place(repo, None, tip)
    unborn = tmp_path / "unborn"
    unborn.mkdir()
    run(unborn, "init", "-q", "-b", "trunk")
    assert places.prepare(unborn) == places.Place(unborn, "trunk", None)
    (tmp_path / "plain").mkdir()
    assert places.prepare(tmp_path / "plain") == places.Place(tmp_path / "plain")
    with pytest.raises(FleetError, match="does not exist"):
        places.prepare(tmp_path / "missing")
    assert not (tmp_path / "missing").exists()


def test_a_linked_worktree_a_shallow_clone_and_a_borrowing_one_are_looked_at_like_any_other(
    repo: Path, notes: Path, tmp_path: Path
) -> None:
    (repo / "one.txt").write_text("2\n")
    commit(repo, "second")
    run(repo, "worktree", "add", "-q", "-b", "linked", str(tmp_path / "linked"))
    run(tmp_path, "clone", "-q", "--depth=1", f"file://{repo}", "shallow")
    run(tmp_path, "clone", "-q", "--shared", str(repo), "shared")
    for name in ("linked", "shallow", "shared"):
        place = tmp_path / name
        before = look(place, notes)
        assert before.files == {}, name
        (place / "new.txt").write_text("x\n")
        assert examine(place, before, look(place, notes)).uncommitted == ["new.txt"], name
        commit(place, f"in {name}")
        result = examine(place, before, look(place, notes))
        assert [one.subject for one in result.commits] == [f"in {name}"], name
        assert [(one.path, one.added) for one in result.changes] == [("new.txt", 1)], name


def test_a_rewritten_history_and_a_branch_switched_are_seen(repo: Path, notes: Path) -> None:
    before = look(repo, notes)
    run(repo, "commit", "-q", "--amend", "-m", "rewritten")
    result = examine(repo, before, look(repo, notes))
    assert ([one.subject for one in result.commits], result.changes) == (["rewritten"], [])
    run(repo, "reset", "-q", "--hard", str(before.head))
    run(repo, "checkout", "-q", "-b", "other")
    assert examine(repo, before, look(repo, notes)).effect is False, "another name for the same commit is no work"


def test_what_git_keeps_beside_its_objects_to_be_faster_is_not_believed(repo: Path, notes: Path) -> None:
    """By the commit graph that the agent wrote, the commit that it found has the tree of its own."""
    before = look(repo, notes)
    (repo / "one.txt").write_text("1\n2\n")
    work = commit(repo)
    was, now = (bytes.fromhex(run(repo, "rev-parse", f"{of}^{{tree}}")) for of in (before.head, work))
    run(repo, "commit-graph", "write", "--reachable")
    graph = repo / ".git/objects/info/commit-graph"
    graph.chmod(0o644)
    graph.write_bytes(graph.read_bytes().replace(was, now))
    assert run(repo, "diff", "--numstat", str(before.head), work) == "", "git believes it"
    assert [one.path for one in examine(repo, before, look(repo, notes)).changes] == ["one.txt"]


def test_nothing_that_is_planted_in_a_repository_runs(repo: Path, notes: Path, tmp_path: Path) -> None:
    before = look(repo, notes)
    ran = tmp_path / "ran"
    evil = tmp_path / "evil"
    evil.write_text(f"#!/bin/sh\ntouch {ran}\ncat\n")
    evil.chmod(0o755)
    (repo / ".gitattributes").write_text("* filter=evil diff=evil merge=evil\n")
    (repo / "more.txt").write_text("x\n")
    tip = commit(repo, "planted")
    for key in (
        "core.fsmonitor", "core.pager", "core.editor", "core.sshCommand", "filter.evil.clean", "filter.evil.smudge",
        "filter.evil.process", "diff.evil.command", "diff.evil.textconv", "diff.external", "core.askPass",
        "uploadpack.packObjectsHook", "core.gitProxy", "gpg.program", "credential.helper",
    ):  # fmt: skip
        run(repo, "config", key, str(evil))
    run(repo, "config", "core.hooksPath", str(tmp_path))
    for hook in ("post-index-change", "pre-commit", "reference-transaction", "fsmonitor-watchman"):
        (tmp_path / hook).symlink_to(evil)
    (repo / "more.txt").write_text("changed\n")
    result = examine(repo, before, look(repo, notes))
    assert not ran.exists()
    assert (result.head, result.uncommitted) == (tip, ["more.txt"])
    assert {one.path for one in result.changes} == {".gitattributes", "more.txt"}


def test_a_repository_in_ruins_is_unknown_and_takes_nobody_along(repo: Path, notes: Path) -> None:
    before = look(repo, notes)
    own = repo / ".git"
    (own / "index").write_bytes(b"not an index")
    assert look(repo, notes).files is None
    (own / "index").unlink()
    os.mkfifo(own / "index")
    assert look(repo, notes).files is None
    for head in (b"", b"\xff\xfe", b"ref: ../../../etc/passwd\n", b"ref: HEAD\n", b"0" * 5000, b"deadbeef" * 5):
        (own / "HEAD").write_bytes(head)
        after = look(repo, notes)
        assert examine(repo, before, after).effect is not True or after.head == "deadbeef" * 5
    (own / "HEAD").unlink()
    os.mkfifo(own / "HEAD")
    found = threading.Thread(target=lambda: git.find(repo) and look(repo, notes))
    found.start()
    found.join(30)
    assert not found.is_alive(), "a pipe keeps nobody waiting"


def test_whatever_several_threads_read_is_ready_before_they_begin() -> None:
    """msgspec 0.22 shares what it knows of a dataclass before it is whole: two first readers at once are a crash."""
    kinds = "fleet.core.work.Attempt fleet.evidence.receipt.Receipt fleet.evidence.snapshot.Snapshot fleet.keeper.Exit"
    code = f"""
import importlib
import fleet.evidence.ledger, fleet.evidence.receipt, fleet.keeper
for kind in {kinds.split()!r}:
    module, _, name = kind.rpartition(".")
    assert "__msgspec_cache__" in vars(getattr(importlib.import_module(module), name)), kind
"""
    subprocess.run([sys.executable, "-c", code], check=True)
