"""Which changes are of the checks' own files, and what a runner counted: purely, from commands, paths and output."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from fnmatch import fnmatchcase, translate
from functools import cache
from itertools import pairwise
from posixpath import basename, dirname, join, normpath, splitext

from fleet.core.frozen import dataclass
from fleet.core.proof import Change, ChangeKind, EntryKind
from fleet.evidence.scripts import (
    BEFORE,
    INTERPRETERS,
    LINTERS,
    MAKES,
    NODES,
    PYTHONS,
    READERS,
    READS,
    SHELL_SUFFIXES,
    SHELLS,
    TESTERS,
    Led,
    Texts,
    ends,
    fits,
    is_checklike,
    led_to,
    no_texts,
    parents,
    parts,
    tool_of,
)  # fmt: skip

DIRECTORIES = {
    "tests", "test", "__tests__", "spec", "specs", "testdata", "e2e", "__snapshots__", "__mocks__", "golden",
}  # fmt: skip
DATA = {"fixtures", "__fixtures__", "test_data", "test-data", "cassettes", "expected"}  # of tests, or of the product
TESTS = (
    "test_*.py", "*_test.py", "tests.py", "*_test.go", "*.test.*", "*.spec.*", "*_spec.rb", "*_test.rb", "test_*.rb",
    "*Test.java", "*Tests.java", "*IT.java", "*Test.kt", "*Tests.cs", "*Test.php", "*_test.c*", "*_test.exs",
    "test_*.sh", "*.bats", "*_test.dart", "*.t", "*.feature", "*.robot",
)  # fmt: skip
# What makes a runner do something else: one that was not there before is as good as a check that was changed.
RUNNERS = (
    "conftest.py", "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "tox.ini", "tox.toml", "noxfile.py",
    "sitecustomize.py", "usercustomize.py", ".coveragerc", "jest.config.*", "jest.setup.*", "vitest.config.*",
    "vitest.workspace.*", ".mocharc*", "karma.conf.*", "ava.config.*", "playwright.config.*", "cypress.config.*",
    "phpunit*.xml*", ".rspec*", ".proverc", ".busted", "nextest.toml", ".npmrc", ".yarnrc*", ".pnpmfile.cjs",
    ".pnp.*", "bunfig.toml", "CTestConfig.cmake",
)  # fmt: skip
# Settings of linters, compilers and runners, which may change for good reasons: a check has to pass without that, too.
# What a check does not read does no harm here.
SETTINGS = (
    "pyproject.toml", "setup.cfg", "hatch.toml", "pixi.toml", "mise.toml", ".mise.toml", "ruff.toml", ".ruff.toml",
    "mypy.ini", ".mypy.ini", ".flake8", "pylintrc", ".pylintrc", "pyrightconfig.json", ".bandit", "package.json",
    "pnpm-workspace.yaml", "turbo.json", "nx.json", "lerna.json", "deno.json*", "eslint.config.*", ".eslintrc*",
    ".eslintignore", ".prettierrc*", ".prettierignore", "prettier.config.*", ".stylelintrc*", ".stylelintignore",
    "tsconfig*.json", "biome.json*", "vite.config.*", "babel.config.*", ".babelrc*", ".swcrc", "go.mod", "go.work",
    ".golangci.*", "Cargo.toml", "clippy.toml", ".clippy.toml", "rust-toolchain*", "build.gradle*", "settings.gradle*",
    "gradle.properties", "gradle-wrapper.*", "pom.xml", "CMakeLists.txt", "CMake*Presets.json", "*.cmake",
    "meson.build", "BUILD.bazel", ".bazelrc", "build.sbt", "build.zig", "Package.swift", "mix.exs", "*.csproj", "*.sln",
    "Directory.Build.*", "composer.json", "Gemfile", ".shellcheckrc", ".yamllint*", ".markdownlint*",
    ".hadolint.yaml", ".ansible-lint", "uv.toml", "poetry.toml", "pdm.toml", ".python-version*", ".tool-versions",
    ".coverage*", "unittest.cfg", "nose2.cfg", "behave.ini", ".behaverc", ".nycrc*", ".c8rc*", ".taprc",
    "*.tsbuildinfo", ".ignore", ".rgignore", "rustfmt.toml", ".rustfmt.toml", ".importlinter",
)  # fmt: skip
HIDDEN_SETTINGS = (
    ".cargo/config.toml", ".cargo/config", ".mvn/maven.config", ".mvn/jvm.config", ".mvn/extensions.xml",
    ".mvn/wrapper/maven-wrapper.properties",
)  # fmt: skip
A_TEST, A_RUNNER, A_SETTING = (re.compile("|".join(map(translate, found))) for found in (TESTS, RUNNERS, SETTINGS))
SHADOWS = {"pytest", "_pytest", "pluggy", "unittest", "nose2", "coverage", "hypothesis"}  # modules, found here first
MODULES = ("{}.py", "{}/__init__.py", "{}/__main__.py")
CACHES = {"__pycache__", ".pytest_cache", ".mypy_cache", ".tox", ".nox"}
INSTALLED = re.compile(r"\.(?:egg|dist)-info/")  # names plugins
LOADED = (".so", ".pyd")
ON_SOURCES = LINTERS | {"cargo", "go", "javac", "gcc", "cc"}  # look at sources, or find tests among them
TYPES = {"mypy", "dmypy", "pyright", "basedpyright", "pytype", "pyre", "ty"}  # read a stub instead of its module
RUN_AS_MODULES = LINTERS | TESTERS | PYTHONS  # by `python -m`
PROGRAMS = RUN_AS_MODULES | NODES | INTERPRETERS | SHELLS | READERS | READS.keys()
SCRIPTS = (*SHELL_SUFFIXES, ".py", ".js", ".mjs", ".cjs", ".ts", ".rb", ".pl", ".php", ".go", "")

Opening = Callable[[str], str | None]  # how a program of this name begins that is there without the agent


Installed = Callable[[], Collection[str]]  # the modules of Python that are there without the agent


def no_programs(name: str) -> str | None:
    return None


def no_modules() -> Collection[str]:
    return ()


@dataclass(frozen=True, slots=True)
class Own:
    """Of the changes of an attempt, those of the checks' own files."""

    forbidden: frozenset[str] = frozenset()  # changed in a way that could make a check pass
    put_back: frozenset[str] = frozenset()  # a check has to pass also with these as they were


