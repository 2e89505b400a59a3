"""What agents in terminals did is judged as that of queued tasks is: while it stands there, and when they are ended."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from standins.coders.scratch import Record
from standins.yard import Yard
from standins.yard import yard as opened

pytestmark = pytest.mark.tmux
ASKED = """\
checks: [{run: grep -q fixed app.txt && test ! -e ignored.txt, name: fixed}]
scope: {deny: ["secret*"]}
"""


@pytest.fixture
def yard(tmp_path: Path) -> Iterator[Yard]:
    with opened(tmp_path / "a yard") as made:
        (made.project / ".gitignore").write_text("ignored.txt\n")
        (made.project / "app.txt").write_text("broken\n")
        yield made


def commit(yard: Yard, fleet_yaml: str) -> None:
    (yard.project / "fleet.yaml").write_text(fleet_yaml)
    yard.git("add", ".")
    yard.git("commit", "-qm", "what is asked")


def now(yard: Yard, branch: str, *how: str, code: int = 0) -> Record:
    """What `fleet verify` says of an agent that nobody has ended."""
    ran = yard.fleet("verify", branch, "--json", *how)
    assert ran.code == code, ran
    said = ran.json()
    assert said["receipts"] == []
    found: Record = said["now"][0]
    return found


def refs(yard: Yard) -> str:
    return yard.git("for-each-ref", "refs/fleet")


def bytes_of(place: Path) -> dict[str, str]:
    """Every file of a place, but for the objects of a clone."""
    found = (one for one in place.rglob("*") if one.is_file() and ".git/objects/" not in str(one))
    return {str(one): hashlib.sha256(one.read_bytes()).hexdigest() for one in found}


@pytest.mark.parametrize("kind", ["worktree", pytest.param("clone", marks=pytest.mark.long)])
def test_work_is_judged_as_it_stands_and_as_it_was_left(yard: Yard, kind: str) -> None:
    commit(yard, f"{ASKED}workspace: {{place: {kind}}}\n")
    made = yard.create("good", "write app.txt fixed\ncommit one\nwrite ignored.txt x\nwrite new.txt y")
    place = Path(made["path"])
    before, kept = bytes_of(place), refs(yard)
    found = now(yard, "good")
    assert (found["verdict"], found["reason"], found["alive"]) == ("verified", "1 check passed", True)
    assert (found["result"]["uncommitted"], found["result"]["landing"]) == (["new.txt"], None)
    assert (found["tip"] == found["result"]["head"]) is (kind == "worktree")
    assert [(one["name"], one["passed"], one["network"]) for one in found["checks"]] == [("fixed", True, False)]
    unrun = now(yard, "good", "--no-run")
    assert (unrun["verdict"], "fleet verify good --run" in unrun["reason"]) == ("unverified", True)
    assert bytes_of(place) == before
    assert refs(yard) == kept

    (ended,) = yard.kill("good")
    assert (ended["proof"], "fleet verify good --run" in ended["reason"]) == ("unverified", True)
    receipt = yard.receipt(made["task"])
    assert (receipt["verdict"], receipt["attempt"]["verdict"]) == ("unverified", "cancelled")
    assert [one["path"] for one in receipt["result"]["changes"]] == ["app.txt", "new.txt"]
    landing = receipt["result"]["landing"]
    assert yard.git("rev-parse", f"refs/fleet/attempts/{made['attempt']}") == landing
    assert not place.exists()
    assert yard.git("ls-tree", "--name-only", landing).split() == [
        ".gitignore", "README", "app.txt", "fleet.yaml", "new.txt",
    ]  # fmt: skip
    shown = yard.task(made["task"])
    assert (shown["state"], shown["proof"]) == ("cancelled", "unverified")
    assert "ended by you, not checked" in yard.ok("tasks", "--all").out
    again = yard.ok("verify", "good", "--run")
    assert "verified now" in again.out


@pytest.mark.long
def test_what_is_not_right_is_refused_in_one_sentence(yard: Yard) -> None:
    commit(yard, ASKED)
    made = yard.ok(
        "multi", "--json", "bad:write app.txt worse", "idle:hello", "far:write app.txt fixed\nwrite secret x"
    )
    tasks = {one["branch"]: one for one in made.json()}
    for one in tasks.values():
        yard.rested(one["attempt"])
    reasons = {
        "bad": 'check "fixed" failed: exit 1', "idle": "what it left is what it found",
        "far": "secret may not be touched",
    }  # fmt: skip
    for branch, reason in reasons.items():
        found = now(yard, branch, code=1)
        assert (found["verdict"], found["holds"]) == ("refused", False)
        assert reason in found["reason"], found["reason"]
        assert bool(found["checks"]) is (branch == "bad")
    said = yard.fleet("verify", "far")
    assert "refused, as it stands now: secret" in said.out
    assert "checked now; its agent still runs. End it: fleet kill far" in said.err

    ended = {one["branch"]: one for one in yard.kill("*")}
    assert {name: one["proof"] for name, one in ended.items()} == {
        "bad": "unverified", "idle": "refused", "far": "refused",
    }  # fmt: skip
    ran = yard.fleet("verify", tasks["bad"]["task"], "--json", "--run")
    assert (ran.code, ran.json()["holds"]) == (1, False)
    assert 'check "fixed" failed: exit 1' in ran.json()["receipts"][0]["findings"][-1]["text"]
    assert yard.receipt(tasks["far"]["task"])["result"]["breaches"][0]["path"] == "secret"
    assert yard.ok("verify", "far", "--json").json()["receipts"][0]["verdict"] == "refused"


@pytest.mark.long
def test_what_stood_in_a_place_before_is_not_the_agents_work(yard: Yard) -> None:
    """An agent that was aborted leaves its place to the next; and a project puts files of its own into one."""
    first = yard.create("kept", "write a.txt x")
    assert now(yard, "kept")["reason"] == "nothing was given to check it with: add `checks:` to fleet.yaml"
    yard.ok("abort", first["task"])
    landing = yard.receipt(first["task"])["result"]["landing"]
    assert yard.git("show", f"{landing}:a.txt") == "x"
    (yard.project / "fleet.yaml").write_text("workspace: {setup: ['echo made >made.txt']}\n")
    second = yard.create("kept", "hello")
    assert now(yard, second["task"], code=1)["reason"] == "what it left is what it found"
    both = yard.fleet("verify", "kept", "--json").json()
    assert ([one["attempt"] for one in both["receipts"]], len(both["now"])) == ([first["attempt"]], 1)
