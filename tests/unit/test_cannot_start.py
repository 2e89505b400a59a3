"""Whether a check could not start, or is merely red: by what real shells and runners print."""

from __future__ import annotations

import asyncio

import pytest

from fleet.core.work import Attempt, Ending
from fleet.evidence.cannot_start import Missing, Surroundings, missing, need_for, obstacle
from fleet.evidence.receipt import Check
from fleet.supervisor.base_run import BaseRun, judged, wait_for


@pytest.mark.parametrize(
    ("code", "output", "found"),
    [
        (127, "/bin/sh: 1: .venv/bin/pytest: not found\n", Missing(".venv/bin/pytest")),
        (127, "/bin/sh: line 1: foo: command not found\n", Missing("foo")),
        (127, "/bin/sh: .venv/bin/pytest: No such file or directory\n", Missing(".venv/bin/pytest")),
        (127, "bash: line 3: foo: command not found\n", Missing("foo")),
        (127, "\n> app@1.0.0 test\n> jest\n\nsh: 1: jest: not found\n", Missing("jest")),
        (127, "env: 'pytest': No such file or directory\n", Missing("pytest")),
        (
            2,
            "pytest -q\nmake: pytest: No such file or directory\nmake: *** [Makefile:2: t] Error 127\n",
            Missing("pytest"),
        ),
        (2, "/bin/sh: 1: .venv/bin/x: not found\nmake[1]: *** [Makefile:2: t] Error 127\n", Missing(".venv/bin/x")),
        (1, "/usr/bin/python3: No module named pytest\n", Missing("pytest", "/usr/bin/python3")),
        (1, "x/.venv/bin/python: No module named tox\n", Missing("tox", "x/.venv/bin/python")),
        (127, "it ended\n", None),
        (1, "/bin/sh: 1: foo: not found\n1 failed\n", None),
        (2, "cc: main.c: No such file or directory\nmake: *** [Makefile:2: t] Error 1\n", None),
        (1, "ModuleNotFoundError: No module named 'shop'\n", None),
        (1, "E   ModuleNotFoundError: No module named 'pytest'\n", None),
        (0, "/usr/bin/python3: No module named pytest\n", None),
        (None, "", None),
    ],
)
def test_what_a_check_did_not_find(code: int | None, output: str, found: Missing | None) -> None:
    assert missing(code, output) == found


PYTEST = Missing(".venv/bin/pytest")
MODULE = Missing("pytest", "/usr/bin/python3")
HIDDEN = Surroundings(is_ignored=True, need=".venv", is_there=True)


@pytest.mark.parametrize(
    ("found", "around", "said"),
    [
        (PYTEST, HIDDEN, ".venv/bin/pytest is ignored by git. Lend it: fleet edit t2 --needs .venv"),
        (
            PYTEST,
            Surroundings(is_ignored=True, need=".venv"),
            ".venv/bin/pytest is ignored by git. Make /p/.venv first, then lend it: fleet edit t2 --needs .venv",
        ),
        (
            PYTEST,
            Surroundings(is_ignored=True, need=".venv", is_lent=True),
            ".venv/bin/pytest is ignored by git. Make /p/.venv first, then: fleet retry t2",
        ),
        (
            PYTEST,
            Surroundings(is_ignored=True, need=".venv", is_lent=True, is_there=True),
            ".venv/bin/pytest is ignored by git. What is lent, /p/.venv, cannot run it: mend that, "
            "then: fleet retry t2",
        ),
        (Missing("foo"), Surroundings(), "foo is not on PATH. Install it, then: fleet retry t2"),
        (Missing("/opt/foo"), Surroundings(), "there is no /opt/foo. Install it, then: fleet retry t2"),
        (
            Missing("jest"),
            Surroundings(lender="node_modules"),
            "jest is not on PATH. Lend node_modules: fleet edit t2 --needs node_modules",
        ),
        (
            Missing("pytest"),
            Surroundings(lender=".venv"),
            "pytest is not on PATH. .venv has it; run .venv/bin/pytest: "
            "fleet edit t2 --needs .venv --check .venv/bin/pytest",
        ),
        (
            MODULE,
            Surroundings(),
            "python3 has no module pytest. Install it for /usr/bin/python3, then: fleet retry t2",
        ),
        (
            MODULE,
            Surroundings(lender=".venv"),
            "python3 has no module pytest. .venv has it; run .venv/bin/python -m pytest: "
            "fleet edit t2 --needs .venv --check '.venv/bin/python -m pytest'",
        ),
        # What the task could create is merely red.
        (Missing("./build.sh"), Surroundings(), ""),
        (Missing("tools/run"), Surroundings(is_in_tree=True), ""),
        (Missing("run"), Surroundings(is_in_tree=True), ""),
        (Missing("shop", "/usr/bin/python3"), Surroundings(), ""),
        (MODULE, Surroundings(is_in_tree=True), ""),
    ],
)
def test_why_a_check_cannot_start_and_what_to_do(found: Missing, around: Surroundings, said: str) -> None:
    assert obstacle(found, around, task="t2", project="/p") == said