def own_files(
    commands: Iterable[str],
    changes: Sequence[Change],
    base: Iterable[str],
    read: Texts = no_texts,
    left: Texts = no_texts,
    *,
    opening: Opening = no_programs,
    installed: Installed = no_modules,
    needs: Collection[str] = (),
    at: str = "",
) -> Own:
    """What was done to the checks' own files. New tests, and lines added to one, are fine; but then the checks have to
    pass without them too, where there are tests without them. `base` are the paths that were there before, `read` tells
    what those said and `left` what they say now; `opening` and `installed` tell of what is installed; `needs`
    are lent to the checks, which run in the directory `at`.
    """
    known = {*base, *(one.old_path or one.path for one in changes if one.change is not ChangeKind.ADDED)}
    led = led_to(commands, known, read, at=at)
    has_tests = cache(lambda: any(_is_test(path, led) for path in known))  # of many, and few changes ask for it
    others, beside = Others(led, known, opening), Beside(led, known, installed)
    forbidden, back = set(), set()
    for one in changes:
        ways = [path for path in (one.old_path, one.path) if path is not None]
        lent = any(_is_below(path, {f"{normpath(need)}/" for need in needs}) for path in ways)
        was = [] if one.change is ChangeKind.ADDED else ways
        came = one.change in (ChangeKind.ADDED, ChangeKind.RENAMED)
        planted = came and _does_as_much(one.path, led)
        if lent or planted or any(_is_weakened(path, one, led, read, left) for path in was):
            forbidden.update(ways)
            continue
        apart = came and (others.has_before(one) or _makes_a_goal(one.path, led, known))
        apart = apart or (came and (beside.hides(one.path) or _is_left_out(one.path, led, has_tests=has_tests)))
        if apart or any(_is_own(path, led) or _may_change(path, led) for path in was):
            back.update(ways)
    return Own(frozenset(forbidden), frozenset(back))


