"""What a check is made of, and what its runner counted: purely, from commands, paths and output."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import translate
from itertools import pairwise
from posixpath import basename, dirname, normpath

from fleet.core.proof import Change, ChangeKind

DIRECTORIES = {"tests", "test", "__tests__", "spec", "specs", "testdata", "e2e", "__snapshots__"}
TESTS = (
    "test_*.py", "*_test.py", "tests.py", "*_test.go", "*.test.*", "*.spec.*", "*_spec.rb", "*_test.rb", "test_*.rb",
    "*Test.java", "*Tests.java", "*IT.java", "*Test.kt", "*Tests.cs", "*Test.php", "*_test.c*", "*_test.exs",
    "test_*.sh", "*.bats", "*_test.dart", "*.t",
)  # fmt: skip
# What makes a runner do something else: one that was not there before is as good as a check that was changed.
RUNNERS = (
    "conftest.py", "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "tox.ini", "noxfile.py",
    "sitecustomize.py", "usercustomize.py", "*.pth", ".coveragerc", "jest.config.*", "jest.setup.*", "vitest.config.*",
    "vitest.workspace.*", ".mocharc*", "karma.conf.*", "ava.config.*", "playwright.config.*", "cypress.config.*",
    "phpunit.xml*", ".rspec", "nextest.toml", ".npmrc", ".yarnrc*", ".pnpmfile.cjs", "bunfig.toml",
)  # fmt: skip
# Settings of linters, compilers and runners, which may change for good reasons: a check has to pass without that, too.
SETTINGS = (
    "ruff.toml", ".ruff.toml", "mypy.ini", ".mypy.ini", ".flake8", "pylintrc", ".pylintrc", "eslint.config.*",
    ".eslintrc*", ".eslintignore", "tsconfig*.json", "biome.json*", ".golangci.*", "clippy.toml", ".clippy.toml",
    "vite.config.*", "babel.config.*", ".babelrc*", "settings.gradle*", "go.work", "mix.exs",
)  # fmt: skip
HIDDEN_SETTINGS = (".cargo/config.toml", ".cargo/config", ".mvn/maven.config", ".mvn/jvm.config")
A_TEST, A_RUNNER, A_SETTING = (re.compile("|".join(map(translate, found))) for found in (TESTS, RUNNERS, SETTINGS))
SHADOWS = {"pytest", "_pytest", "pluggy", "unittest", "nose2", "coverage", "hypothesis"}  # modules, found here first
# What a program reads to know what it is to do; those after the bar may change for many good reasons.
READS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "make": (("Makefile", "makefile", "GNUmakefile"), ()),
    "gmake": (("Makefile", "makefile", "GNUmakefile"), ()),
    "just": (("justfile", "Justfile", ".justfile"), ()),
    "task": (("Taskfile.yml", "Taskfile.yaml"), ()),
    "npm": ((), ("package.json",)),
    "npx": ((), ("package.json",)),
    "pnpm": ((), ("package.json",)),
    "yarn": ((), ("package.json",)),
    "bun": ((), ("package.json",)),
    "node": ((), ("package.json",)),
    "deno": ((), ("deno.json", "deno.jsonc")),
    "pytest": ((), ("pyproject.toml", "setup.cfg")),
    "tox": (("tox.ini",), ("pyproject.toml", "setup.cfg")),
    "nox": (("noxfile.py",), ()),
    "python": ((), ("pyproject.toml", "setup.cfg")),
    "uv": ((), ("pyproject.toml", "setup.cfg")),
    "poetry": ((), ("pyproject.toml", "setup.cfg")),
    "hatch": ((), ("pyproject.toml", "setup.cfg")),
    "cargo": ((), ("Cargo.toml",)),
    "rake": (("Rakefile",), ()),
    "gradle": ((), ("build.gradle", "build.gradle.kts")),
    "mvn": ((), ("pom.xml",)),
    "ctest": ((), ("CMakeLists.txt",)),
    "bats": ((), ()),
}
PYTHONS = {"python", "pytest", "tox", "nox", "uv", "poetry", "hatch"}
SHELLS = {"sh", "bash", "dash", "zsh", "ksh", "source", "."}
INTERPRETERS = {"python", "node", "ruby", "perl", "php", "deno", "bun", "lua", "Rscript", "tsx", "ts-node"}
BEFORE = {"env", "exec", "time", "timeout", "nice", "xvfb-run", "command", "!", "if", "then", "do", "else", "{", "("}
CHECKLIKE = re.compile(r"check|test|verif|spec|valid|lint|assert|(^|[_./-])(ci|qa)([_./-]|$)", re.IGNORECASE)
NUMBER = re.compile(r"\.?\d[\d.]*[smhd]?\Z")
CODE = re.compile(r"-\w*c\Z")
HERE = re.compile(r"""\$\(pwd\)|`pwd`|\$\{?PWD\}?|\$\(dirname\s+"?\$\{?(?:0|BASH_SOURCE(?:\[0\])?)\}?"?\)""")
OPERATOR = re.compile(r"[;&|()]+\Z")


@dataclass(frozen=True, slots=True)
class Named:
    """What check commands are made of, as far as their words tell."""

    scripts: frozenset[str] = frozenset()  # that they run
    tools: frozenset[str] = frozenset()  # that they run, and that read files of their own
    words: frozenset[str] = frozenset()  # everything that may be a path


@dataclass(frozen=True, slots=True)
class Own:
    """Of the changes of an attempt, those of the checks' own files."""

    forbidden: frozenset[str] = frozenset()  # changed in a way that could make a check pass
    put_back: frozenset[str] = frozenset()  # a check has to pass also with these as they were


