"""The chain of receipts, what a receipt is held against, and which program ran: with a real database, files and git."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from shutil import rmtree

import pytest

from fleet import places
from fleet.coders import find
from fleet.coders.stream import parse
from fleet.core import FleetError
from fleet.core.proof import Change, ChangeKind, CheckSpec
from fleet.core.task import Spec
from fleet.core.work import Attempt, PlaceKind
from fleet.evidence import chain
from fleet.evidence.audit import Finding, audit
from fleet.evidence.heard import Listening
from fleet.evidence.receipt import Process, Receipt, Result, load_receipt, save
from fleet.host import program
from fleet.supervisor.trees import found_by, left_by
from fleet.supervisor.verify import CLEAN, Run, make_room
from standins.coders.scratch import until

TRANSCRIPTS = Path(__file__).parents[1] / "transcripts"
NOTHING = Result(None, None, [], [], None, None)


def receipt(attempt: str = "t1.1", result: Result = NOTHING, cwd: str = "/", cause: str = "") -> Receipt:
    task, _, number = attempt.rpartition(".")
    return Receipt(
        Attempt(attempt, task, int(number), "c", "m", cwd, "me", 1.0, cause=cause), Process("exited", 0), result
    )


# ---- the chain


def test_each_receipt_follows_the_one_before_it_however_many_are_written_at_once(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda n: chain.seal(tmp_path, receipt(f"t{n}.1"), chain.make_key(tmp_path)), range(24)))
    key, links = chain.load_key(tmp_path), chain.links(tmp_path)
    assert chain.faults(links, key, chain.load_head(tmp_path)) == []
    assert {one.hash for one in made} == {link.hash for link in links}
    assert len(links) == 24
    assert all(one.hash == chain.hash_of(one) and key is not None and key.signed(one.hash, one.mac) for one in made)


def test_the_same_receipt_again_is_the_one_that_it_was_and_a_new_one_is_added_behind(tmp_path: Path) -> None:
    key = chain.make_key(tmp_path)
    first = chain.seal(tmp_path, receipt("t1.1"), key)
    chain.seal(tmp_path, receipt("t2.1"), key)
    save(tmp_path / "receipt.json", first)
    assert chain.seal(tmp_path, load_receipt(tmp_path / "receipt.json") or first, key) == first, "after a crash"
    assert chain.seal(tmp_path, receipt("t1.1"), key) == first, "and from what was there before the file"
    anew = chain.seal(tmp_path, receipt("t1.1", cause="another"), key)
    links = chain.links(tmp_path)
    assert [link.attempt for link in links] == ["t1.1", "t2.1", "t1.1"]
    assert [link.hash for link in links] == [first.hash, links[1].hash, anew.hash]
    assert chain.faults(links, key, chain.load_head(tmp_path)) == []


def test_a_head_that_a_crash_left_behind_is_no_fault(tmp_path: Path) -> None:
    key = chain.make_key(tmp_path)
    chain.seal(tmp_path, receipt("t1.1"), key)
    head = chain.load_head(tmp_path)
    chain.seal(tmp_path, receipt("t2.1"), key)
    assert chain.faults(chain.links(tmp_path), key, head) == []


def test_who_wrote_the_head_cannot_be_told_without_the_key(tmp_path: Path) -> None:
    chain.seal(tmp_path, receipt("t1.1"), chain.make_key(tmp_path))
    said = [text for _, text in chain.faults(chain.links(tmp_path), None, chain.load_head(tmp_path))]
    assert said == ["the mac of t1.1's receipt cannot be checked: the key is gone"]
    said = [text for _, text in chain.faults([], None, chain.load_head(tmp_path))]
    assert said == ["whether the end of the chain was cut off cannot be told: the key is gone"]


def test_without_a_key_a_receipt_is_chained_and_not_signed(tmp_path: Path) -> None:
    made = chain.seal(tmp_path, receipt(), None)
    assert (made.mac, made.hash) == ("", chain.hash_of(made))
    (_, said), _ = chain.faults(chain.links(tmp_path), chain.make_key(tmp_path), None)
    assert said == "the receipt of t1.1 was written without a key, so nobody can tell who wrote it"


def test_a_key_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    with ThreadPoolExecutor(16) as pool:
        made = set(pool.map(lambda _: chain.make_key(tmp_path).secret, range(64)))
    path = chain.key_path(tmp_path)
    assert made == {path.read_bytes()}
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def _lend(path: Path) -> None:
    path.chmod(0o640)


def _open_directory(path: Path) -> None:
    path.parent.chmod(0o755)


def _link(path: Path) -> None:
    path.rename(path.with_name("other"))
    path.symlink_to("other")


def _second_name(path: Path) -> None:
    os.link(path, path.with_name("other"))


def _short(path: Path) -> None:
    path.write_bytes(b"0123")


@pytest.mark.parametrize("harm", [_lend, _open_directory, _link, _second_name, _short])
def test_a_key_that_cannot_be_trusted_is_refused_with_what_to_do(tmp_path: Path, harm: Callable[[Path], None]) -> None:
    chain.make_key(tmp_path)
    harm(chain.key_path(tmp_path))
    with pytest.raises(FleetError) as refused:
        chain.make_key(tmp_path)
    assert refused.value.hint is not None
    assert refused.value.hint.startswith(("chmod", "mv"))


# ---- what a receipt names


def git(at: Path, *args: str) -> str:
    who = ("-c", "user.name=p", "-c", "user.email=p@example.invalid")
    return subprocess.run(["git", *who, *args], cwd=at, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def landed(tmp_path: Path) -> Receipt:
    """A repository with a pinned result: one file changed, one moved."""
    top = tmp_path / "p"
    top.mkdir()
    git(top, "init", "-q", "-b", "main")
    (top / "a.txt").write_text("one\n")
    (top / "old.txt").write_text("1\n2\n3\n4\n5\n6\n")
    git(top, "add", ".")
    git(top, "commit", "-qm", "first")
    base = git(top, "rev-parse", "HEAD^{tree}")
    (top / "a.txt").write_text("one\ntwo\n")
    git(top, "mv", "old.txt", "new.txt")
    git(top, "commit", "-qam", "second")
    landing = git(top, "rev-parse", "HEAD")
    git(top, "update-ref", "refs/fleet/attempts/t1.1", landing)
    changes = [
        Change("a.txt", 1, 0),
        Change("new.txt", 0, 0, ChangeKind.RENAMED, old_path="old.txt"),
    ]
    result = replace(NOTHING, head=landing, changes=changes, base_tree=base, tree=git(top, "rev-parse", "HEAD^{tree}"))
    return receipt(cwd=str(top), result=replace(result, landing=landing))


def looked_at(home: Path, found: Receipt) -> dict[str, Finding]:
    key = chain.make_key(home)
    sealed = chain.seal(home, found, key)
    save(home / "receipt.json", sealed)
    seen = audit(found.attempt, home, chain.links(home)[-1], ())
    return {finding.what: finding for finding in seen.findings}


def test_a_result_that_is_there_as_it_was_holds(tmp_path: Path, landed: Receipt) -> None:
    found = looked_at(tmp_path, landed)
    assert {what: finding.holds for what, finding in found.items()} == {
        "receipt": True, "chain": True, "ledger": True, "transcript": None, "commit": True, "diff": True,
    }  # fmt: skip


def test_a_bare_repository_is_one(tmp_path: Path, landed: Receipt) -> None:
    bare = tmp_path / "p.git"
    git(tmp_path, "clone", "-q", "--mirror", str(tmp_path / "p"), str(bare))
    found = looked_at(tmp_path, replace(landed, attempt=replace(landed.attempt, repository=str(bare))))
    assert (found["commit"].holds, found["diff"].holds) == (True, True)


def test_a_ref_that_was_moved_is_found(tmp_path: Path, landed: Receipt) -> None:
    git(tmp_path / "p", "update-ref", "refs/fleet/attempts/t1.1", "HEAD~1")
    assert "refs/fleet/attempts/t1.1 names" in looked_at(tmp_path, landed)["commit"].text
    git(tmp_path / "p", "update-ref", "-d", "refs/fleet/attempts/t1.1")
    assert "names nothing" in looked_at(tmp_path, landed)["commit"].text


def test_a_commit_with_another_tree_is_found(tmp_path: Path, landed: Receipt) -> None:
    other = replace(landed, result=replace(landed.result, tree=landed.result.base_tree))
    assert "and the receipt says" in looked_at(tmp_path, other)["commit"].text


def test_a_commit_that_is_gone_is_found(tmp_path: Path, landed: Receipt) -> None:
    missing = looked_at(tmp_path, replace(landed, result=replace(landed.result, landing="0" * 40)))["commit"]
    assert (missing.holds, "is gone" in missing.text) == (False, True)


@pytest.mark.parametrize(
    "changes",
    [
        [],
        [Change("a.txt", 1, 0)],
        [Change("a.txt", 9, 0), Change("new.txt", 0, 0, ChangeKind.RENAMED, old_path="old.txt")],
        [Change("a.txt", 1, 0), Change("new.txt", 0, 0, old_path="old.txt"), Change("b.txt", 1, 0)],
    ],
    ids=["nothing", "a path left out", "other lines", "a path too many"],
)
def test_a_diff_that_is_told_wrong_is_found(tmp_path: Path, landed: Receipt, changes: list[Change]) -> None:
    told = replace(landed, result=replace(landed.result, changes=changes))
    assert looked_at(tmp_path, told)["diff"].holds is False


def test_an_audit_runs_nothing_of_what_is_planted_in_the_repository(tmp_path: Path, landed: Receipt) -> None:
    top, ran = tmp_path / "p", tmp_path / "ran"
    git(top, "config", "core.fsmonitor", f"touch {ran}")
    git(top, "config", "diff.external", f"touch {ran}")
    git(top, "config", "diff.bad.textconv", f"touch {ran}; cat")
    (top / ".gitattributes").write_text("* diff=bad\n")
    assert all(finding.holds is not False for finding in looked_at(tmp_path, landed).values())
    assert not ran.exists()


# ---- its checks, again


@pytest.mark.parametrize("kind", [PlaceKind.WORKTREE, PlaceKind.CLONE])
def test_what_is_kept_of_a_place_that_was_removed_is_checked_out_again(tmp_path: Path, kind: PlaceKind) -> None:
    top = tmp_path / "p"
    (top / "sub").mkdir(parents=True)
    git(top, "init", "-q", "-b", "main")
    (top / "sub/a.txt").write_text("one\n")
    git(top, "add", ".")
    git(top, "commit", "-qm", "first")
    git(tmp_path, "init", "-q")  # a repository above, which is nobody's here
    project = places.project(top)
    assert project is not None
    path = places.path_for(places.root_for(tmp_path / "home", project, None), "fleet/t1")
    place = places.make(kind, project, "fleet/t1", git(top, "rev-parse", "HEAD"), path)
    attempt = Attempt(
        "t1.1", "t1", 1, "c", None, str(place.path / "sub"), "me", 1.0, place=kind, repository=str(top),
        spec=Spec(str(top / "sub")),
    )  # fmt: skip
    attempt = found_by(attempt, [])
    (place.path / "sub/a.txt").write_text("two\n")
    result = left_by(attempt, {}, {})
    rmtree(place.path)
    places.record.forget(place.path)
    room = make_room(attempt, result, Run(CheckSpec("true"), CLEAN, 1), tmp_path / "out", tmp_path / "check")
    assert (room.cwd, (room.cwd / "a.txt").read_text()) == (tmp_path / "out/sub", "two\n")
    os.rename(top, tmp_path / "elsewhere")
    with pytest.raises(FleetError):
        make_room(attempt, result, Run(CheckSpec("true"), CLEAN, 1), tmp_path / "out", tmp_path / "check")


# ---- what is heard, in what real agents printed


@pytest.mark.parametrize(
    ("coder", "tools", "commands"),
    [
        ("claude", {"Bash", "Write"}, 1),
        ("codex", {"command_execution", "file_change"}, 1),
        ("opencode", {"bash"}, 1),
        ("gemini", {"run_shell_command", "read_file"}, 1),
        ("qwen", {"run_shell_command"}, 1),
    ],
)
def test_the_tools_and_commands_of_real_transcripts_are_heard(coder: str, tools: set[str], commands: int) -> None:
    told = Listening()
    content = (TRANSCRIPTS / coder / "works.jsonl").read_bytes()
    told.take(content)
    for line in content.splitlines():
        assert parse(line) is not None
        for event in find(coder, {}).read(line):
            told.add(event)
    found = told.heard(tells_tools=find(coder, {}).can.tools)
    assert tools <= set(found.tools)
    assert len(found.commands) >= commands
    assert any("made.txt" in one for one in found.commands)
    assert (found.unmatched, found.words) == (0, "It is made.")
    assert found.sha256 == hashlib.sha256(content).hexdigest()


# ---- which program ran


def script(path: Path, says: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho {says} >> {path.parent}/asked\necho agent {says}\n")
    path.chmod(0o755)
    return path


def test_a_program_is_found_in_the_agents_own_path_and_behind_its_links(tmp_path: Path) -> None:
    real = script(tmp_path / "lib/agent-1", "1.2.3")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/agent").symlink_to(real)
    found = program.find("agent", {"PATH": str(tmp_path / "bin")}, tmp_path)
    assert found is not None
    known = program.identify(tmp_path / "home", found, ask=False)
    assert (known.path, known.sha256) == (str(real), hashlib.sha256(real.read_bytes()).hexdigest())
    assert program.find("agent", {"PATH": "/nowhere"}, tmp_path) is None
    assert program.find("lib/agent-1", {}, tmp_path) == real


def test_a_program_is_asked_for_its_version_once_and_nobody_waits(tmp_path: Path) -> None:
    home, at = tmp_path / "home", script(tmp_path / "agent", "1.2.3")
    os.mkfifo(tmp_path / "asked")  # it answers when somebody listens, and not before
    known = [program.identify(home, at, ask=True) for _ in range(3)]
    assert {one.version for one in known} == {None}
    assert (tmp_path / "asked").read_text() == "1.2.3\n"
    assert until(lambda: program.with_version(home, known[0]).version) == "1.2.3"
    assert program.identify(home, at, ask=True).version == "1.2.3"


def test_another_file_in_its_place_is_another_program(tmp_path: Path) -> None:
    home, at = tmp_path / "home", script(tmp_path / "agent", "1.2.3")
    before = program.identify(home, at, ask=False)
    times = at.stat()
    at.write_text(at.read_text().replace("1.2.3", "1.2.4"))
    os.utime(at, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert program.identify(home, at, ask=False).sha256 != before.sha256