def _does_as_much(path: str, led: Led) -> bool:
    """Whether a file that came, new or by another name, does as much as a check that was changed."""
    module = _is_shadow(path, led) or _is_compiled(path)
    first = _is_read_first(path, led) or path in led.goals
    return _is_awaited(path, led) or module or first or _is_runner(path)


def _makes_a_goal(path: str, led: Led, known: Collection[str]) -> bool:
    """Whether a new file makes a directory that stands for what is to be made."""
    goals = [one for one in parents(path) if one in led.goals]
    return any(not any(had.startswith(f"{goal}/") for had in known) for goal in goals)


def _is_weakened(path: str, change: Change, led: Led, read: Texts, left: Texts) -> bool:
    compiled = _is_compiled(path) and change.change is not ChangeKind.DELETED
    return compiled or (_is_own(path, led) and not _is_addition(change, read, left))


def _is_addition(change: Change, read: Texts, left: Texts) -> bool:
    """Whether nothing was taken away: lines were added to a file that is what it was. A last line that had no end is
    taken away and added, to git.
    """
    if change.change is not ChangeKind.MODIFIED or change.old_mode != change.mode or change.added is None:
        return False
    if change.removed == 1:
        old, new = (texts([change.path]).get(change.path, "") for texts in (read, left))
        return old != "" and not old.endswith("\n") and new.startswith(f"{old}\n")
    return change.removed == 0


def _is_left_out(path: str, led: Led, *, has_tests: Callable[[], bool]) -> bool:
    """Whether a check has to pass without a new file."""
    test = _is_test(path, led) and not any(ends(path, word) for word in led.words) and has_tests()
    settings = _is_settings(path) and (not ON_SOURCES.isdisjoint(led.tools) or has_tests())
    included = any(fits(path, word) for word in led.included)
    stub = path.endswith(".pyi") and not TYPES.isdisjoint(led.tools)
    return test or settings or stub or included or _is_loaded(path) or _is_below(path, led.back)


def _is_own(path: str, led: Led) -> bool:
    """Whether a path that was there before is a part of the checks."""
    return path in led.own or _is_test(path, led) or _is_runner(path) or _is_below(path, led.own)


def _may_change(path: str, led: Led) -> bool:
    """Whether a path that was there before may be changed, and a check has to pass without that."""
    data = not DATA.isdisjoint(path.split("/")[:-1])
    program = tool_of(basename(path)) in PROGRAMS and _is_looked_for(path, led)
    return data or program or _is_settings(path) or _is_cached(path) or path in led.back or _is_below(path, led.back)


class Beside:
    """The modules that a check's own Python scripts find beside them, before what is installed."""

    def __init__(self, led: Led, known: Collection[str], installed: Installed) -> None:
        self._known, self._installed = known, installed
        scripts = (one for one in (*led.own, *led.back) if one.endswith(".py"))
        self._at = set() if PYTHONS.isdisjoint(led.tools) else {dirname(one) for one in scripts}
        self._there: Collection[str] | None = None
        self._had: set[str] | None = None

    def hides(self, path: str) -> bool:
        """Whether a new file is imported instead of a module that is there without the agent."""
        module = dirname(path) if basename(path) == "__init__.py" else path
        is_module = module != path or path.endswith((".py", *LOADED))
        if not is_module or not module or dirname(module) not in self._at or self._has(module):
            return False
        name = basename(module).partition(".")[0]
        if name in sys.stdlib_module_names:
            return True
        if self._there is None:
            self._there = self._installed()
        return name in self._there

    def _has(self, module: str) -> bool:
        """Whether a module of that name was there, and is the product: its directory is, or a file of its name."""
        if self._had is None:
            files = {one.removesuffix(".py") for one in self._known if one.endswith(".py")}
            self._had = files | {one for path in self._known for one in parents(path)}
        return join(dirname(module), basename(module).partition(".")[0]) in self._had


