"""Scope through the real program: an agent that touches what it may not is seen while it works."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from standins.coders.scratch import Record, Scratch, scratch, until

GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@example.invalid")
STRAYS = f"""\
mkdir -p .github/workflows; echo on: push > .github/workflows/ci.yml
{" ".join(GIT)} add -A; {" ".join(GIT)} commit -qm ci
echo more > inside.txt; echo said; exec sleep 100000
"""
ODD = """mkdir .github; echo on: push > ".github/$(printf '\\377').yml"; exec sleep 100000"""
SAID = ".github/workflows/ci.yml is CI, which is protected"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Scratch]:
    with scratch(tmp_path) as made:
        made.settle(
            "coder=strays", "model=", "limits.attempts=1",
            coders={name: {"argv": ["/bin/sh", "-c", does]} for name, does in (("strays", STRAYS), ("odd", ODD))},
        )  # fmt: skip
        yield made


def project(home: Scratch, name: str, yaml: str) -> Path:
    made = home.place(name, git=True)
    (made / "fleet.yaml").write_text(yaml)
    (made / "dirty.lock").write_text("was there before")
    subprocess.run([*GIT, "add", "fleet.yaml"], cwd=made, check=True)
    subprocess.run([*GIT, "commit", "-qm", "demands"], cwd=made, check=True)
    return made


def flagged(home: Scratch, task: str) -> list[tuple[str, str, str]]:
    path = home.home / "tasks" / task / "events.jsonl"
    told: list[Record] = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [(one["path"], one["rule"], one["text"]) for one in told if one["kind"] == "scope_breach"]


def test_a_breach_is_flagged_while_the_agent_works_and_ends_it_only_where_that_is_wanted(home: Scratch) -> None:
    watched = home.add("watched", "--cwd", project(home, "watched", "scope: {deny: [keys/]}"), "--place", "inplace")
    ended = home.add("ended", "--cwd", project(home, "ended", "scope: {on_breach: end}"))
    odd = home.add("odd", "--cwd", project(home, "odd", "scope: {on_breach: end}"), "--coder", "odd")
    supervisor = home.run()
    breach = (".github/workflows/ci.yml", "protected", SAID)
    assert until(lambda: flagged(home, watched)) == [breach], "and neither what it may touch nor what was there before"
    row = home.task(watched)
    assert (row["state"], row["ended"]) == ("working", None)
    assert row["cause"] == f"outside its scope: {SAID}"
    assert supervisor.hear("settled", task=ended)["ending"] == "out of scope"
    assert flagged(home, ended) == [breach]
    assert supervisor.hear("settled", task=odd)["ending"] == "out of scope", "whatever the file is called"
    row = home.task(ended)
    assert (row["state"], row["cause"]) == ("failed", f"{SAID}; your turn (1 try): fleet show {ended} · retry")
    assert home.task(watched)["state"] == "working", "a flag ends nobody"
    home.ok("abort", watched)


CAREFUL = f"""\
echo more >> README; echo secret word > y.dat
{" ".join(GIT)} add -A; {" ".join(GIT)} commit -qm work; echo later > z.dat
"""


def test_files_that_git_filters_or_whose_lines_it_ends_otherwise_are_nobodys_change(home: Scratch) -> None:
    home.settle("coder=careful", coders={"careful": {"argv": ["/bin/sh", "-c", CAREFUL]}})
    made = home.place("made", git=True)
    (made / ".gitattributes").write_text("*.dat filter=up\n")
    (made / "x.dat").write_text("old word\n")
    for setting in ("filter.up.clean=tr a-z A-Z", "filter.up.smudge=tr A-Z a-z", "core.autocrlf=true"):
        subprocess.run([*GIT, "config", *setting.split("=")], cwd=made, check=True)
    subprocess.run([*GIT, "add", "-A"], cwd=made, check=True, capture_output=True)
    subprocess.run([*GIT, "commit", "-qm", "more"], cwd=made, check=True)
    allowed = ("--cwd", made, "--allow", "README", "--allow", "y.dat", "--check", "test -e y.dat && test ! -e z.dat")
    ids = [home.add(kind, *allowed, "--place", kind) for kind in ("worktree", "inplace")]
    home.drain()
    for task in ids:
        assert (home.task(task)["state"], home.task(task)["proof"]) == ("done", "verified"), home.task(task)
        result = home.receipt(task)["result"]
        assert [one["path"] for one in result["changes"]] == ["README", "y.dat"]
        assert (result["left_out"], result["landing"]) == (["z.dat"], result["head"])
        landed = subprocess.check_output([*GIT, "show", f"refs/fleet/attempts/{task}.1:y.dat"], cwd=made)
        assert landed == b"SECRET WORD\n"
