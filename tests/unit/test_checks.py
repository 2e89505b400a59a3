"""What a check is made of, and what its runner counted."""

from __future__ import annotations

import pytest

from fleet.core.proof import Change, ChangeKind
from fleet.evidence.checks import Own, counts, is_cut_short, own_files, read_commands


def edited(path: str, added: int = 1, removed: int = 1) -> Change:
    return Change(path, added, removed, old_mode="100644", mode="100644")


def grown(path: str) -> Change:
    return edited(path, 3, 0)


def new(path: str) -> Change:
    return Change(path, 1, 0, ChangeKind.ADDED, mode="100644")


def gone(path: str) -> Change:
    return Change(path, 0, 1, ChangeKind.DELETED, old_mode="100644")


def moved(old: str, path: str) -> Change:
    return Change(path, 0, 0, ChangeKind.RENAMED, old_path=old, old_mode="100644", mode="100644")


@pytest.mark.parametrize(
    ("command", "scripts", "tools"),
    [
        ("./check.sh", {"check.sh"}, set()),
        ("cd sub && ./bin/ci --all; echo $?", {"bin/ci"}, set()),
        ("sh -eu scripts/run.sh x", {"scripts/run.sh"}, set()),
        ("sh -c 'echo hi'", set(), set()),
        ("CI=1 timeout 60 bash test.sh", {"test.sh"}, set()),
        ("python3.11 -m pytest -q tests", set(), {"python", "pytest"}),
        ("sh -e scripts/run.sh", {"scripts/run.sh"}, set()),
        ("sh -c scripts/test", {"scripts/test"}, set()),
        ("bash -c 'set -e; scripts/test'", {"scripts/test"}, set()),
        ("sh -ec '. ./scripts/test'", {"scripts/test"}, set()),
        ('$PWD/scripts/test && "$(pwd)/ci/x"', {"scripts/test", "ci/x"}, set()),
        ("find scripts -name test -exec {} +", {"test"}, set()),
        ("eval 'make test'", set(), {"make"}),
        ("python check.py && python hello.py | grep -q hi", {"check.py"}, {"python"}),
        ("make -f build/ci.mk test", {"build/ci.mk"}, {"make"}),
        ("npm test", set(), {"npm"}),
        ("npx jest --ci", set(), {"npx"}),
        ("uv run pytest", set(), {"uv", "pytest"}),
        ("grep -q fixed app.py", set(), set()),
        ("/usr/bin/true", set(), set()),
        ("echo 'not closed", set(), set()),
        ("", set(), set()),
    ],
)
def test_what_a_command_runs(command: str, scripts: set[str], tools: set[str]) -> None:
    found = read_commands([command])
    assert (set(found.scripts), set(found.tools)) == (scripts, tools)