class Others:
    """The programs and modules that are there without an agent, and that a check is led to by their names."""

    def __init__(self, led: Led, known: Collection[str], opening: Opening) -> None:
        self._led, self._opening = led, opening
        self._names = {basename(one) for one in known if _is_looked_for(one, led)} if led.paths else set()
        self._modules = {
            path
            for one in led.modules
            if _is_others(one, led, known, opening)
            for path in _modules([one, *parents(one)], led)
        }

    def has_before(self, change: Change) -> bool:
        """Whether a new file is found before one of these: a check has to pass without it. One that stands in nobody's
        place is the product.
        """
        path, name = change.path, basename(change.path)
        above = (one for at in self._led.paths if at for one in (at, *parents(at)))
        if change.entry is EntryKind.SYMLINK and any(ends(path, one) for one in above):
            return True
        if not _is_looked_for(path, self._led):
            return path in self._modules
        return name in self._names or tool_of(name) in PROGRAMS or self._opening(name) is not None


def _is_looked_for(path: str, led: Led) -> bool:
    """Whether a check that says where its programs are finds this one among them."""
    at = dirname(path)
    return any(ends(at, one) if one else at in led.directories for one in led.paths)


def _modules(names: Iterable[str], led: Led) -> set[str]:
    """Where `python -m` looks for these."""
    return {f"{at}{form.format(one)}" for at in {"", *_imported(led)} for form in MODULES for one in names}


def _is_others(module: str, led: Led, known: Collection[str], opening: Opening) -> bool:
    """Whether a module is a check's, or is installed: with most of these comes a program of their name."""
    top = module.split("/")[0]
    if not _modules([module], led).isdisjoint(known):
        return is_checklike(module)
    here = not _modules([top], led).isdisjoint(known)
    return not here and (top in RUN_AS_MODULES or "python" in (opening(top) or ""))


def _is_below(path: str, directories: Iterable[str]) -> bool:
    return any(one.endswith("/") and f"{path}/".startswith(one) for one in directories)


def _is_settings(path: str) -> bool:
    return A_SETTING.match(basename(path)) is not None or any(ends(path, one) for one in HIDDEN_SETTINGS)


def _is_awaited(path: str, led: Led) -> bool:
    """A script that a check runs, and that was not there: whoever writes it decides."""
    is_script = any(ends(path, word) for word in led.scripts) and splitext(path)[1] in SCRIPTS
    return is_script and is_checklike(basename(path)) and not _is_test(path, led)


def _is_read_first(path: str, led: Led) -> bool:
    """A second Makefile is read instead of the first."""
    return any(basename(path) in READS[tool][1:] for tool in led.tools & READS.keys())


def _is_test(path: str, led: Led) -> bool:
    """Whether a path is a test by its name, lies among tests, or is one to the checks."""
    steps = path.split("/")
    if not DIRECTORIES.isdisjoint(steps[:-1]) or A_TEST.match(steps[-1]) is not None:
        return True
    return any(path.startswith(at) and fnmatchcase(steps[-1], name) for at, name in led.tests)


def _is_runner(path: str) -> bool:
    hook = path.endswith(".pth") and "-packages/" in path
    return hook or A_RUNNER.match(basename(path)) is not None


def _is_shadow(path: str, led: Led) -> bool:
    """A module here is imported instead of the runner's, or of one of Python's own: from the top, from a directory that
    a check names, or from beside its script.
    """
    if PYTHONS.isdisjoint(led.tools):
        return False
    at = next((one for one in sorted(_imported(led), key=len, reverse=True) if f"{path}/".startswith(one)), "")
    inside = path[len(at) :]
    name = inside.split("/")[0].partition(".")[0]
    module = inside in [form.format(name) for form in MODULES] or (inside.endswith(LOADED) and "/" not in inside)
    return module and (name in SHADOWS or (name in sys.stdlib_module_names and "__main__" not in inside))


