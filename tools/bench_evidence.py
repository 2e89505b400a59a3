"""The rows of the evidence plane: what a receipt costs beside the checks themselves, and a bare `git worktree add`."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from bench_rows import Bench, Row, in_turns
from fleet.core.proof import CheckSpec, Demands
from fleet.core.work import Attempt
from fleet.evidence import checkout
from fleet.supervisor.trees import found_as_made, found_by, left_by

FILES, IN_ONE = 10_000, 100
WHO = ("-c", "user.name=b", "-c", "user.email=b@example.invalid")
ATTEMPT = Attempt("t1.1", "t1", 1, "c", None, "", "bench", 0.0)


def git(at: Path, *args: str) -> float:
    """Seconds that git took."""
    began = time.perf_counter()
    subprocess.run(["git", *WHO, *args], cwd=at, check=True, capture_output=True)
    return time.perf_counter() - began


@contextmanager
def project(bench: Bench) -> Iterator[Path]:
    with bench.fresh() as where:
        top = where / "project"
        for n in range(FILES):
            shelf = top / f"d{n // IN_ONE}"
            shelf.mkdir(parents=True, exist_ok=True)
            (shelf / f"f{n}.txt").write_text(f"file {n}\n" * 10)
        git(top, "init", "-q", "-b", "main")
        git(top, "add", "-A")
        git(top, "commit", "-qm", "first")
        yield top


def bare(top: Path) -> float:
    """A worktree, made and taken away again outside of the time."""
    took = git(top, "worktree", "add", "-q", "--detach", str(top.parent / "bare"))
    git(top, "worktree", "remove", "--force", str(top.parent / "bare"))
    return took


def receipt(place: Path, work: Callable[[Path], None], demands: Demands, *, is_new: bool = False) -> float:
    """What is looked at before an agent begins and after it has ended; its work is outside of the time."""
    began = time.perf_counter()
    here = replace(ATTEMPT, cwd=str(place), demands=demands)
    attempt = found_as_made(here) if is_new else found_by(here, [])
    before = time.perf_counter() - began
    work(place)
    time.sleep(1 - time.time() % 1)  # no agent ends in the second in which it began, and git counts in those
    began = time.perf_counter()
    result = left_by(attempt, {}, {})
    assert result.tree is not None, result.problem
    return before + time.perf_counter() - began


def in_new(top: Path, work: Callable[[Path], None], demands: Demands) -> float:
    """The same in a worktree that was made just now, which is how a queued task of a project begins."""
    place = top.parent / "new"
    git(top, "worktree", "add", "-q", "--detach", str(place))
    took = receipt(place, work, demands, is_new=True)
    git(top, "worktree", "remove", "--force", str(place))
    return took


def clean(top: Path) -> float:
    """A checkout for one check."""
    at, tree = top.parent / "checkout", subprocess.check_output(["git", "rev-parse", "HEAD^{tree}"], cwd=top, text=True)
    began = time.perf_counter()
    checkout.check_out(top / ".git", tree.strip(), at)
    return time.perf_counter() - began


def bench_receipt(bench: Bench) -> Iterator[Row]:
    asked = Demands(checks=(CheckSpec("true"),))
    with project(bench) as top:
        place = top.parent / "place"
        git(top, "worktree", "add", "-q", "-b", "work", str(place))
        count = iter(range(1_000_000))

        def work(place: Path) -> None:
            n = next(count)
            (place / "d0" / "f0.txt").write_text(f"changed {n}\n")
            (place / "new" / str(n)).parent.mkdir(exist_ok=True)
            (place / "new" / str(n)).write_text("new\n")

        new, nothing, some, checked, clean_one, floor = in_turns(
            7,
            partial(in_new, top, work, asked),
            partial(receipt, place, lambda place: None, Demands()),
            partial(receipt, place, work, Demands()),
            partial(receipt, place, work, asked),
            partial(clean, top),
            partial(bare, top),
        )
    size = f"{FILES} files"
    yield Row("receipt", f"receipt, {size}, a new worktree", new, "git worktree add", floor, goal=1.5)
    yield Row("receipt", f"receipt, {size}, in place, nothing changed", nothing, "git worktree add", floor, goal=1.5)
    yield Row("receipt", "the same, some not committed", some, "git worktree add", floor, goal=1.5)
    yield Row("receipt", "the same, with a check to be judged", checked, "git worktree add", floor, goal=1.5)
    yield Row("receipt", f"clean checkout for a check, {size}", clean_one, "git worktree add", floor)


GROUPS = {"receipt": bench_receipt}
