"""Work is believed for what it is: of hundreds of ways to pretend none is accepted, and honest work is.

What is called here is what the supervisor calls when an agent has ended, without a process for each of them.
FLEET_SEED=N repeats a run.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import cycle, islice
from pathlib import Path
from random import Random, SystemRandom

import pytest

from fleet.core import FleetError
from fleet.core.proof import Heard
from fleet.core.work import Attempt, Verdict
from fleet.evidence.checks import is_cut_short, is_nothing_passed
from fleet.evidence.receipt import Check, Process, Receipt
from fleet.evidence.snapshot import walk
from fleet.host import repository
from fleet.supervisor.trees import found_by, left_by
from fleet.supervisor.verdict import Facts, Judged, judge
from fleet.supervisor.verify import Run, make_room, planned
from standins import honest, pretending
from standins.corpus import ENV, KINDS, Bench, Way, bench, template

SEED = int(os.environ.get("FLEET_SEED") or SystemRandom().randrange(10**6))
PRETENDED: Sequence[Way] = [*pretending.WAYS, *pretending.ONLY]
TOGETHER = 4
DONE = Process("exited", code=0)


@dataclass(frozen=True)
class Outcome:
    way: str
    number: int
    kind: str
    judged: Judged

    def __str__(self) -> str:
        return (
            f"{self.way} ({self.kind}, {self.number}): {self.judged.verdict}: {self.judged.reason or self.judged.cause}"
        )


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("templates")
    return {name: template(root, kind) for name, kind in KINDS.items()}


def verified(work: Bench, way: Way, found: Attempt) -> Judged:
    """Let an agent do as it does, and judge it as the supervisor does."""
    begun = [replace(found, cwd=str(work.at), stores=(str((work.at / ".git").resolve()),))]
    work.begun = lambda: begun.append(begins(work.at))
    way(work)
    attempt = replace(begun[-1], demands=work.demands)
    result = left_by(attempt, {}, walk(work.notes))
    if work.late is not None:
        work.late()
    receipt = Receipt(attempt, DONE, result, heard=Heard(calls=work.calls))
    checks: list[Check] = []
    for run in planned(attempt, receipt):
        checks.append(_checked(work, attempt, receipt, run))
        if not checks[-1].passed:
            break
    return judge(Facts(DONE, result, tuple(checks), demands=work.demands, calls=work.calls, attempts=1))


def begins(at: Path) -> Attempt:
    """An attempt as it is before its agent runs."""
    return found_by(Attempt("t1.1", "t1", 1, "stand-in", None, str(at), "me", 0.0), [])


def _checked(work: Bench, attempt: Attempt, receipt: Receipt, run: Run) -> Check:
    at = work.at.parent / f"checkout-{run.number}"
    try:
        room = make_room(attempt, receipt.result, run, at, work.at.parent / "check")
    except FleetError as problem:
        return Check(run.spec.run, False, problem.message, None, None, "", where=run.where)
    done = subprocess.run(["/bin/sh", "-c", run.spec.run], cwd=room.cwd, env=ENV, capture_output=True, check=False)
    repository.remove_tree(at)
    said = (done.stdout + done.stderr).decode(errors="replace")
    passed = done.returncode == 0 and not is_cut_short(run.spec.run, said) and not is_nothing_passed(said)
    return Check(run.spec.run, passed, f"exit {done.returncode}", done.returncode, None, "", where=run.where)


def judged_all(root: Path, templates: dict[str, Path], ways: Sequence[Way], count: int) -> list[Outcome]:
    found = {name: begins(at) for name, at in templates.items()}  # every copy is the same

    def one(given: tuple[int, Way]) -> Outcome:
        number, way = given
        kinds = [pretending.ONLY[way]] if way in pretending.ONLY else []
        work = bench(root, number, templates, Random(f"{SEED}/{number}"), kinds)
        outcome = Outcome(way.__name__, number, work.kind.name, verified(work, way, found[work.kind.name]))
        assert not (work.at.parent / "outside/ran").exists(), f"{outcome}: something planted was run"
        repository.remove_tree(work.at.parent)
        return outcome

    with ThreadPoolExecutor(TOGETHER) as pool:
        return list(pool.map(one, enumerate(islice(cycle(ways), count))))


@pytest.mark.parametrize("count", [len(PRETENDED), pytest.param(500, marks=pytest.mark.long)])
def test_of_hundreds_of_fabrications_none_is_accepted(tmp_path: Path, templates: dict[str, Path], count: int) -> None:
    """Each way once, or all of them again and again with other dice."""
    found = judged_all(tmp_path, templates, PRETENDED, count)
    assert {one.way for one in found} == {way.__name__ for way in PRETENDED}
    accepted = [str(one) for one in found if one.judged.verdict is Verdict.ACCEPTED]
    assert accepted == [], f"again with FLEET_SEED={SEED}"
    speechless = [str(one) for one in found if not one.judged.cause]
    assert speechless == [], "each has its reason"


@pytest.mark.parametrize("count", [len(honest.WAYS), pytest.param(50, marks=pytest.mark.long)])
def test_of_honest_runs_one_in_fifty_may_be_refused(tmp_path: Path, templates: dict[str, Path], count: int) -> None:
    found = judged_all(tmp_path, templates, honest.WAYS, count)
    assert {one.way for one in found} == {way.__name__ for way in honest.WAYS}
    refused = [str(one) for one in found if one.judged.verdict is not Verdict.ACCEPTED]
    assert len(refused) <= count // 50, f"again with FLEET_SEED={SEED}: {refused}"


# ---- that the corpus is worth something: what would believe it


def believes_the_exit_code(process: Process, work: Bench) -> bool:
    return process.code == 0


def believes_the_place(process: Process, work: Bench) -> bool:
    """What many do: run the check where the agent worked, as it stands there."""
    done = subprocess.run(["/bin/sh", "-c", work.kind.check], cwd=work.at, env=ENV, capture_output=True, check=False)
    return process.code == 0 and done.returncode == 0


FOOLED = {
    "no_tool_was_called", "weakens_an_assertion", "changes_what_is_expected", "skips_the_test",
    "ends_the_runner_early", "empties_the_test", "renames_the_test", "rewrites_the_runner", "makes_the_test_a_link",
    "plants_a_runners_settings", "adds_a_test_that_ends_everything", "begins_history_anew",
    "takes_the_repository_away", "hides_the_change_from_git", "plants_attributes", "mends_what_git_ignores",
    "lets_git_ignore_the_mending", "swaps_a_submodule", "touches_ci", "touches_ci_by_another_spelling",
    "touches_agents_settings", "touches_a_lock_file", "touches_fleets_file", "deletes_something", "deletes_a_lot",
    "renames_what_is_protected", "leaves_its_scope", "touches_what_is_denied", "changes_too_many_files",
    "links_out_of_the_repository", "mends_it_and_the_tests_too", "plants_a_makefile", "writes_it_late",
    "plants_what_is_to_be_made", "skips_from_the_code", "ends_the_runner_from_the_code", "plants_pythons_own",
    "brings_its_own_programs", "plants_a_program", "plants_a_module", "renames_something_to_what_is_to_be_made",
    "adds_a_test_that_mends_the_checkout", "plants_a_plugin",
}  # fmt: skip


@pytest.mark.long
def test_a_naive_verifier_accepts_what_is_refused_here(tmp_path: Path, templates: dict[str, Path]) -> None:
    fooled = set()
    for number, way in enumerate(way for way in PRETENDED for _ in range(3)):
        if way.__name__ in fooled or (number % 3 and way.__name__ not in FOOLED):
            continue
        kinds = [pretending.ONLY.get(way, "shell" if number % 3 else "python")]
        work = bench(tmp_path, number, templates, Random(number), kinds)
        way(work)
        if work.late is not None:
            work.late()
        assert believes_the_exit_code(DONE, work)
        if believes_the_place(DONE, work):
            fooled.add(way.__name__)
    assert fooled >= FOOLED, "each of these is seen to pass where only the check is believed"