@pytest.mark.parametrize(
    ("command", "change", "forbidden"),
    [
        ("./check.sh", edited("check.sh"), {"check.sh"}),
        ("./check.sh", gone("check.sh"), {"check.sh"}),
        ("cd sub && ./check.sh", edited("sub/check.sh"), {"sub/check.sh"}),
        ("./check.sh", moved("check.sh", "old.sh"), {"check.sh", "old.sh"}),
        ("./check.sh", Change("check.sh", 0, 0, old_mode="100755", mode="100644"), {"check.sh"}),
        ("./check.sh", Change("check.sh", old_mode="100644", mode="100644"), {"check.sh"}),
        ("./check.sh", new("check.sh"), {"check.sh"}),
        ("./build.sh | grep -q hi", new("build.sh"), set()),
        ("python hello.py | grep -q hi", edited("hello.py"), set()),
        ("grep -q fixed app.txt", edited("app.txt"), set()),
        ("make test", edited("Makefile"), {"Makefile"}),
        ("make test", new("GNUmakefile"), {"GNUmakefile"}),
        ("make", new("Makefile"), set()),
        ("npm test", edited("package.json"), set()),
        ("npm test", new(".npmrc"), {".npmrc"}),
        ("yarn test", edited("sub/.yarnrc.yml"), {"sub/.yarnrc.yml"}),
        ("pnpm test", new(".pnpmfile.cjs"), {".pnpmfile.cjs"}),
        ("bun test", new("bunfig.toml"), {"bunfig.toml"}),
        ("pytest", edited("package.json"), set()),
        ("pytest", edited("tests/test_a.py"), {"tests/test_a.py"}),
        ("pytest", gone("tests/test_a.py"), {"tests/test_a.py"}),
        ("pytest", edited("src/pkg/test_deep.py"), {"src/pkg/test_deep.py"}),
        ("pytest", edited("tests/data/expected.json"), {"tests/data/expected.json"}),
        ("pytest", moved("tests/test_a.py", "tests/a.txt"), {"tests/test_a.py", "tests/a.txt"}),
        ("go test ./...", edited("pkg/a_test.go"), {"pkg/a_test.go"}),
        ("npx jest", edited("src/a.spec.ts"), {"src/a.spec.ts"}),
        ("pytest", new("conftest.py"), {"conftest.py"}),
        ("pytest", new("tests/sub/conftest.py"), {"tests/sub/conftest.py"}),
        ("pytest", new("pytest.ini"), {"pytest.ini"}),
        ("python -m pytest", new("pytest.py"), {"pytest.py"}),
        ("python -m pytest", new("sitecustomize.py"), {"sitecustomize.py"}),
        ("python -m unittest", new("unittest/__init__.py"), {"unittest/__init__.py"}),
        ("python -m pytest", new("json.py"), {"json.py"}),
        ("python check.py", new("argparse/__init__.py"), {"argparse/__init__.py"}),
        ("python ci/check.py", new("ci/json.py"), {"ci/json.py"}),
        ("python check.py", new("html/index.html"), set()),
        ("python check.py", new("app/types.py"), set()),
        ("python check.py", edited("queue.py"), set()),
        ("go test ./...", new("json.py"), set()),
        ("pytest", new("calc.pyc"), {"calc.pyc"}),
        ("pytest", gone("calc.pyc"), set()),
        ("pytest", new("tests/test_new.py"), set()),
        ("pytest", grown("tests/test_a.py"), set()),
        ("pytest", edited("src/app.py"), set()),
        ("pytest", edited("pyproject.toml"), set()),
        ("pytest", edited("README.md"), set()),
        ("pytest", edited("contest/app.py"), set()),
    ],
)
def test_which_changes_could_make_a_check_pass(command: str, change: Change, forbidden: set[str]) -> None:
    assert own_files([command], [change], lambda: ["tests/test_a.py"]).forbidden == forbidden


@pytest.mark.parametrize(
    ("command", "change", "base", "back"),
    [
        ("pytest", grown("tests/test_a.py"), ["tests/test_a.py"], {"tests/test_a.py"}),
        ("pytest", new("tests/test_new.py"), ["tests/test_a.py"], {"tests/test_new.py"}),
        ("pytest", new("tests/test_new.py"), ["app.py"], set()),  # without it there would be nothing to run
        ("pytest tests/test_new.py", new("tests/test_new.py"), ["tests/test_a.py"], set()),
        ("pytest tests", new("tests/test_new.py"), ["tests/test_a.py"], {"tests/test_new.py"}),
        ("pytest", edited("pyproject.toml"), ["pyproject.toml"], {"pyproject.toml"}),
        ("npm test", edited("package.json"), ["package.json"], {"package.json"}),
        ("pytest", new("__pycache__/calc.cpython-311.pyc"), ["calc.py"], {"__pycache__/calc.cpython-311.pyc"}),
        ("pytest", new("__init__.py"), ["calc.py"], {"__init__.py"}),
        ("pytest", new("calc/__init__.py"), ["calc.py"], set()),
        ("pytest", edited("__init__.py"), ["__init__.py"], set()),
        ("make", grown("Makefile"), ["Makefile"], {"Makefile"}),
        ("./check.sh", grown("check.sh"), ["check.sh"], {"check.sh"}),
        ("pytest", edited("app.py"), ["app.py", "tests/test_a.py"], set()),
    ],
)
def test_with_which_files_put_back_a_check_has_to_pass_too(
    command: str, change: Change, base: list[str], back: set[str]
) -> None:
    assert own_files([command], [change], lambda: base) == Own(frozenset(), frozenset(back))


