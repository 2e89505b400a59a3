"""Agents on branches when something breaks around them: terminals, keepers, places, and whoever makes them."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from standins.coders.scratch import until
from standins.crashes import COMMITTED, KILLED, WHEN, Crash, begun, cut_short, restored
from standins.yard import Yard
from standins.yard import yard as opened

pytestmark = pytest.mark.tmux


@pytest.fixture
def yard(tmp_path: Path) -> Iterator[Yard]:
    with opened(tmp_path / "yard") as made:
        yield made


def test_when_the_tmux_server_is_killed_its_agents_end_and_their_places_stay(yard: Yard) -> None:
    stubborn = yard.create("stubborn", "ignore-signals\ndaemon\nwrite a.txt x\nwork")
    yard.create("plain", "write a.txt x")
    os.kill(int(yard.tmux("display-message", "-p", "#{pid}")), signal.SIGKILL)
    until(lambda: not yard.agents() and not yard.daemons())
    rows = yard.rows()
    assert {row["state"] for row in rows.values()} == {"ended"}
    assert all("terminal" in row["cause"] for row in rows.values()), rows
    assert (Path(stubborn["path"]) / "a.txt").read_text() == "x\n"
    assert yard.mended() == []
    gone = yard.fleet("attach", "plain")
    assert gone.code in (1, 3)
    refused = yard.fleet("prompt", "plain", "x")
    assert refused.code == 1
    assert "ended" in refused.err
    again = yard.create("another", "hello")  # a new server is started
    assert yard.took(again["attempt"]) == [b"hello"]
    ended = {one["branch"]: one for one in yard.kill("*")}
    assert yard.saved(ended["plain"]["saved"], "a.txt") == yard.saved(ended["stubborn"]["saved"], "a.txt") == b"x\n"


@pytest.mark.long
def test_a_terminal_that_was_renamed_is_found(yard: Yard) -> None:
    made = yard.create("renamed", "hello")
    yard.tmux("rename-session", "-t", "ai_renamed", "my own")
    yard.tmux("split-window", "-t", "my own", "cat")
    yard.ok("prompt", "renamed", "second")
    assert yard.took(made["attempt"])[-1] == b"second"
    assert yard.rows()["renamed"]["terminal"] == "my own"
    other = yard.create("beside", "hello")
    assert yard.mended() == [f"the terminal of renamed ({made['attempt']}) is called my own now: noted"]
    yard.kill("renamed")
    assert yard.rows().keys() == {"beside"}
    assert yard.sessions() == ["ai_beside"]
    assert yard.took(other["attempt"]) == [b"hello"]


@pytest.mark.long
def test_a_place_that_was_removed_by_hand(yard: Yard) -> None:
    made = yard.create("removed", "write a.txt x\ncommit kept")
    shutil.rmtree(made["path"])
    row = yard.rows()["removed"]
    assert row["state"] == "waiting"
    assert "its place is gone" in row["cause"]
    assert (row["ahead"], row["changed"]) == (None, None)
    yard.mended()
    assert "removed" in yard.rows()  # its agent lives
    (ended,) = yard.kill("removed")
    assert ended["ended"]
    assert yard.git("show", "removed:a.txt") == "x"
    assert len(yard.git("worktree", "list").splitlines()) == 1
    yard.create("removed")


def test_a_file_in_the_place_of_a_place_is_left_alone(yard: Yard) -> None:
    made = yard.create("changed", "write a.txt x")
    path = Path(made["path"])
    shutil.rmtree(path)
    path.write_text("mine\n")
    ran = yard.fleet("kill", "--force", "changed")
    assert ran.code == 1
    assert f"{path} is a file, and no place any more" in ran.err
    assert path.read_text() == "mine\n"
    path.unlink()
    yard.kill("changed")
    assert not yard.rows()


def test_who_finds_something_in_its_way_leaves_nothing_behind(yard: Yard) -> None:
    path = Path(yard.create("taken")["path"])
    yard.kill("taken")
    path.mkdir()
    (path / "mine.txt").write_text("mine\n")
    ran = yard.fleet("create", "taken")
    assert ran.code != 0
    assert "is in the way, and fleet did not make it" in ran.err
    assert not yard.rows()
    assert not yard.salvage()
    assert yard.mended() == []
    shutil.rmtree(path)
    yard.create("taken")


@pytest.mark.long
def test_a_worktree_that_was_removed_with_git(yard: Yard) -> None:
    made = yard.create("pruned", "hello")
    yard.git("worktree", "remove", "--force", made["path"])
    yard.ok("prompt", "pruned", "exit 0")
    until(lambda: yard.rows()["pruned"]["state"] == "ended")
    assert yard.mended() == [f"the place of pruned ({made['attempt']}) is gone, and its agent has ended: closed it"]
    assert not yard.rows()
    assert yard.branches() == {"main"}


def test_a_keeper_that_was_killed_is_missed(yard: Yard) -> None:
    made = yard.create("lost", "ignore-signals\ndaemon\nwrite a.txt x\nwork")
    os.kill(yard.rows()["lost"]["pid"], signal.SIGKILL)
    until(lambda: yard.rows()["lost"]["state"] == "dead")
    assert "--repair" in yard.rows()["lost"]["cause"]
    assert "the keeper of lost" in yard.mended()[0]
    assert not yard.agents()
    assert not yard.daemons()
    assert (Path(made["path"]) / "a.txt").exists()
    assert yard.saved(yard.kill("lost")[0]["saved"], "a.txt") == b"x\n"


def test_an_agent_that_crashes_at_once_is_not_said_to_work(yard: Yard, tmp_path: Path) -> None:
    """Seed fault: a missing or crashed agent is "active idle"."""
    broken = tmp_path / "bin"
    broken.mkdir()
    (broken / "claude").write_text("#!/bin/sh\necho 'no such model' >&2\nexit 3\n")
    (broken / "claude").chmod(0o755)
    ran = yard.fleet("create", "crashed", "-p", "hello", env={"PATH": f"{broken}:{yard.env['PATH']}"})
    assert ran.code == 1
    assert "not taken" in ran.err
    assert "no such model" in ran.err
    row = yard.rows()["crashed"]
    assert (row["state"], row["cause"]) == ("ended", "exit 3")
    missing = yard.fleet("create", "missing", env={"PATH": "/usr/bin:/bin:" + str(Path(yard.python).parent)})
    assert (missing.code, "claude is not installed" in missing.err) == (5, True)
    assert yard.rows().keys() == {"crashed"}


@pytest.mark.long
def test_repair_leaves_alone_what_is_being_made(yard: Yard) -> None:
    gate = yard.root / "gate"
    os.mkfifo(gate)
    (yard.project / "fleet.yaml").write_text(f"workspace: {{setup: ['cat {gate}']}}\n")
    making = yard.start("create", "slow", "-p", "hello")
    until(lambda: list(yard.home.glob("tasks/*/attempts/*/setup.log")))
    assert yard.rows()["slow"]["state"] == "starting"
    assert yard.mended() == []
    refused = yard.fleet("kill", "slow", "--force")
    assert (refused.code, "being made" in refused.err) == (1, True)
    gate.write_text("go on\n")
    _, said = making.communicate(timeout=60)
    assert making.returncode == 0, said
    assert yard.rows()["slow"]["state"] in ("working", "waiting")


def test_who_makes_agents_and_is_killed_leaves_what_repair_puts_right(yard: Yard) -> None:
    """The set-up command is under way: its place, its branch and its process are there, and its agent is not."""
    (yard.project / "fleet.yaml").write_text(
        "workspace: {setup: ['echo x >f; exec sleep 1000'], env: {PORT: '{port}'}}\n"
    )
    making = yard.start("create", "cut-off")
    until(lambda: list(yard.home.glob("places/*/cut-off-*/f")))
    making.kill()
    making.communicate()
    row = yard.rows()["cut-off"]
    assert row["state"] == "dead"
    assert "--repair" in row["cause"]
    assert yard.ok("list", "--repair").out.startswith("mended  the making of cut-off")
    assert not yard.rows()
    assert not yard.leaked()
    assert yard.branches() == {"main"}


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_who_is_stopped_while_set_up_runs_begins_no_agent_and_leaves_nothing(yard: Yard, sign: signal.Signals) -> None:
    (yard.project / "fleet.yaml").write_text("workspace: {setup: ['echo x >f; exec sleep 1000']}\n")
    making = yard.start("create", "stopped", "-p", "hello")
    until(lambda: list(yard.home.glob("places/*/stopped-*/f")))
    making.send_signal(sign)
    making.communicate(timeout=60)
    assert making.returncode == 128 + sign
    assert not yard.rows()
    assert not yard.leaked()
    assert yard.branches() == {"main"}


@pytest.mark.parametrize("when", WHEN)
@pytest.mark.long
def test_who_is_killed_while_git_makes_the_place_leaves_nothing(yard: Yard, when: str) -> None:
    """Every other step of it, and of ending an agent, is among the tests of promises under faults."""
    assert begun(yard, "cut-off", Crash("git", 1, when)).code == KILLED


@pytest.mark.parametrize(("at", "when"), [(4, "after"), (8, "orphan"), (12, "before")])
@pytest.mark.long
def test_who_is_killed_while_it_restores_something_leaves_nothing(yard: Yard, at: int, when: str) -> None:
    assert restored(yard, "cut-off", Crash("git", at, when)).code == KILLED


def _kill(yard: Yard) -> str:
    return yard.ok("kill", "--force", "cut-off").out


def _repair(yard: Yard) -> str:
    return yard.ok("list", "--repair").out


@pytest.mark.parametrize("clear", [_kill, _repair])
@pytest.mark.parametrize("kind", ["worktree", "clone"])
@pytest.mark.long
def test_what_somebody_puts_into_a_place_that_was_never_finished_is_saved(
    yard: Yard, kind: str, clear: Callable[[Yard], str]
) -> None:
    place = cut_short(yard, "cut-off", kind)
    (place / "mine.txt").write_text("mine\n")
    (place / "a.txt").write_text("all of it is mine\n")
    said = clear(yard)
    (name,) = yard.salvage()
    assert f"fleet salvage show {name}" in said
    assert not yard.leftovers()
    back = yard.root / "back"
    yard.ok("salvage", "restore", name, "--to", back)
    mine = {"a.txt": "all of it is mine\n", "mine.txt": "mine\n"}
    assert {path: (back / path).read_text() for path in (*COMMITTED, "mine.txt")} == COMMITTED | mine
    yard.git("worktree", "remove", "--force", str(back))


@pytest.mark.long
def test_who_makes_a_place_anew_that_was_never_finished_is_told_what_was_saved_of_it(yard: Yard) -> None:
    (cut_short(yard, "cut-off") / "mine.txt").write_text("mine\n")
    assert "fleet list --repair" in yard.fleet("create", "cut-off").err
    yard.ok("abort", yard.rows()["cut-off"]["task"])
    made = yard.create("cut-off")
    (name,) = yard.salvage()
    assert [f"fleet salvage show {name}" in line for line in made["warnings"]] == [True]
    assert yard.saved(name, "mine.txt") == b"mine\n"
    assert yard.git("status", "--porcelain", cwd=Path(made["path"])) == ""


@pytest.mark.parametrize("text", ["all of a\n", "all o", ""])
@pytest.mark.parametrize("kind", ["worktree", "clone"])
@pytest.mark.long
def test_of_a_place_that_was_never_finished_gits_own_files_are_not_saved(yard: Yard, kind: str, text: str) -> None:
    """One that git was killed over is cut short."""
    (cut_short(yard, "cut-off", kind) / "a.txt").write_text(text)
    _repair(yard)
    assert not yard.salvage()
    assert not yard.leftovers()


@pytest.mark.parametrize("when", ["after", "orphan"])
def test_what_somebody_puts_into_a_place_that_only_git_finished_is_saved(yard: Yard, when: str) -> None:
    assert yard.fleet("create", "cut-off", env=yard.crashing("git", 1, when)).code == KILLED
    (place,) = until(lambda: [one.parent for one in yard.home.glob("places/*/cut-off-*/README")])
    (place / "mine.txt").write_text("mine\n")
    (ended,) = yard.kill("cut-off")
    assert yard.saved(ended["saved"], "mine.txt") == b"mine\n"


def test_a_worktree_that_another_git_is_just_making_is_waited_for(yard: Yard) -> None:
    """git reads what it knows of all worktrees, and fails over one that is half written down."""
    half, folder = yard.project / ".git" / "worktrees" / "half", yard.root / "bin"
    half.mkdir(parents=True)
    folder.mkdir()
    (half / "gitdir").write_text(f"{yard.root}/half/.git\n")
    (half / "commondir").touch()
    done = f"echo x >>{folder}/count; [ $(wc -l <{folder}/count) -lt 3 ] || rm -rf {half}"
    (folder / "git").write_text(f'#!/bin/sh\n{done}\nexec /usr/bin/git "$@"\n')
    (folder / "git").chmod(0o755)
    yard.create("beside", env={"PATH": f"{folder}:{yard.env['PATH']}"})
    assert not half.exists()


def test_a_place_whose_git_was_removed_is_saved_all_the_same(yard: Yard) -> None:
    made = yard.create("cut-loose", "write a.txt x")
    (Path(made["path"]) / ".git").unlink()
    (ended,) = yard.kill("cut-loose")
    assert yard.saved(ended["saved"], "a.txt") == b"x\n"


@pytest.mark.long
def test_agents_of_a_repository_that_is_gone_are_seen_and_can_be_ended(yard: Yard) -> None:
    other = yard.place("other", git=True)
    made = yard.create("orphan", "write a.txt x", cwd=other)
    shutil.rmtree(other)
    row = yard.rows("--all")["orphan"]
    assert row["state"] == "waiting"
    assert "its repository is gone" in row["cause"]
    yard.ok("list", "--all", "--repair")
    yard.ok("abort", made["task"])
    assert not yard.agents()
    assert not yard.rows("--all")
    place = Path(made["path"])
    assert (place / "a.txt").read_text() == "x\n"
    shutil.rmtree(place.parent)


@pytest.mark.long
def test_what_is_too_large_to_be_saved_is_not_removed(yard: Yard) -> None:
    made = yard.create("large", "write a.txt x")
    with (Path(made["path"]) / "large.bin").open("wb") as file:
        file.truncate(1200 << 20)
    refused = yard.fleet("kill", "large", "--force")
    assert (refused.code, "fleet kill large --large" in refused.err) == (1, True)
    assert yard.rows()["large"]["state"] == "ended"
    file_there = Path(made["path"]) / "large.bin"
    assert file_there.stat().st_size == 1200 << 20
    file_there.unlink()
    assert yard.saved(yard.kill("large")[0]["saved"], "a.txt") == b"x\n"


@pytest.mark.long
def test_who_looks_does_not_bring_back_what_another_ended(yard: Yard) -> None:
    """Somebody who lists is stopped between reading of an agent and writing down what its record says."""
    made = yard.create("ended", "hello")
    with sqlite3.connect(yard.home / "fleet.db", isolation_level=None) as db:
        db.execute("BEGIN IMMEDIATE")
        looking = yard.start("list")
        events = yard.home / "tasks" / made["task"] / "events.jsonl"
        until(lambda: b"answer 1" in events.read_bytes())
        looking.send_signal(signal.SIGSTOP)
        db.execute("ROLLBACK")
    killing = yard.start("kill", "ended", "--force")
    with suppress(subprocess.TimeoutExpired):
        killing.wait(4)
    looking.send_signal(signal.SIGCONT)
    assert looking.wait(60) == 0
    assert killing.wait(60) == 0
    for one in (looking, killing):
        one.communicate()
    assert not yard.rows()
    assert yard.task(made["task"])["state"] == "cancelled"
    assert len([line for line in events.read_bytes().splitlines() if b"answer 1" in line]) == 1


@pytest.mark.long
def test_repair_leaves_alone_what_another_opens_meanwhile(yard: Yard) -> None:
    """Between its looks at the ledger and at tmux, another shell makes a whole agent."""
    folder = yard.root / "bin"
    folder.mkdir()
    path = yard.env["PATH"]
    program = f"{yard.python} -m fleet create meanwhile -p hello"
    once = f"[ -e {folder}/done ] || {{ touch {folder}/done; cd {yard.project}; PATH={path} {program} >&2; }}"
    (folder / "tmux").write_text(f'#!/bin/sh\n{once}\nexec /usr/bin/tmux "$@"\n')
    (folder / "tmux").chmod(0o755)
    said = yard.ok("list", "--repair", "--json", env={"PATH": f"{folder}:{path}"})
    assert (folder / "done").exists()
    assert said.json() == []
    row = yard.rows()["meanwhile"]
    assert row["state"] in ("working", "waiting")
    assert yard.took(row["attempt"]) == [b"hello"]


@pytest.mark.long
def test_a_broken_fleet_yaml_takes_nobodys_agents_away(yard: Yard) -> None:
    made = yard.create("there", "hello")
    (yard.project / "fleet.yaml").write_text("workspace: [")
    assert yard.rows()["there"]["state"] == "waiting"
    yard.ok("prompt", "there", "second")
    assert yard.took(made["attempt"])[-1] == b"second"
    assert "answer 1" in yard.ok("logs", "there").out
    assert yard.mended() == []
    refused = yard.fleet("create", "another")
    assert (refused.code, "fleet.yaml" in refused.err) == (2, True)
    yard.kill("there")
