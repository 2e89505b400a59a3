"""What a check is made of, and what its runner counted."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from fleet.core.proof import Change, ChangeKind, EntryKind
from fleet.evidence.checks import Own, counts, is_cut_short, is_nothing_passed, own_files, run_outside


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
    assert own_files([command], [change], ["tests/test_a.py"]).forbidden == forbidden


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
        ("pytest", edited("fixtures/a.json"), ["fixtures/a.json"], {"fixtures/a.json"}),
        ("npm test", edited("web/__fixtures__/a.js"), ["web/__fixtures__/a.js"], {"web/__fixtures__/a.js"}),
        ("pytest", edited("fixtures.py"), ["fixtures.py"], set()),
    ],
)
def test_with_which_files_put_back_a_check_has_to_pass_too(
    command: str, change: Change, base: list[str], back: set[str]
) -> None:
    assert own_files([command], [change], base) == Own(frozenset(), frozenset(back))


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
        ("pytest -q && echo ok", "ok", True),
        ("pytest -q || exit 1", "", True),
        ("set -e\npython3 -m pytest -q\necho done", "done", True),
        ("pytest -q 2>&1 | tail -5", "", True),
        ("pytest -q 2>/dev/null", "", True),
        ("timeout -s KILL 60 uv run pytest", "", True),
        ("sh -c 'pytest -q'", "", True),
        ("pytest -q tests/add", "", True),
        ("CI=1 pytest | tee log", "", True),
        ("pytest -q && echo ok", "1 passed in 0.1s\nok", False),
        ("pytest >log", "", False),
        ("pytest -q >/dev/null 2>&1", "", False),
        ("python3 -m unittest 2>log", "", False),
        ("pytest | grep -q '3 passed'", "", False),
        ('test "$(pytest -q)"', "", False),
        ("test -f x || pytest", "", False),
        ("if [ -d tests ]; then pytest; fi", "", False),
        ("pip install pytest && ./check.sh", "", False),
        ("uv run --with pytest python3 check.py", "", False),
        ("pytest --collect-only", "", False),
        ("cargo test --no-run", "", False),
        ("make test", "", False),
        ("make test", "python3 -m pytest -q", True),
        ("make -C sub test", "make: Entering directory 'sub'\npytest -q tests && echo ok\nok", True),
        ("cd sub && make", "cargo test \\\n  --workspace", True),
        ("make test", "pytest \\\n  -q > log", False),
        ("make test", "python -m unittest", False),  # which counts elsewhere, and that may be cut off
        ("make test", "python3 -m pytest -q\n2 passed in 0.01s", False),
        ("make test", "pytest -q > log", False),
        ("make test", "pip install pytest\nruff check .", False),
        ("make test", "uv run pytest tests", True),
        ("make test", "pytest tests", True),
        ("make check", "pip list\npytest 8.0.0\npytest-cov 5.0", False),
        ("make test", "pytest is not installed: skipped", False),
        ("make test", "if [ -d tests ]; then pytest; fi", False),
        ("./check.sh", "python3 -m pytest -q", False),  # who says so here need not do it
        ("./check.sh", "", False),
    ],
)
def test_a_runner_that_was_ended_by_what_it_tests_says_nothing(command: str, output: str, cut_short: bool) -> None:
    assert is_cut_short(command, output) is cut_short


@pytest.mark.parametrize(
    ("output", "nothing"),
    [
        ("s\n1 skipped in 0.01s", True),
        ("1 xfailed in 0.01s", True),
        ("Ran 1 test in 0.000s\n\nOK (skipped=1)", True),
        ("1 passed, 3 skipped in 0.1s", False),
        ("20 passed in 0.1s\n3 skipped in 0.1s", False),
        ("test result: ok. 0 passed; 0 failed; 0 ignored", False),
        ("1 failed, 1 skipped in 0.1s\n1 passed in 1s", False),
        ("hello", False),
    ],
)
def test_a_run_in_which_every_test_was_skipped_says_nothing(output: str, nothing: bool) -> None:
    assert is_nothing_passed(output) is nothing


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
    assert own_files([command], [change], ["tests/test_a.py"]) == own


def test_settings_of_a_project_that_had_no_tests_are_its_own() -> None:
    assert own_files(["pytest"], [new("pyproject.toml"), new("tests/test_a.py")], ["README.md"]) == Own()


SCRIPTS = (
    "check.sh", "verify.sh", "check.py", "ci/run.sh", "ci/check.py", "checks/a.sh", "checks/q.sql", "sub/x",
    "expected.txt", "check.ts",
)  # fmt: skip
FREE, BACK, NOT = "free", "put back", "forbidden"


def seen(command: str, change: Change, files: dict[str, str] | None = None, **beside: object) -> str:
    """What becomes of one change, where the base has these files."""
    base = dict.fromkeys([*SCRIPTS, "tests/test_a.py", "calc.py"], "") | (files or {})

    def read(paths: Sequence[str]) -> dict[str, str]:
        return {path: base[path] for path in paths if path in base}

    own = own_files([command], [change], base, read, **beside)  # type: ignore[arg-type]
    return NOT if change.path in own.forbidden else BACK if change.path in own.put_back else FREE


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("bash -euo pipefail ci/run.sh", "ci/run.sh"),
        ("bash -o pipefail -c 'ci/run.sh'", "ci/run.sh"),
        ("sh < ci/run.sh", "ci/run.sh"),
        ("cat ci/run.sh | sh", "ci/run.sh"),
        ('eval "$(cat ci/run.sh)"', "ci/run.sh"),
        ("docker run -v $PWD:/w x sh /w/ci/run.sh", "ci/run.sh"),
        ("cd sub && ../ci/run.sh", "ci/run.sh"),
        ("python3 -W error check.py", "check.py"),
        ("python3 -X dev check.py", "check.py"),
        ("python3 /home/me/repo/check.py", "check.py"),
        ("poetry run python check.py", "check.py"),
        ("uv run ci/check.py", "ci/check.py"),
        ("python3 -m check", "check.py"),
        ("python3 -m ci.check", "ci/check.py"),
        ('test "$(python3 check.py)" = ok', "check.py"),
        ("x=$(python3 check.py) && [ $x = 5 ]", "check.py"),
        ("test `./check.sh` = ok", "check.sh"),
        ("timeout -s KILL 60 ./verify.sh", "verify.sh"),
        ("env -u FOO ./verify.sh", "verify.sh"),
        ("setsid -w ./verify.sh", "verify.sh"),
        ("stdbuf -oL ./verify.sh", "verify.sh"),
        ("ionice -c3 ./verify.sh", "verify.sh"),
        ("flock /tmp/l ./verify.sh", "verify.sh"),
        ("xargs ./verify.sh < list", "verify.sh"),
        ("while ! ./check.sh; do :; done", "check.sh"),
        ("../../verify.sh", "verify.sh"),
        ("~/repo/check.sh", "check.sh"),
        ("node --import ./x.mjs check.ts", "check.ts"),
        ("npx tsx check.ts", "check.ts"),
        ("deno run -A check.ts", "check.ts"),
        ("php -d a=b ci/check.py", "ci/check.py"),
        ("go run ./ci/check.py", "ci/check.py"),
        ("for t in checks/*.sh; do sh $t; done", "checks/a.sh"),
        ("ls checks/*.sh | xargs -n1 sh", "checks/a.sh"),
        ("run-parts checks", "checks/a.sh"),
        ("pytest checks/", "checks/a.sh"),
        ("python3 -m unittest discover -s checks -p 'c*.py'", "checks/a.sh"),
        ("sqlite3 db < checks/q.sql", "checks/q.sql"),
        ("ci/run.sh mypy", "ci/run.sh"),
        ("diff out.txt expected.txt", "expected.txt"),
    ],
)
def test_a_script_that_a_command_names_is_a_part_of_the_check_however_it_is_written(command: str, path: str) -> None:
    assert seen(command, edited(path)) == NOT


@pytest.mark.parametrize(
    ("command", "path", "files", "found"),
    [
        # what a shell runs, or is run without a word, may be a check or the product
        ("sh install.sh", "install.sh", {}, BACK),
        ("sh ./setup.sh && pytest", "setup.sh", {}, BACK),
        ("./go", "go", {"go": "#!/usr/bin/python3\n"}, BACK),
        ("timeout 60 ./go --fast", "go", {"go": "#!/bin/bash\n"}, BACK),
        ("./go.sh", "build/real.sh", {"go.sh": "build/real.sh", "build/real.sh": "#!/bin/sh\n"}, BACK),
        ("./check", "build/real", {"check": "build/real", "build/real": ""}, NOT),
        ("sh lib/a.sh", "real/a.sh", {"lib": "real", "real/a.sh": ""}, BACK),
        ("python3 tools/quality.py", "tools/quality.py", {}, BACK),
        # the product
        ("./app --selftest", "app", {"app": "#!/usr/bin/env ruby\n"}, FREE),
        ("bin/rails test", "bin/rails", {"bin/rails": "#!/usr/bin/env ruby\n"}, FREE),
        ("./manage.py check", "manage.py", {}, FREE),
        ("python3 app.py --selftest", "app.py", {}, FREE),
        ("node server.js", "server.js", {}, FREE),
        ("python3 latest.py", "latest.py", {}, FREE),
        ("python3 contest.py", "contest.py", {}, FREE),
        ("node attestation.js", "attestation.js", {}, FREE),
        ("python3 validator.py in.json", "validator.py", {}, FREE),
        ("python3 src/spec_parser.py", "src/spec_parser.py", {}, FREE),
        ("python3 checkout.py", "checkout.py", {}, FREE),
        ("node server.js", "test-app/server.js", {}, FREE),
        ("node /home/me/test-app/server.js", "server.js", {}, FREE),
        ("shellcheck install.sh ci/run.sh", "install.sh", {}, FREE),
        ("shellcheck install.sh ci/run.sh", "ci/run.sh", {}, FREE),
        ("grep -q fixed docs/test.md", "docs/test.md", {}, FREE),
        ("make check", "src/check/a.c", {"Makefile": "check:\n\ttrue\n"}, FREE),
        ("pytest src", "src/app.py", {}, FREE),
        # what make is told by, where it runs
        ("make test", "docs/Makefile", {"Makefile": ""}, FREE),
        ("make -C docs test", "docs/Makefile", {"Makefile": ""}, NOT),
        ("cd docs && make", "docs/Makefile", {}, NOT),
        ("make -f build/rules.mk test", "build/rules.mk", {}, NOT),
        ("make test", "mk/x.mk", {"Makefile": "include $(TOP)/mk/x.mk\n"}, BACK),
        ("make test", "mk/x.mk", {"Makefile": "include mk/*.mk\n"}, BACK),
        ("just test", "just/x.just", {"justfile": 'import "just/x.just"\n'}, BACK),
        ("npm test", "lib/t.js", {"package.json": '{"scripts":{"test":"npm run unit","unit":"node lib/t.js"}}'}, BACK),
        ("npm run quality", "lib/t.js", {"package.json": '{"scripts":{"quality":"node lib/t.js"}}'}, BACK),
        ("npm test", "src/a.js", {"package.json": '{"scripts":{"test":"nyc --include=src/*.js mocha"}}'}, FREE),
        ("make test", "lint.c", {"Makefile": "test:\n\tcc lint.c -o lint && sh ci/run.sh\n"}, FREE),
        # what pytest is told that tests are
        ("pytest", "checks/c1.py", {"pytest.ini": "[pytest]\npython_files=c*.py\ntestpaths=checks\n"}, NOT),
        ("pytest", "checks/c1.py", {"pytest.ini": "[pytest]\npython_files = c*.py\ntestpaths =\n  checks\n"}, NOT),
        ("pytest", "deep/q.py", {"pyproject.toml": 'testpaths = ["deep"]\npython_files = ["q*.py"]\n'}, NOT),
        ("pytest", "app/check_a.py", {"setup.cfg": "python_files = check_*.py\n"}, NOT),
        ("pytest", "calc.py", {"pytest.ini": "[pytest]\npython_files=c*.py\n"}, FREE),
        ("pytest", "src/a.py", {"pytest.ini": "[pytest]\npython_files=*.py\ntestpaths=src\n"}, FREE),
        # settings
        ("ruff check .", "pyproject.toml", {}, BACK),
        ("go test ./...", "go.mod", {}, BACK),
        ("./gradlew test", "build.gradle", {}, BACK),
        ("invoke test", "tasks.py", {}, NOT),
        ("npx grunt test", "Gruntfile.js", {}, NOT),
        ("npm test", "gulpfile.js", {"package.json": '{"scripts": {"test": "gulp test"}}'}, BACK),
        ("ant test", "build.xml", {}, NOT),
        # what else a test is written in
        ("behave", "features/sums.feature", {}, NOT),
        ("behave", "features/steps/sums.py", {}, NOT),
        ("pytest", "features/sums.py", {}, FREE),
        ("robot suite", "suite/sums.robot", {}, NOT),
        ("pytest", "expected/sums.json", {}, BACK),
    ],
)  # fmt: skip
def test_what_is_the_checks_own_is_told_from_the_product(
    command: str, path: str, files: dict[str, str], found: str
) -> None:
    assert seen(command, edited(path), {path: ""} | files) == found


MAKEFILE = {"Makefile": ".PHONY: clean\ntest: unit\nunit:\n\tpython3 check.py\nclean:\n"}


@pytest.mark.parametrize(
    ("command", "path", "files", "found"),
    [
        ("make", "test", MAKEFILE, NOT),
        ("make test", "unit", MAKEFILE, NOT),
        ("make test", "clean", MAKEFILE, FREE),  # it is phony
        ("make -C sub test", "sub/test", {"sub/Makefile": "test:\n\ttrue\n"}, NOT),
        ("cd sub && make test", "sub/test", {"sub/Makefile": "test:\n\ttrue\n"}, NOT),
        ("make", "unit.ok", {"Makefile": "test: unit.ok\nunit.ok: check.py\n\tpython3 check.py > unit.ok\n"}, NOT),
        ("cd a && make -C b", "a/b/all", {"a/b/Makefile": "all:\n"}, NOT),
        ("make test && test -f NOTES.md", "NOTES.md", MAKEFILE, FREE),
        ("make test && grep -q x docs/new.md", "docs/new.md", MAKEFILE, FREE),
        ("python3 manage.py makemigrations app", "app", {}, FREE),
        ("make test", "json.py", MAKEFILE, NOT),
        ("./check.sh", "json.py", {"check.sh": "#!/bin/sh\npython3 check.py\n"}, NOT),
        ("make test", "json.py", {"Makefile": "test:\n\tgo test\n"}, FREE),
        ("PYTHONPATH=src python3 -m pytest", "src/json.py", {"src/a.py": ""}, NOT),
        ("pytest", "json.cpython-311-x86_64-linux-gnu.so", {}, NOT),
        ("pytest", "app/json.py", {}, FREE),
        ("pytest", "models/net.pth", {}, FREE),
        ("pytest", "lib/site-packages/a.pth", {}, NOT),
        ("make", "unittest/b.cpp", {}, FREE),
        ("pytest", "unittest/b.cpp", {}, FREE),
        ("pytest", "coverage/README.md", {}, FREE),
        ("rake test", "rakefile", {"Rakefile": ""}, NOT),
        ("ruff check .", "ruff.toml", {}, BACK),
        ("npx jest", "__mocks__/fs.js", {}, BACK),
        ("tox", "tox.toml", {}, NOT),
        ("PYTHONPATH=src:lib python3 -m unittest", "lib/unittest/__main__.py", {}, NOT),
        ("make test", ".env", {"Makefile": "-include .env\ntest:\n\t$(RUN)\n"}, BACK),
        ("make test", ".env", MAKEFILE, FREE),
        ("make test", "conf/z.mk", {"Makefile": "include $(wildcard conf/*.mk)\ntest:\n\t$(RUN)\n"}, BACK),
        ("make test", "conf/z.c", {"Makefile": "include $(wildcard conf/*.mk)\ntest:\n\t$(RUN)\n"}, FREE),
        ("make -C sub", "sub/local.mk", {"sub/Makefile": "sinclude local.mk\nall:\n"}, BACK),
        ("[ -f .env ] && . ./.env; ./go", ".env", {}, BACK),
        ("./check.sh", "local.sh", {"check.sh": "#!/bin/sh\ntest ! -e local.sh || source ./local.sh\n"}, BACK),
        ("./check.sh", "local.sh", {"check.sh": "#!/bin/sh\ntest ! -e local.sh\n"}, FREE),
        ("pytest", "fixtures/new.json", {}, FREE),
        # what a target of a Makefile is called by way of a variable, or of a pattern
        ("make test", ".tested", {"Makefile": "STAMP := .tested\ntest: $(STAMP)\n${STAMP}: a.c\n\t./t\n"}, BACK),
        ("make test", "out/ok", {"Makefile": "O = out\nOK=$(O)/ok\ntest: $(OK)\n$(OK): a.c\n\t./t\n"}, BACK),
        ("make test", "b/unit.ok", {"Makefile": "$(O)/unit.ok: a.c\n\t./t\n"}, BACK),
        ("make test", "unit.ok", {"Makefile": "$(X).ok: a.c\n\t./t\n"}, BACK),
        ("make test", "a.ok", {"Makefile": "S = a.ok\nS += b.ok\ntest: $(S)\n$(S): x.c\n\t./t\n"}, BACK),
        ("make test", "calc.ok", {"Makefile": "%.ok: %.py\n\tpython3 $<\n"}, BACK),
        ("make test", "calc.py", {"Makefile": "%.ok: %.py\n\tpython3 $<\n%: %.in\n\tcat $<\n"}, FREE),
        ("make check", "unit/a.md", {"Makefile": ".PHONY: check\ncheck: unit\nunit:\n\t./t\n"}, BACK),
        ("make check", "unit/a.md", {"Makefile": "check: unit\nunit:\n\t./t\n", "unit/b.md": ""}, FREE),
        ("cargo fmt --check", "rustfmt.toml", {}, BACK),
        ("ruff check .", "src/.ignore", {}, BACK),
        # what Python and its tools find by themselves
        ("python3 -m pytest", "evil.egg-info/entry_points.txt", {}, BACK),
        ("python3 -m pytest", "evil-1.dist-info/entry_points.txt", {}, BACK),
        ("mypy .", ".mypy_cache/3.11/a.json", {}, BACK),
        ("pytest --lf", ".pytest_cache/v/cache/lastfailed", {}, BACK),
        ("tox", ".tox/py/bin/pytest", {}, BACK),
        ("uv run pytest", "uv.toml", {}, BACK),
        ("uv run pytest", ".python-version", {}, BACK),
        ("coverage combine && coverage report", ".coverage.a", {}, BACK),
        ("npx nyc mocha", ".nycrc.json", {}, BACK),
        ("tsc -b", "tsconfig.tsbuildinfo", {}, BACK),
    ],
)
def test_what_came_new_is_seen_for_what_it_does(command: str, path: str, files: dict[str, str], found: str) -> None:
    assert seen(command, new(path), files) == found


THERE = {"pytest": "#!/usr/bin/python3", "behave": "#!/usr/bin/python3", "diff": "\x7fELF", "calc": "\x7fELF"}
PATHS = {"check.sh": '#!/bin/sh\nexport PATH="$(cd "$(dirname "$0")" && pwd)/bin:$PATH"\ndiff a b\n'}
MAKE_PATHS = {"Makefile": "export PATH := $(CURDIR)/bin:$(PATH)\ntest:\n\tdiff a b\n"}
NODE_PATHS = {"package.json": '{"scripts": {"test": "PATH=\\"$PWD/bin:$PATH\\" diff a b"}}'}


@pytest.mark.parametrize(
    ("command", "path", "files", "found"),
    [
        ("PATH=$PWD/bin:$PATH diff a b", "bin/diff", {}, BACK),
        ("PATH=bin:$PATH make test", "bin/make", MAKEFILE, BACK),  # which is not there, and known
        ('PATH="$PWD/bin:$PATH" ./go', "bin/diff", {}, BACK),
        ('export PATH="./node_modules/.bin:tools:$PATH"; npm test', "tools/node", {}, BACK),
        ('env "PATH=$PATH:${PWD}/bin" sh -c "diff a b"', "bin/diff", {}, BACK),
        ("sh -c 'PATH=\"$(pwd)/bin\":$PATH diff a b'", "bin/diff", {}, BACK),
        ("cd sub && PATH=bin:$PATH diff a b", "sub/bin/diff", {}, BACK),
        ("PATH=`pwd`/bin:$PATH diff a b", "bin/diff", {}, BACK),
        ("PATH=.:$PATH diff a b", "diff", {}, BACK),
        ("PATH=$PATH: diff a b", "diff", {}, BACK),
        ("PATH+=:$PWD; diff a b", "diff", {}, BACK),
        ("PATH=$PWD/a:$PWD/b:$PATH mine", "a/mine", {"b/mine": ""}, BACK),
        ("./check.sh", "bin/diff", PATHS, BACK),
        ("make test", "bin/diff", MAKE_PATHS, BACK),
        ("npm test", "bin/diff", NODE_PATHS, BACK),
        ("PATH=$PWD/bin:$PATH mine --help", "bin/mine", {}, FREE),  # no other program is called so
        ("PATH=$PWD/bin:$PATH diff a b", "src/diff", {}, FREE),
        ("PATH=$PWD/bin:$PATH diff a b", "bin/lib/diff", {}, FREE),
        ("PATH=/usr/bin:/bin diff a b", "bin/diff", {}, FREE),
        ("PYTHONPATH=bin MYPATH=bin diff a b", "bin/diff", {}, FREE),
        ("diff a b", "bin/diff", {}, FREE),
        ("python3 -m behave", "behave.py", {}, BACK),
        ("python3 -Bm behave features", "behave/__main__.py", {}, BACK),
        ("python3 -m behave.cli", "behave/__init__.py", {}, BACK),
        ("python3 -m mypy src", "mypy.py", {}, BACK),  # which is not there, and known
        ("PYTHONPATH=lib python3 -m behave", "lib/behave.py", {}, BACK),
        ("make test", "ruff/__init__.py", {"Makefile": "test:\n\t$(PYTHON) -m ruff check .\n"}, BACK),
        ("python3 -m check", "check/__main__.py", {}, BACK),  # found before check.py
        ("python3 -m ci.check", "ci/check/__init__.py", {}, BACK),
        ("python3 -m selftest", "selftest.py", {}, FREE),  # without it there would be nothing to run
        ("python3 -m app.check", "app/check.py", {"app/__init__.py": ""}, FREE),
        ("python3 -m app --help", "app/__main__.py", {}, FREE),
        ("python3 -m calc 1 2", "calc/__main__.py", {}, FREE),
        ("python3 -m diff a b", "diff.py", {}, FREE),  # a program, and none of Python's
        ("python3 -m behave", "behave/__main__.py", {"behave/__init__.py": ""}, FREE),  # the product itself
        ("python3 -m behave", "src/behave.py", {}, FREE),
        ("python3 -m pytest -m slow", "slow.py", {}, FREE),
    ],
)
def test_what_came_in_the_place_of_a_program_that_is_there_is_left_out(
    command: str, path: str, files: dict[str, str], found: str
) -> None:
    assert seen(command, new(path), files, opening=THERE.get) == found


def test_a_directory_of_programs_cannot_come_as_a_link_and_known_ones_of_it_are_put_back() -> None:
    command = "PATH=$PWD/tools/bin:$PATH diff a b"
    for path in ("tools", "tools/bin"):
        link = Change(path, 1, 0, ChangeKind.ADDED, EntryKind.SYMLINK)
        assert (seen(command, link), seen(command, new(path))) == (BACK, FREE)
    had = {"tools/bin/python3": "", "tools/bin/calc": ""}
    assert seen(command, edited("tools/bin/python3"), had, opening=THERE.get) == BACK
    assert seen(command, edited("tools/bin/calc"), had, opening=THERE.get) == FREE


@pytest.mark.parametrize(
    ("command", "path", "found"),
    [
        ("make test", "test", NOT),
        ("make test", "GNUmakefile", NOT),
        ("pytest", "json.py", NOT),
        ("sh verify-all.sh", "verify-all.sh", NOT),
        ("PATH=bin:$PATH diff a b", "bin/diff", BACK),
        ("pytest", "__init__.py", BACK),
        ("pytest", "src/sums.py", FREE),
    ],
)
def test_what_came_by_being_renamed_is_seen_for_what_it_does(command: str, path: str, found: str) -> None:
    assert seen(command, moved("calc.py", path), MAKEFILE, opening=THERE.get) == found


@pytest.mark.parametrize(
    "text", ["PATH=" + "$" * 60_000, "test: " + "$" * 60_000, "$(A)" * 9_000 + ": x\nA=" + "$/" * 9_000]
)
def test_no_text_takes_for_ever(text: str) -> None:
    assert seen("make test", new("calc.ok"), {"Makefile": text}) in (FREE, BACK)


def test_many_new_files_beside_many_others_take_no_longer_than_both() -> None:
    base = [f"bin/tool{n}" for n in range(20_000)]
    found = own_files(["PATH=bin:$PATH go"], [new(f"bin/new{n}") for n in range(5_000)], base)
    assert found == Own()


@pytest.mark.parametrize(
    ("command", "path", "files", "found"),
    [
        ("python ci/check.py", "ci/requests.py", {}, BACK),
        ("python3.11 ci/check.py --all", "ci/requests/__init__.py", {}, BACK),
        ("sh ci/run.sh && python ci/check.py", "ci/requests.cpython-311-x86_64-linux-gnu.so", {}, BACK),
        ("python tools/report.py", "tools/requests.py", {"tools/report.py": ""}, BACK),
        ("python tools/report.py", "tools/json.py", {"tools/report.py": ""}, BACK),
        ("python check.py", "requests.py", {"check.py": ""}, BACK),
        ("python check.py", "app.py", {"check.py": ""}, FREE),  # which nothing else has the name of: the product
        ("python check.py", "lib/requests.py", {"check.py": ""}, FREE),
        ("python tools/report.py", "requests.py", {"tools/report.py": ""}, FREE),
        ("python ci/check.py", "ci/requests/__init__.py", {"ci/requests/api.py": ""}, FREE),
        ("python ci/check.py", "ci/requests.txt", {}, FREE),
        ("python app.py --selftest", "requests.py", {"app.py": ""}, FREE),
        ("node ci/check.js", "ci/requests.py", {"ci/check.js": ""}, FREE),
    ],
)
def test_a_new_module_beside_a_checks_own_script_is_left_out_where_it_hides_an_installed_one(
    command: str, path: str, files: dict[str, str], found: str
) -> None:
    had = {"ci/check.py": "import requests\n"} | files
    assert seen(command, new(path), had, installed=lambda: {"requests"}) == found


@pytest.mark.parametrize(
    ("command", "found"),
    [("mypy .", BACK), ("python -m mypy calc.py", BACK), ("npx pyright", BACK), ("pytest", FREE), ("ruff check", FREE)],
)
def test_a_new_stub_is_left_out_where_types_are_checked(command: str, found: str) -> None:
    assert seen(command, new("calc.pyi")) == found


def test_settings_of_a_linter_are_left_out_where_there_are_no_tests() -> None:
    assert own_files(["ruff check ."], [new("ruff.toml")], ["bad.py"]) == Own(put_back=frozenset({"ruff.toml"}))
    assert own_files(["cargo test"], [new(".cargo/config.toml")], ["src/lib.rs"]).put_back == {".cargo/config.toml"}


def test_a_check_in_a_directory_is_told_by_what_stands_there() -> None:
    sub = {"sub/Makefile": "test:\n\ttrue\n"}
    assert seen("make test", edited("sub/Makefile"), sub, at="sub") == NOT
    assert seen("make test", new("sub/test"), sub, at="sub") == NOT


def test_what_a_check_is_lent_cannot_be_committed_instead() -> None:
    assert seen("npm test", new("node_modules/.bin/jest"), needs=["node_modules"]) == NOT
    assert seen("npm test", new(".venv"), needs=["./.venv/"]) == NOT
    assert seen("npm test", new("node_modules2/a"), needs=["node_modules"]) == FREE


@pytest.mark.parametrize(
    ("old", "text", "found"),
    [("a\nb", "a\nb\nc\n", BACK), ("a\nb", "a\nc\n", NOT), ("a\nb\n", "a\nc\nb\n", NOT), ("a\nb", "a\nb, c\n", NOT)],
)
def test_lines_added_to_a_test_without_an_end_of_line_are_an_addition(old: str, text: str, found: str) -> None:
    path = "tests/test_a.py"
    assert seen("pytest", edited(path, 2, 1), {path: old}, left=lambda paths: {path: text}) == found


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("/home/me/repo/check.sh", "/home/me/repo/check.sh"),
        ("python3 '/home/me/repo/ci/../check.sh' -v", "/home/me/repo/ci/../check.sh"),
        ("/home/me/repo/.venv/bin/python check.sh", None),
        ("PYTHONPATH=/home/me/repo ./check.sh", None),
        ("/home/me/repository/check.sh", None),
        ("./check.sh", None),
    ],
)
def test_a_check_that_names_a_file_in_a_working_tree_does_not_run_what_would_land(
    command: str, found: str | None
) -> None:
    assert run_outside(command, ["/home/me/repo"], {"check.sh"}.__contains__) == found
