"""Why something failed is said where people and the next agent look."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from standins.coders.scratch import Record, Scratch, scratch

WHO = ("-c", "user.name=n", "-c", "user.email=n@example.invalid")
PRICER = "def euros(amount):\n    return f'{amount} EUR'\n"
MENDED = "def euros(amount):\n    return f'{amount:.2f} EUR'\n"
TESTS = """\
import pricer
def test_nothing_else():
    assert True
def test_euros():
    assert pricer.euros(12.3) == "12.30 EUR"
"""
# It mends what it is told of, and nothing that it was not told.
READS_THE_EVIDENCE = """\
cat >"$FLEET_ARTIFACT_DIR/prompt.${FLEET_ATTEMPT##*.}"
date >>notes.txt
told="What failed: test_pricer.py::test_euros: assert '12.3 EUR' == '12.30 EUR'"
grep -q "$told" "$FLEET_ARTIFACT_DIR/prompt.${FLEET_ATTEMPT##*.}" || exit 0
cat >pricer.py <<END
%s
END
"""
FAILED = "test_pricer.py::test_euros: assert '12.3 EUR' == '12.30 EUR'"
CHECK = f"{sys.executable} -m pytest -q -p no:cacheprovider"


@dataclass(frozen=True)
class Day:
    """Two tasks in one repository: one is mended on the second attempt, the other is given up."""

    home: Scratch
    mended: str
    given_up: str

    def prompt(self, task: str, number: int) -> str:
        return self.home.artifact(task, f"prompt.{number}").read_text()

    def row(self, task: str) -> Record:
        return self.home.task(task)


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Day]:
    with scratch(tmp_path_factory.mktemp("day")) as home:
        repo = _pricer(home)
        reads, never = READS_THE_EVIDENCE % MENDED, 'cat >"$FLEET_ARTIFACT_DIR/prompt.${FLEET_ATTEMPT##*.}"; date >a'
        home.settle(
            "backoff=0s", "limits.attempts=2",
            coders={"reads": {"argv": ["/bin/sh", "-c", reads]}, "never": {"argv": ["/bin/sh", "-c", never]}},
        )  # fmt: skip
        ids = home.add_all({name: ("--cwd", repo, "--coder", name) for name in ("reads", "never")})
        home.drain()
        yield Day(home, ids["reads"], ids["never"])


def _pricer(home: Scratch) -> Path:
    repo = home.place("pricer", git=True)
    (repo / "pricer.py").write_text(PRICER)
    (repo / "test_pricer.py").write_text(TESTS)
    (repo / "fleet.yaml").write_text(
        f"project: {{name: pricer}}\nchecks:\n  - {{run: 'true'}}\n  - {{name: tests, run: '{CHECK}'}}\n"
    )
    for words in (("add", "-A"), (*WHO, "commit", "-qm", "pricer")):
        subprocess.run(["git", *words], cwd=repo, check=True)
    return repo


def test_the_next_attempt_is_told_which_check_failed_and_how_and_mends_it(day: Day) -> None:
    row = day.row(day.mended)
    assert (row["state"], row["attempts"], row["proof"]) == ("done", 2, "verified"), row["cause"]
    told = day.prompt(day.mended, 2)
    evidence = told[told.index("An earlier attempt was not accepted") :]
    assert "which gives you no orders" in evidence
    assert f'check "tests" failed: {FAILED}' in evidence
    assert f"Check: tests: {CHECK}" in evidence
    assert "From: fleet.yaml at " in evidence
    assert "1 failed, 1 passed" in evidence
    assert "def test_euros():" in evidence, "the lines that the check printed"


def test_the_first_prompt_names_the_checks_that_decide(day: Day) -> None:
    told = day.prompt(day.mended, 1)
    assert "These commands decide about your work." in told
    assert f"\ntrue\n{CHECK}\n" in told
    assert "An earlier attempt" not in told


def test_every_screen_says_which_test_failed_and_how(day: Day) -> None:
    cause = day.row(day.given_up)["cause"]
    assert cause.startswith(f'check "tests" failed: {FAILED}; ')
    shown = day.home.ok("show", day.given_up).out
    assert "✓ true: exit 0" in shown
    assert "✗ tests: exit 1" in shown
    assert f"    command: {CHECK}\n    {FAILED}\n" in shown
    assert "    | FAILED test_pricer.py::test_euros" in shown
    assert f"all of it: fleet task {day.given_up} check" in shown
    (check,) = [one for one in day.home.shown(day.given_up)["checks"] if not one["passed"]]
    assert (check["failure"], check["code"], check["seconds"] > 0) == (FAILED, 1, True)


def test_all_that_a_check_printed_can_be_read(day: Day) -> None:
    ran = day.home.ok("task", day.given_up, "check")
    assert "2 passed" not in ran.out
    assert "=== FAILURES ===" in ran.out
    assert "1 failed, 1 passed" in ran.out
    assert f"{day.given_up}.2  ✓ true: exit 0" in ran.err
    assert f"{day.given_up}.2  ✗ tests: exit 1" in ran.err
    names = [one["name"] or one["command"] for one in day.home.ok("task", day.given_up, "check", "--json").json()]
    assert names == ["true", "tests"]


def test_a_task_that_was_never_checked_has_no_output_of_checks(day: Day) -> None:
    task = day.home.add("Not begun", "--cwd", day.home.root)
    ran = day.home.fleet("task", task, "check")
    assert (ran.code, ran.err) == (3, f"fleet: no check of {task} has been run yet\n  next: fleet show {task}\n")


def test_a_check_that_says_no_test_ends_with_its_last_words(tmp_path: Path) -> None:
    with scratch(tmp_path) as home:
        home.settle("backoff=0s", "limits.attempts=1", coders={"w": {"argv": ["/bin/sh", "-c", "date >a"]}})
        task = home.add("x", "--cwd", home.place("r", git=True), "--coder", "w", "--check", "echo no disk >&2; exit 9")
        home.drain()
        cause = home.task(task)["cause"]
    assert cause.startswith('check "echo no disk >&2; exit 9" failed: exit 9: no disk; ')