@pytest.mark.parametrize(
    ("path", "ignored", "tracked", "need"),
    [
        (".venv/bin/pytest", [".venv"], ["a.py"], ".venv"),
        (".venv/bin/pytest", [".venv/bin", ".venv/bin/pytest"], ["a.py"], ".venv"),  # it ignores itself
        ("app/.venv/bin/pytest", ["app/.venv"], ["app/a.py"], "app/.venv"),
        ("bin/tool", ["bin/tool"], ["bin/other"], "bin/tool"),
    ],
)
def test_what_is_lent_is_the_highest_directory_without_anything_of_gits(
    path: str, ignored: list[str], tracked: list[str], need: str
) -> None:
    assert need_for(path, ignored, tracked) == need


GREEN = Check("make", True, "exit 0", 0, 1.0, "")
RED = Check("make", False, "exit 2", 2, 1.0, "", failure="test_a: no")
CUT_OFF = Check("make", False, "it was cut off", None, None, "", lost=True)
ABSENT = Check("foo", False, "exit 127", 127, 0.1, "")
BEGINS = Attempt("t1.1", "t1", 1, "c", None, "/", "me", 0.0)


@pytest.mark.parametrize(
    ("runs", "ending", "said"),
    [
        ([], None, ""),
        ([BaseRun(GREEN), BaseRun(CUT_OFF)], None, ""),
        ([BaseRun(GREEN), BaseRun(RED)], None, 'check "make" failed: test_a: no'),
        (
            [BaseRun(RED), BaseRun(ABSENT, "foo is not on PATH")],
            Ending.HELD,
            "the check cannot start in a clean checkout: foo is not on PATH",
        ),
    ],
)
def test_an_attempt_is_held_or_told_what_is_red(runs: list[BaseRun], ending: Ending | None, said: str) -> None:
    found = judged(BEGINS, runs)
    assert (found.ending, found.cause or found.red_before) == (ending, said)


@pytest.mark.parametrize(
    ("looks", "max_wait_s", "goes_on"),
    [([], 0.0, True), ([True, False], 60.0, False)],
    ids=["it takes too long", "its task was closed"],
)
def test_what_takes_too_long_goes_on_beside_the_agent(looks: list[bool], max_wait_s: float, goes_on: bool) -> None:
    asyncio.run(_waits(looks, max_wait_s, goes_on))


async def _waits(looks: list[bool], max_wait_s: float, goes_on: bool) -> None:
    done, left = asyncio.Event(), iter(looks)

    async def run() -> list[BaseRun]:
        await done.wait()
        return [BaseRun(GREEN)]

    async def is_wanted() -> bool:
        return next(left)

    runs = asyncio.create_task(run())
    assert await wait_for(runs, max_wait_s, 0.0, is_wanted) is goes_on
    assert not runs.done()
    done.set()
    assert await runs == [BaseRun(GREEN)]
    assert await wait_for(runs, 60.0, 60.0, is_wanted)