@pytest.mark.parametrize(
    ("output", "found"),
    [
        ("..F\n==== 1 failed, 2 passed, 1 skipped in 0.12s ====\n", {"failed": 1, "passed": 2, "skipped": 1}),
        ("2 passed in 0.01s", {"passed": 2}),
        ("\x1b[32m3 passed\x1b[0m\x1b[32m in 1.2s\x1b[0m", {"passed": 3}),
        ("1 passed, 1 error in 0.5s", {"passed": 1, "failed": 1}),
        ("Tests:       1 failed, 5 passed, 6 total\nTime: 2 s", {"failed": 1, "passed": 5}),
        (" Tests  2 failed | 3 passed (5)", {"failed": 2, "passed": 3}),
        ("Ran 5 tests in 0.001s\n\nOK (skipped=1)", {"skipped": 1, "passed": 4}),
        ("Ran 5 tests in 0.001s\n\nFAILED (failures=1, errors=1)", {"failed": 2, "passed": 3}),
        ("# tests 4\n# pass 3\n# fail 0\n# skipped 1", {"passed": 3, "failed": 0, "skipped": 1}),
        (
            "test result: ok. 3 passed; 0 failed; 1 ignored\ntest result: ok. 2 passed; 0 failed; 0 ignored",
            {"passed": 5, "failed": 0, "skipped": 1},
        ),
        ("--- PASS: TestA (0.00s)\n    --- FAIL: TestB/x (0.00s)\nFAIL", {"passed": 1, "failed": 1}),
        ("  12 passing (5ms)\n", {"passed": 12}),
        ("7 of 9 failed", {}),
        ("all 3 passed the exam", {}),
        ("", {}),
    ],
)
def test_what_a_runner_counted(output: str, found: dict[str, int]) -> None:
    assert counts(output) == found


@pytest.mark.parametrize(
    ("command", "output", "cut_short"),
    [
        ("pytest", "", True),
        ("cd app && python3 -m pytest -q tests", "..", True),
        ("python -m unittest", "collecting", True),
        ("cargo test", "   Compiling app", True),
        ("pytest -q", "2 passed in 0.01s", False),
        ("pytest -qq", "..                   [100%]", False),
        ("python -m unittest", "Ran 2 tests in 0.1s\n\nOK", False),
        ("cargo build", "", False),
        ("pytest >log", "", False),
        ("pytest | tail -1", "", False),
        ("make test", "", False),
        ("./check.sh", "", False),
    ],
)
def test_a_runner_that_was_ended_by_what_it_tests_says_nothing(command: str, output: str, cut_short: bool) -> None:
    assert is_cut_short(command, output) is cut_short


@pytest.mark.parametrize(
    ("command", "change", "own"),
    [
        ("python3 -m pytest -q", new("pyproject.toml"), Own(put_back=frozenset({"pyproject.toml"}))),
        ("pytest", new("setup.cfg"), Own(put_back=frozenset({"setup.cfg"}))),
        ("ruff check .", new("ruff.toml"), Own(put_back=frozenset({"ruff.toml"}))),
        ("ruff check .", edited(".flake8"), Own(put_back=frozenset({".flake8"}))),
        ("cargo test", new(".cargo/config.toml"), Own(put_back=frozenset({".cargo/config.toml"}))),
        ("mvn test", new(".mvn/maven.config"), Own(put_back=frozenset({".mvn/maven.config"}))),
        ("make test", new("test"), Own(forbidden=frozenset({"test"}))),
        ("make test", new("testing.md"), Own()),
        ("./check.sh test", new("test"), Own()),
    ],
)
def test_settings_that_came_are_left_out_of_a_second_run_and_nothing_stands_for_a_goal(
    command: str, change: Change, own: Own
) -> None:
    assert own_files([command], [change], lambda: ["tests/test_a.py"]) == own


def test_settings_of_a_project_that_had_no_tests_are_its_own() -> None:
    assert own_files(["pytest"], [new("pyproject.toml"), new("tests/test_a.py")], lambda: ["README.md"]) == Own()
