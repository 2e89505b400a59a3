"""A check that cannot start, or was red before the agent began, is not the agent's fault."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from standins.coders.scratch import Record, Scratch, scratch, until

WHO = ("-c", "user.name=n", "-c", "user.email=n@example.invalid")
RUNNER = """\
#!/bin/sh
test -e fixed.txt || { echo 'FAILED test_app.py::test_euros - 12.3 is not 12.30'; exit 1; }
echo 1 passed in 0.1s
"""
PROJECT = "project: {name: shop}\nworkspace: {place: worktree}\n"
AGENTS = {
    "fixes": "date >fixed.txt",
    "builds": "printf '#!/bin/sh\\ntest -e fixed.txt\\n' >build.sh; chmod +x build.sh; date >fixed.txt",
}
VENV = ".venv/bin/pytest -q"
TASKS: dict[str, tuple[str, ...]] = {
    "cannot start": ("fixes", "--check", VENV),
    "cannot start either": ("fixes", "--check", VENV),
    "is lent it": ("fixes", "--check", VENV, "--needs", ".venv"),
    "is lent it, too": ("fixes", "--check", VENV, "--needs", "./.venv/"),
    "no such program": ("fixes", "--check", "no-such-program --all"),
    "builds its check": ("builds", "--check", "./build.sh"),
    "editable": ("fixes", "--check", "editable/bin/pytest", "--needs", "editable"),
}


@dataclass(frozen=True)
class Day:
    home: Scratch
    repo: Path
    ids: dict[str, str]
    said: list[Record]

    def row(self, name: str) -> Record:
        return self.home.task(self.ids[name])

    def prompt(self, name: str) -> str:
        return self.home.artifact(self.ids[name], "prompt").read_text()

    def log(self, event: str, *names: str) -> list[Record]:
        tasks = [self.ids[name] for name in names]
        return [one for one in self.said if one["event"] == event and one["task"] in tasks]


def _shop(home: Scratch) -> Path:
    """A project whose runner stands in a directory that git ignores, and another one that leads back to the project."""
    repo = home.place("shop", git=True)
    (repo / "fleet.yaml").write_text(PROJECT)
    (repo / ".gitignore").write_text(".venv/\neditable/\n")
    for name in (".venv", "editable"):
        program = repo / name / "bin/pytest"
        program.parent.mkdir(parents=True)
        program.write_text(RUNNER)
        program.chmod(0o755)
    site = repo / "editable/lib/python3.12/site-packages"
    site.mkdir(parents=True)
    (site / "shop.pth").write_text(f"{repo}/src\n")
    for words in (("add", "-A"), (*WHO, "commit", "-qm", "shop")):
        subprocess.run(["git", *words], cwd=repo, check=True)
    return repo


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Day]:
    with scratch(tmp_path_factory.mktemp("day")) as home:
        repo = _shop(home)
        keep = 'cat >"$FLEET_ARTIFACT_DIR/prompt"; '
        home.settle(
            "max_concurrent=4", "backoff=0s", "limits.attempts=2",
            coders={name: {"argv": ["/bin/sh", "-c", keep + do]} for name, do in AGENTS.items()},
        )  # fmt: skip
        ids = home.add_all({name: ("--cwd", repo, "--coder", coder, *more) for name, (coder, *more) in TASKS.items()})
        yield Day(home, repo, ids, home.drain())


def test_a_check_that_cannot_start_holds_its_task_and_uses_up_no_attempt(day: Day) -> None:
    task, row = day.ids["cannot start"], day.row("cannot start")
    assert (row["state"], row["attempts"], row["started"]) == ("blocked", 0, None), day.said
    why = ".venv/bin/pytest is ignored by git. Lend it: fleet edit"
    assert row["cause"] == f"the check cannot start in a clean checkout: {why} {task} --needs .venv"
    assert not day.home.artifact(task, "prompt").exists(), "no agent ran"
    shown = day.home.ok("show", task).out
    assert f"✗ {VENV}: exit 127" in shown
    assert ".venv/bin/pytest: not found" in shown
    assert ".venv/bin/pytest: not found" in day.home.ok("task", task, "check").out
    why = f"no-such-program is not on PATH. Install it, then: fleet retry {day.ids['no such program']}"
    assert day.row("no such program")["cause"].endswith(f"cannot start in a clean checkout: {why}")


def test_what_it_needs_is_lent_to_it_and_its_agent_is_told_what_was_red(day: Day) -> None:
    row = day.row("is lent it")
    assert (row["state"], row["proof"], row["attempts"]) == ("done", "verified", 1), row["cause"]
    red = f'check "{VENV}" failed: test_app.py::test_euros: 12.3 is not 12.30'
    assert "what you find here, and it failed." in day.prompt("is lent it")
    assert red in day.prompt("is lent it")
    assert f"was red: {red}" in " ".join(day.home.ok("show", day.ids["is lent it"]).out.split())


def test_lending_it_lets_a_held_task_go_on(day: Day) -> None:
    task = day.ids["cannot start either"]
    assert day.home.ok("edit", task, "--needs", ".venv").out == f"Changed {task}: needs\n"
    day.home.drain()
    row = day.row("cannot start either")
    assert (row["state"], row["proof"]) == ("done", "verified"), row["cause"]


def test_tasks_that_begin_with_the_same_share_one_run(day: Day) -> None:
    both = ("is lent it", "is lent it, too")
    assert [len(day.log("base check begun", *both)), len(day.log("agent started", *both))] == [1, 2]


def test_what_the_task_can_make_is_merely_red(day: Day) -> None:
    row = day.row("builds its check")
    assert (row["state"], row["attempts"]) == ("done", 1), row["cause"]
    assert "./build.sh" in day.prompt("builds its check")


def test_what_leads_into_the_users_own_files_verifies_nothing(day: Day) -> None:
    row = day.row("editable")
    assert (row["state"], row["proof"]) == ("done", "unverified")
    why = 'check "editable/bin/pytest" did not test what it left alone: editable leads to src'
    assert day.home.shown(day.ids["editable"])["history"][-1]["reason"] == why


def test_a_base_that_was_just_verified_is_not_run_again_nor_is_a_check_that_wants_none(day: Day) -> None:
    home, repo = day.home, day.repo
    landed = home.receipt(day.ids["is lent it"])["result"]["landing"]
    subprocess.run(["git", "merge", "-q", landed], cwd=repo, check=True)
    fixed = home.add("again", "--cwd", repo, "--coder", "builds", "--check", VENV, "--needs", ".venv")
    never = home.place("never", git=True)
    (never / "fleet.yaml").write_text("project: {name: n}\nchecks: [{run: no-such-program, before: false}]\n")
    task = home.add("never before", "--cwd", never, "--coder", "fixes")
    said = home.drain()
    assert not [one for one in said if one["event"] == "base check begun"]
    assert home.task(task)["cause"].startswith('check "no-such-program" failed: exit 127')
    assert home.task(fixed)["proof"] == "verified"


def test_adding_looks_at_the_check_and_runs_nothing(day: Day) -> None:
    def said(check: str, *more: str) -> list[str]:
        ran = day.home.ok("add", "later", "--cwd", day.repo, "--check", check, *more)
        task = ran.out.split()[1].rstrip(":")
        day.home.ok("abort", task)
        return [line.replace(task, "ID") for line in ran.err.splitlines() if "check" in line]

    why = ".venv/bin/pytest is ignored by git, so a clean checkout is without it. Lend it: fleet edit ID --needs .venv"
    assert said(f"A=1 {VENV}") == [f"  the check may not start: {why}"]
    assert said("no-such-program --all") == ["  the check may not start: no-such-program is not on PATH here"]
    for fine in ("make test", "cd x && ./build.sh", "$RUNNER x"):
        assert said(fine) == []
    assert said(VENV, "--needs", ".venv") == []
    wrong = day.home.fleet("add", "later", "--needs", "../venv")
    assert (wrong.code, wrong.err.splitlines()[0]) == (
        2, "fleet: --needs: '../venv' must be a plain path inside the project, such as .venv",
    )  # fmt: skip


def test_a_run_on_the_base_ends_with_its_supervisor_and_with_its_task(tmp_path: Path) -> None:
    with scratch(tmp_path) as home:
        gate, never = home.root / "gate", home.root / "never"
        os.mkfifo(gate)
        os.mkfifo(never)
        home.settle("coder=works", coders={"works": {"argv": ["/bin/sh", "-c", "date >work.txt"]}})
        place = home.place("p", git=True)
        task = home.add("work", "--cwd", place, "--check", f"test -e work.txt || {{ cat {gate}; exit 3; }}")
        for sign in (signal.SIGKILL, signal.SIGTERM):
            supervisor = home.run()
            supervisor.hear("base check begun")
            until(home.keepers)
            supervisor.stop(sign)
            if sign == signal.SIGTERM:
                until(lambda: not home.keepers())
        supervisor = home.run()
        supervisor.hear("base check begun")
        unwanted = home.add("too late", "--cwd", place, "--check", f"cat {never}")
        supervisor.hear("base check begun", task=unwanted)
        home.ok("abort", unwanted)
        with gate.open("w"):  # the check on the base reads it to its end
            pass
        supervisor.hear("settled", task=task)
        rows = home.tasks()
        assert (rows[task]["proof"], rows[task]["attempts"]) == ("verified", 1)
        assert (rows[unwanted]["state"], rows[unwanted]["started"]) == ("cancelled", None)