def own_files(
    commands: Iterable[str], changes: Sequence[Change], base: Callable[[], Iterable[str]], led: Collection[str] = ()
) -> Own:
    """What was done to the checks' own files. New tests, and lines added to one, are fine; but then the checks have to
    pass without them too, where there are tests without them. `base` tells the paths that were there before, when that
    has to be known; `led` is what the checks' scripts lead to.
    """
    named = read_commands(commands)
    fresh = {one.path for one in changes if one.change is ChangeKind.ADDED and is_test(one.path)}
    settings = {one.path for one in changes if one.change is ChangeKind.ADDED and _is_settings(one.path, named)}
    has_tests = bool(fresh or settings) and any(is_test(path) for path in base())
    forbidden, back = set(), set()
    for one in changes:
        ends = [path for path in (one.old_path, one.path) if path is not None]
        if any(_is_forbidden(path, one, named) for path in ends):
            forbidden.update(ends)
        elif one.change is ChangeKind.ADDED:
            test = has_tests and one.path in fresh | settings and not _is_word(one.path, named)
            if test or _is_loaded(one.path) or _is_led(one.path, led):
                back.add(one.path)
        elif any(_is_own(path, named) or _may_change(path, named, led) for path in ends):
            back.update(ends)
    return Own(frozenset(forbidden), frozenset(back))


def _is_forbidden(path: str, change: Change, named: Named) -> bool:
    if change.change is ChangeKind.ADDED:
        script = path_ends(path, named.scripts) and bool(CHECKLIKE.search(basename(path)))
        module = _is_shadow(path) or _is_standard(path, named) or _is_compiled(path)
        first = _is_read_first(path, named) or _is_goal(path, named)
        return script or module or first or _is_runner(path)
    compiled = _is_compiled(path) and change.change is not ChangeKind.DELETED
    return compiled or (_is_own(path, named) and not _is_addition(change))


def _is_addition(change: Change) -> bool:
    """Whether nothing was taken away: lines were added to a file that is what it was."""
    same = change.change is ChangeKind.MODIFIED and change.old_mode == change.mode
    return same and change.removed == 0 and change.added is not None


def _is_own(path: str, named: Named) -> bool:
    """Whether a path that was there before is a part of the checks."""
    read = any(basename(path) in READS[tool][0] for tool in named.tools)
    return is_test(path) or _is_runner(path) or path_ends(path, named.scripts) or read


def _may_change(path: str, named: Named, led: Collection[str]) -> bool:
    """Whether a path that was there before may be changed, and a check has to pass without that."""
    return _is_settings(path, named) or _is_cached(path) or _is_led(path, led)


def _is_led(path: str, led: Collection[str]) -> bool:
    return path in led or any(one.endswith("/") and path.startswith(one) for one in led)


def _is_settings(path: str, named: Named) -> bool:
    read = any(basename(path) in READS[tool][1] for tool in named.tools)
    return read or A_SETTING.match(basename(path)) is not None or path_ends(path, HIDDEN_SETTINGS)


def _is_goal(path: str, named: Named) -> bool:
    """A file of the name of what make is to make: then there is nothing to do for it."""
    return any("make" in tool for tool in named.tools) and path in named.words


def _is_read_first(path: str, named: Named) -> bool:
    """A second Makefile is read instead of the first."""
    return any(basename(path) in READS[tool][0][1:] for tool in named.tools if "make" in tool)


def is_test(path: str) -> bool:
    """Whether a path is a test by its name, or lies among tests."""
    steps = path.split("/")
    return not DIRECTORIES.isdisjoint(steps[:-1]) or A_TEST.match(steps[-1]) is not None


def _is_runner(path: str) -> bool:
    return A_RUNNER.match(basename(path)) is not None


def _is_shadow(path: str) -> bool:
    """A module of this name here is imported instead of the runner's."""
    return path.split("/")[0].removesuffix(".py") in SHADOWS


def _is_standard(path: str, named: Named) -> bool:
    """A new module here is imported instead of one of Python's own: from the top, or from beside a check's script."""
    module = path.removesuffix(".py").removesuffix("/__init__")
    beside = {"", *(dirname(script) for script in named.scripts)}
    is_new = path.endswith(".py") and basename(module) in sys.stdlib_module_names and dirname(module) in beside
    return is_new and not PYTHONS.isdisjoint(named.tools)