def _imported(led: Led) -> set[str]:
    scripts = {*led.own, *filter(is_checklike, led.scripts)}
    found = {*led.directories, *map(dirname, scripts)}
    return {f"{one}/" for one in found if one}


def _is_compiled(path: str) -> bool:
    """A module without its source. What Python leaves in its cache is another thing: everybody does that."""
    return path.endswith((".pyc", ".pyo")) and not _is_cached(path)


def _is_cached(path: str) -> bool:
    return not CACHES.isdisjoint(path.split("/"))


def _is_loaded(path: str) -> bool:
    """A new file that Python may load though no test asks for it."""
    return _is_cached(path) or path == "__init__.py" or INSTALLED.search(path) is not None


def run_outside(command: str, tops: Iterable[str], is_file: Callable[[str], bool]) -> str | None:
    """A file of the repository that a command names in a working tree, by its whole path: what would land is not run
    then. What only that tree has, such as `.venv`, is another thing.
    """
    for top in tops:
        for found in re.findall(rf"{re.escape(top)}/([^\s'\"`;&|()<>]+)", command):
            if is_file(normpath(found)):
                return f"{top}/{found}"
    return None


# ---- what runners print

COUNTED = (
    re.compile(r"^\s*(?:=+ )?(?P<all>(?:\d+ [a-z]+(?:, )?)+)(?: in [\d.]+ ?m?s.*| \([^)]*\).*)?(?: =+)?\s*$"),
    re.compile(r"^\s*Tests:\s+(?P<all>.+?)\s*$"),
    re.compile(r"^\s*Tests\s{2,}(?P<all>\d.+?)\s*$"),
    re.compile(r"^test result: \w+\. (?P<all>.+)$"),
)
PAIR = re.compile(r"(\d+) (passed|failed|skipped|errors?|ignored|todo|pending|xfailed|xpassed|passing|failing)\b")
NODE = re.compile(r"^(?:#|\u2139) (pass|fail|skipped|cancelled|todo) (\d+)\s*$")
RAN, OUTCOME = re.compile(r"^Ran (\d+) tests? in"), re.compile(r"^(OK|FAILED)(?: \((.*)\))?\s*$")
GO = re.compile(r"^(?:--- |\s+--- )?(PASS|FAIL|SKIP): ")
WORDS = {
    "error": "failed", "errors": "failed", "failures": "failed", "failing": "failed", "passing": "passed",
    "ignored": "skipped", "todo": "skipped", "pending": "skipped", "xfailed": "skipped", "xpassed": "passed",
    "pass": "passed", "fail": "failed", "cancelled": "failed", "PASS": "passed", "FAIL": "failed", "SKIP": "skipped",
    "expected failures": "skipped", "unexpected successes": "failed",
}  # fmt: skip
WHOLE = "[100%]"
COUNTING = {"pytest", "unittest", "cargo"}  # always say how it went
LAUNCHERS = {"python", "uv", "poetry", "hatch", "pdm", "pipenv", "rye", "pixi", "coverage", *BEFORE, *COUNTING}
THROUGH = {"tail", "tee", "cat"}  # let the last line pass
SILENT = re.compile(r"--co\b|--collect|--no-run|--version|--help|--fixtures|no:terminal")
DOUBTFUL = re.compile(r"\b(?:if|then|elif|else|case|while|(?:pip|uv|poetry|pdm) (?:install|add))\b|\$\(|`")
TO_A_FILE, ERRORS = re.compile(r">+(?!&)"), re.compile(r"\b2>+\s*[^&\s]\S*")
PROSE = re.compile(r"^pytest[\s:=]+(?:v?\d|[a-z]+(?:[,:]|\s+[a-z]+\b(?![/.])))")  # `pytest is not here`
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def is_cut_short(command: str, output: str) -> bool:
    """Whether a runner that always says how it went did not: what it was to test has ended it, and an exit of 0 says
    nothing then. Of one whose output goes to a file, to a program that keeps it, or which may not be run, this is not
    known.
    """
    if counts(output) or WHOLE in output:
        return False
    makes = any(tool_of(part[0]) in MAKES for part in parts(command))
    said = output.replace("\\\n", " ").splitlines() if makes else ()  # by make, of what it runs
    runs = (line for line in said if "unittest" not in line and not PROSE.search(line))
    return _is_to_count(command) or any(map(_is_to_count, runs))