def _is_compiled(path: str) -> bool:
    """A module without its source. What Python leaves in its cache is another thing: everybody does that."""
    return path.endswith((".pyc", ".pyo")) and not _is_cached(path)


def _is_cached(path: str) -> bool:
    return "__pycache__" in path.split("/")


def _is_loaded(path: str) -> bool:
    """A new file that Python may load though no test asks for it."""
    return _is_cached(path) or path == "__init__.py"


def path_ends(path: str, words: Iterable[str]) -> bool:
    """Whether a path is one of these words, seen from its own directory or from one above."""
    return any(path == word or path.endswith(f"/{word}") for word in words)


def _is_word(path: str, named: Named) -> bool:
    return path_ends(path, named.words)


def read_commands(commands: Iterable[str]) -> Named:
    """The scripts and the tools that shell commands run, by their first words."""
    scripts: set[str] = set()
    tools: set[str] = set()
    words: set[str] = set()
    for command in commands:
        for simple in simple_commands(command):
            program, *rest = simple
            tool = tool_of(program)
            tools |= {name for name in (tool, module_of(tool, rest)) if name in READS}
            scripts |= {path_of(word) for word in scripts_of(program, tool, rest)}
            words |= {path_of(word) for word in rest if not word.startswith("-")}
    return Named(frozenset(scripts), frozenset(tools), frozenset(words - {"."}))


def simple_commands(command: str) -> Iterator[list[str]]:
    """Each simple command in a line of a shell, without what stands before its program."""
    for line in HERE.sub(".", command.replace("\\\n", " ")).splitlines():
        for part in _parts(line):
            while part and (part[0] in BEFORE or "=" in part[0] or NUMBER.match(part[0]) or part[0].startswith("-")):
                part = part[1:]
            if part:
                yield part
                yield from simple_commands(_code(part))


def _code(part: Sequence[str]) -> str:
    """What `sh -c` or `eval` run."""
    if part[0] == "eval":
        return " ".join(part[1:])
    is_shell = tool_of(part[0]) in SHELLS
    return next((word for flag, word in pairwise(part) if is_shell and CODE.match(flag)), "")


def _parts(line: str) -> list[list[str]]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    try:
        words = list(lexer)
    except ValueError:  # a quote that is not closed on this line
        words = re.split(r"[\s;&|()'\"]+", line)
    parts: list[list[str]] = [[]]
    for word in words:
        if OPERATOR.match(word):
            parts.append([])
        elif word:
            parts[-1].append(word)
    return parts


def tool_of(program: str) -> str:
    """The name of a program without its directory and its version."""
    return re.sub(r"[\d.]+\Z", "", basename(program)) or program


def module_of(tool: str, rest: Sequence[str]) -> str:
    """What `python -m`, `npx` or `uv run` run."""
    if tool == "python" and "-m" in rest[:-1]:
        return rest[rest.index("-m") + 1]
    words = [word for word in rest if not word.startswith("-") and word != "run"]
    return tool_of(words[0]) if words and tool in ("npx", "uv", "poetry", "hatch", "pnpm", "yarn", "bun") else ""


def scripts_of(program: str, tool: str, rest: Sequence[str], *, every: bool = False) -> Iterator[str]:
    """The files that a simple command runs. What an interpreter runs is more often the product than its check."""
    if "/" in program and not program.startswith("/"):
        yield program
    first = next((word for word in rest if not word.startswith("-")), "")
    if first and _runs_a_file(tool, rest) and (every or tool in SHELLS or CHECKLIKE.search(first)):
        yield first
    if tool == "find" and "-exec" in rest:
        yield from (word for flag, word in pairwise(rest) if flag == "-name")
    if "make" in tool:
        yield from (word for flag, word in pairwise(rest) if flag in ("-f", "--file"))


def _runs_a_file(tool: str, rest: Sequence[str]) -> bool:
    """Whether a shell or an interpreter is given a file, and not code."""
    if tool in SHELLS:
        return not any(map(CODE.match, rest))
    return tool in INTERPRETERS and {"-c", "-e", "-m"}.isdisjoint(rest)


def path_of(word: str) -> str:
    return normpath(word.partition("::")[0]).lstrip("/")


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
COUNTING, WHOLE = {"pytest", "unittest"}, "[100%]"
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def is_cut_short(command: str, output: str) -> bool:
    """Whether a runner that always says how it went did not: what it was to test has ended it, and an exit of 0 says
    nothing then. Of a command that sends its output elsewhere this is not known.
    """
    parts = list(simple_commands(command))
    if not parts or re.search(r"[|<>\n`$]|--co\b|--collect", command) or counts(output) or WHOLE in output:
        return False
    program, *rest = parts[-1]
    tool = tool_of(program)
    return bool({tool, module_of(tool, rest)} & COUNTING) or (tool == "cargo" and rest[:1] == ["test"])


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