def _is_to_count(command: str) -> bool:
    """Whether a command runs such a runner, and lets through what it says."""
    kept = command if "unittest" in command else ERRORS.sub("", command)  # which counts on stderr
    if SILENT.search(command) or TO_A_FILE.search(kept):
        return False
    signs = re.split(r"(&&|\|\||;|\n)", command)
    lines = zip(("", *signs[1::2]), signs[::2], strict=True)
    return any(sign != "||" and not DOUBTFUL.search(line) and _is_counted(line) for sign, line in lines)


def _is_counted(line: str) -> bool:
    """Whether a runner that counts is run, and its last line is let through."""
    steps = [list(map(tool_of, part)) for part in parts(line)]
    runs = next((n for n, step in enumerate(steps) if _is_counting(step)), None)
    return runs is not None and all(step[0] in THROUGH for step in steps[runs + 1 :])


def _is_counting(part: Sequence[str]) -> bool:
    found = {tool for before, tool in pairwise(("", *part)) if tool in COUNTING and not before.startswith("--")}
    counts_tests = bool(found - {"cargo"}) or ("cargo" in found and "test" in part)
    return counts_tests and (part[0] in LAUNCHERS or "=" in part[0])


def is_nothing_passed(output: str) -> bool:
    """Whether a runner says that it skipped tests, and nobody that one passed."""
    found = counts(output)
    lines = COLOUR.sub("", output).splitlines()
    return bool(found.get("skipped")) and not found.get("passed") and not any(map(_passed, lines))


def _passed(line: str) -> bool:
    return any(_pairs(match["all"]).get("passed", 0) for form in COUNTED if (match := form.match(line)))


def counts(output: str) -> dict[str, int]:
    """Passed, failed and skipped, where a runner prints them; nothing when none of this is known."""
    lines = COLOUR.sub("", output).splitlines()
    for reader in (_of_cargo, _of_unittest, _of_node, _of_summary, _of_go):
        found = reader(lines)
        if found:
            return found
    return {}


def _add(found: dict[str, int], word: str, number: int) -> None:
    name = WORDS.get(word, word)
    found[name] = found.get(name, 0) + number


def _pairs(text: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for number, word in PAIR.findall(text):
        _add(found, word, int(number))
    return found


def _of_summary(lines: Sequence[str]) -> dict[str, int]:
    """The last line of pytest, jest, vitest and those who write like them."""
    for line in reversed(lines):
        for form in COUNTED:
            match = form.match(line)
            found = _pairs(match["all"]) if match else {}
            if found:
                return found
    return {}


def _of_cargo(lines: Sequence[str]) -> dict[str, int]:
    """Cargo prints a result for each crate and kind of test."""
    found: dict[str, int] = {}
    for line in lines:
        if line.startswith("test result: "):
            for word, number in _pairs(line).items():
                _add(found, word, number)
    return found


def _of_unittest(lines: Sequence[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    ran = 0
    for line in lines:
        counted, outcome = RAN.match(line), OUTCOME.match(line)
        if counted:
            ran = int(counted[1])
        elif outcome and ran:
            for name, number in re.findall(r"([a-z ]+)=(\d+)", outcome[2] or ""):
                _add(found, name.strip(), int(number))
            _add(found, "passed", ran - sum(found.values()))
            return found
    return {}


def _of_node(lines: Sequence[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for line in lines:
        match = NODE.match(line)
        if match:
            _add(found, match[1], int(match[2]))
    return found


def _of_go(lines: Sequence[str]) -> dict[str, int]:
    """Each test of `go test -v`."""
    found: dict[str, int] = {}
    for line in lines:
        match = GO.match(line)
        if match and "--- " in line:
            _add(found, match[1], 1)
    return found
