"""What checks are made of: the files that their commands name and run, and what those lead to in their turn. Purely,
from the words of the commands and from what files said before the agent came.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from posixpath import basename, dirname, join, normpath

# What a program is told to do by, beside its settings.
READS: dict[str, tuple[str, ...]] = {
    "make": ("Makefile", "makefile", "GNUmakefile"),
    "gmake": ("Makefile", "makefile", "GNUmakefile"),
    "just": ("justfile", "Justfile", ".justfile"),
    "task": ("Taskfile.yml", "Taskfile.yaml"),
    "tox": ("tox.ini",),
    "nox": ("noxfile.py",),
    "rake": ("Rakefile", "rakefile", "Rakefile.rb", "rakefile.rb"),
    "invoke": ("tasks.py",),
    "inv": ("tasks.py",),
    "fab": ("fabfile.py",),
    "doit": ("dodo.py",),
    "scons": ("SConstruct",),
    "earthly": ("Earthfile",),
    "grunt": ("Gruntfile.js", "Gruntfile.ts", "Gruntfile.coffee"),
    "gulp": ("gulpfile.js", "gulpfile.mjs", "gulpfile.cjs", "gulpfile.ts"),
    "ant": ("build.xml",),
    "mage": ("magefile.go",),
}
MAKES = {"make", "gmake"}
NODES = {"npm", "npx", "pnpm", "yarn", "bun", "node", "turbo", "nx", "lerna"}
PYTHONS = {"python", "pytest", "tox", "nox", "uv", "poetry", "hatch", "pdm", "pixi", "unittest"}
PYTEST = ("pytest.ini", ".pytest.ini", "pyproject.toml", "setup.cfg", "tox.ini")  # where it is told what a test is
# What looks at sources: a file that it is given is what it looks at, and no part of the check.
LINTERS = {
    "ruff", "mypy", "black", "flake8", "pylint", "pyright", "isort", "bandit", "eslint", "prettier", "stylelint", "tsc",
    "biome", "golangci-lint", "gofmt", "clippy", "rustfmt", "shellcheck", "shfmt", "yamllint", "markdownlint",
    "hadolint", "ansible-lint", "pre-commit",
}  # fmt: skip
READERS = {"grep", "egrep", "rg", "test", "[", "[[", "wc", "stat", "echo", "printf"}
SHELLS = {"sh", "bash", "dash", "zsh", "ksh", "source", "."}
INTERPRETERS = {"python", "node", "ruby", "perl", "php", "deno", "bun", "lua", "Rscript", "tsx", "ts-node", "java"}
BEFORE = {
    "env", "exec", "time", "timeout", "nice", "ionice", "setsid", "stdbuf", "flock", "xargs", "nohup", "xvfb-run",
    "command", "!", "if", "then", "do", "else", "while", "until", "{", "(", "sudo",
}  # fmt: skip
ALL_BELOW = {"run-parts", "bats", "prove"}  # run whatever stands in a directory
TESTERS = ALL_BELOW | {"pytest", "unittest", "nose2", "phpunit", "rspec", "mocha", "jest", "vitest", "ava"}
FEATURES = {"behave", "cucumber", "cucumber-js"}  # have their tests in a directory of that name
GOES = {"cd", "pushd", "-C", "--directory", "--prefix", "--cwd", "--dir", "--project", "--rootdir"}
CHECKLIKE = re.compile(
    r"(?:^|[_./-])(?:run|all|unit|self|type|pre|do|my)?(?:check|test|verif(?:y|ication)|validat(?:e|ion)|lint"
    r"|assert(?:ion)?|acceptance|smoke|expected|golden|ci|qa|e2e)(?:s|ing|er|all|suite|run)?\d*(?:[_./-]|$)",
    re.IGNORECASE,
)
BETWEEN = re.compile(r"[\s;&|()<>'\"`${}=,:]+")
OPERATOR = re.compile(r"[;&|()]+\Z")
REDIRECTION = re.compile(r"[<>&|]*[<>][<>&|]*\Z")
SH = re.compile(r"#!.*\b(ba|da|z|k)?sh\b")
SHELL_SUFFIXES = (".sh", ".bash", ".zsh", ".ksh")
COMPILED = (".c", ".h", ".cc", ".cpp", ".hpp", ".rs", ".java", ".kt", ".cs", ".swift")  # what is built, not run
DEPTH, MOST, NEAREST, NESTED = 3, 40, 3, 4
LONGEST_LINK = 4096
SCRIPT_DIRECTORIES = {"scripts", "script", "ci", ".ci", "tools", "hack"}
HELPING = re.compile(r"lib|help|common|util|func|setup|env", re.IGNORECASE)
SOURCING = {".", "source"}
INCLUDE = re.compile(r"^[-s]?include\s+(.+)$", re.MULTILINE)
IMPORTED = re.compile(r"[\w./-]+\.(?:just|ya?ml)\b")
RECIPE = re.compile(r"^\t[@+-]*(.*)$", re.MULTILINE)
TARGETS = re.compile(r"^([^\s#:=][^:=#\n]*?)\s*::?(?!=)(.*)$", re.MULTILINE)
SET = re.compile(r"^(?:export\s+)?(\w+)\s*[:?+]*=[ \t]*(.*)$", re.MULTILINE)
VARIABLES = ((r"\$[({]\w*PYTHON\w*[)}]", "python"), (r"\$[({](?:SHELL|BASH)[)}]", "sh"), (r"\$[({]MAKE[)}]", "make"))
PATHS = re.compile(r"""(?<![\w$])PATH\s*[:+?]?=(?!=)\s*((?:"[^"]*"|'[^']*'|`[^`]*`|\$\([^()]*\)|[^\s;&|"'`])+)""")
ITSELF = re.compile(r"\$+[({]?PATH\b[)}]?")
SOMEWHERE = re.compile(r"`[^`]*`|\$+(?:\([^()]*\)|\{[^{}]*\}|\w+)")
MODULE = re.compile(r"\s-(?:m|[A-Za-z]+m\s)\s*['\"]?([A-Za-z_][\w.]*)")
PYTESTS = re.compile(r"^\s*(python_files|testpaths)\s*=\s*(\[[^\]]*\]|.*(?:\n[ \t]+\S.*)*)", re.MULTILINE)

Texts = Callable[[Sequence[str]], Mapping[str, str]]  # of some paths, as far as they are files of a bearable size


def no_texts(paths: Sequence[str]) -> Mapping[str, str]:
    return {}


@dataclass(slots=True)
class Led:
    """What check commands lead to, of what was there before."""

    own: set[str] = field(default_factory=set)  # files of the checks
    back: set[str] = field(default_factory=set)  # a check has to pass with these as they were; x/ is all below x
    tests: set[tuple[str, str]] = field(default_factory=set)  # a directory, and the names of tests below it
    tools: set[str] = field(default_factory=set)  # every word that may be a program
    words: set[str] = field(default_factory=set)  # everything that may be a path
    scripts: set[str] = field(default_factory=set)  # of these, what may be a script
    goals: set[str] = field(default_factory=set)  # a file of such a name would stand for what is to be made
    included: set[str] = field(default_factory=set)  # what they take in, there or not
    directories: set[str] = field(default_factory=set)  # that something may be run in, or be imported from
    paths: set[str] = field(default_factory=set)  # where programs are looked for, there or not; "" is where they run
    modules: set[str] = field(default_factory=set)  # what `python -m` is told, there or not, as a path


class Names:
    """The paths of a tree, found by what a command calls them."""

    def __init__(self, paths: Iterable[str]) -> None:
        self.files = frozenset(paths)
        self.directories: set[str] = set()
        self._by_name: dict[str, list[str]] = {}
        for path in self.files:
            parent, _, name = path.rpartition("/")
            self._by_name.setdefault(name, []).append(path)
            while parent and parent not in self.directories:
                self.directories.add(parent)
                parent = parent.rpartition("/")[0]

    def called(self, word: str) -> list[str]:
        """Each file that a word may mean, the nearest first. From where it is seen is not known: so one of the two is
        the end of the other.
        """
        if any(sign in word for sign in "*?["):
            found = [path for path in self.files if fits(path, word)]
        else:
            found = [path for path in self._by_name.get(basename(word), ()) if ends(path, word) or ends(word, path)]
        return sorted(found, key=lambda path: (path.count("/"), path))


def ends(path: str, end: str) -> bool:
    """Whether a path is another one, seen from its own directory or from one above."""
    return path == end or path.endswith(f"/{end}")


def fits(path: str, pattern: str) -> bool:
    """The same for one with signs that stand for others."""
    wanted = pattern.split("/")
    steps = path.split("/")[-len(wanted) :]
    return len(steps) == len(wanted) and all(map(fnmatchcase, steps, wanted))


def parents(path: str) -> Iterator[str]:
    while path := dirname(path):
        yield path


def is_checklike(path: str) -> bool:
    """Whether a name says that it checks something: as a word of it, for `latest.py` and `contest.py` do not."""
    return CHECKLIKE.search(path) is not None


def led_to(commands: Iterable[str], names: Iterable[str], read: Texts = no_texts, *, at: str = "") -> Led:
    """What checks are made of. A script that a command names is its own when its name says that it checks. Otherwise,
    whether it is a check's or the product cannot be told for sure: what a shell runs, and what is run without a word,
    may be changed, and a check has to pass with it as it was. `at` is the directory that the commands run in.
    """
    known, led = Names(names), Led(directories={"", at})
    run: dict[str, bool] = {}
    for command in commands:
        _find_by(command, led)
        for part in parts(command):
            _hear(part, known, led)
            run |= _run(part, known)
    said = read(sorted(run)[:MOST])
    led.back |= {path for path, alone in run.items() if _is_script(path, said.get(path, ""), known, alone=alone)}
    _add_read(known, led)
    _follow(known, led, read)
    led.back -= led.own
    return led


def parts(text: str, depth: int = 0) -> Iterator[list[str]]:
    """The words of each simple command in a text of a shell; of what stands in quotes or in $(…), too."""
    for line in text.replace("\\\n", " ").replace("`", " ; ").splitlines():
        found: list[list[str]] = [[]]
        for word in _split(line):
            if OPERATOR.match(word):
                found.append([])
            elif not REDIRECTION.match(word):
                found[-1].append(word)
        for part in filter(None, found):
            yield part
            for word in part:
                if depth < NESTED and re.search(r"[\s;&|(]", word):
                    yield from parts(word, depth + 1)


def _split(line: str) -> list[str]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    try:
        return list(filter(None, lexer))
    except ValueError:  # a quote that is not closed on this line
        return list(filter(None, re.split(r"[\s;&|()'\"]+", line)))


def tool_of(program: str) -> str:
    """The name of a program without its directory and its version."""
    return re.sub(r"[\d.]+\Z", "", basename(program)) or program


def _pieces(word: str) -> list[str]:
    """What in one word may be a path: the whole of it, and what stands between its signs."""
    found = (normpath(piece) for piece in {word, *BETWEEN.split(word)} if piece)
    return [piece for one in found if (piece := re.sub(r"^(?:\.\./|~|/)+", "", one)) not in ("", ".", "..")]


def _hear(part: Sequence[str], known: Names, led: Led) -> None:
    """Take in one simple command of a check."""
    tools = {tool_of(word) for word in part}
    led.tools |= tools
    pieces = [piece for word in part for piece in _pieces(word)]
    led.directories |= {normpath(join(at, one)) for at in led.directories for one in pieces} & known.directories
    led.directories |= {one for word in part if word.startswith("PYTHONPATH=") for one in _pieces(word)}
    led.included |= _sourced(part)
    part = _without_subjects(part)
    makes = not MAKES.isdisjoint(tools)
    for before, word in zip(("", *part), part, strict=False):
        for piece in _pieces(word):
            led.words.add(piece)
            if "/" in word or "." in word:
                led.scripts.add(piece)
            led.own |= {path for path in known.called(piece) if _is_own(path, piece, makes=makes)}
            led.back |= {path for path in parents(piece) if path in known.files}  # a link, since something is below it
        if before == "-m":
            _hear_module(word, known, led)
        elif before not in GOES:
            led.tests |= {(f"{one}/", "*") for one in _below(word, tools, part, known, led)}
    if makes:
        led.goals |= {word for word in part if not word.startswith("-") and "=" not in word}


def _find_by(text: str, led: Led) -> None:
    """Take in where programs and modules are looked for. What a variable stands for is not known: the top, perhaps."""
    for value in PATHS.findall(text):
        known = ITSELF.sub("/", re.sub(r"[\"'\\]|\$(?=\$)", "", value))
        for _ in range(NESTED):
            known = SOMEWHERE.sub(".", known)
        found = {normpath(one.split()[0] if one.strip() else ".") for one in known.split(":")}
        led.paths |= {re.sub(r"^(?:\.\.?(?:/|$))+", "", one) for one in found if not one.startswith(("/", "~"))}
    led.modules |= {found.strip(".").replace(".", "/") for found in MODULE.findall(text)}


def _sourced(part: Sequence[str]) -> set[str]:
    """What a simple command takes into its shell."""
    return {piece for word in part[1:] for piece in _pieces(word)} if part[0] in SOURCING else set()


def _without_subjects(part: Sequence[str]) -> Sequence[str]:
    """A simple command without what it merely looks at."""
    if tool_of(part[0]) in READERS:
        return ()
    return part[: next((n for n, word in enumerate(part) if tool_of(word) in LINTERS), len(part))]


def _is_own(path: str, word: str, *, makes: bool) -> bool:
    shorter = min(path, word, key=len)  # where a place is called /home/me/test-app, this says nothing
    return is_checklike(shorter) or (makes and (path.endswith(".mk") or "makefile" in basename(path).lower()))


def _hear_module(module: str, known: Names, led: Led) -> None:
    """What `python -m` runs."""
    path = module.replace(".", "/")
    if is_checklike(path):
        mains = known.called(f"{path}/__main__.py")
        led.own |= {*known.called(f"{path}.py"), *mains}
        led.back |= {f"{dirname(main)}/" for main in mains}


def _below(word: str, tools: Collection[str], part: Sequence[str], known: Names, led: Led) -> Iterator[str]:
    """The directories of tests that a runner is given."""
    if TESTERS.isdisjoint(tools) and not ("go" in tools and "run" in part):
        return
    for piece in _pieces(word):
        if is_checklike(piece) or not ALL_BELOW.isdisjoint(tools):
            yield from (path for at in led.directories if (path := normpath(join(at, piece))) in known.directories)


def _run(part: Sequence[str], known: Names) -> dict[str, bool]:
    """The file that a simple command runs by itself or by a shell; and whether no word follows."""
    for n, word in enumerate(_without_subjects(part)):
        found = [path for piece in _pieces(word) for path in known.called(piece)[:NEAREST]]
        before = [tool_of(one) for one in part[:n]]
        if found:
            if not INTERPRETERS.isdisjoint(before):
                return {path: True for path in found if not SCRIPT_DIRECTORIES.isdisjoint(path.split("/")[:-1])}
            shell = not SHELLS.isdisjoint(before)
            by_itself = "/" in word and (n == 0 or part[0] in BEFORE or "=" in part[0])
            return dict.fromkeys(found, shell or n + 1 == len(part)) if shell or by_itself else {}
    return {}


def _is_script(path: str, text: str, known: Names, *, alone: bool) -> bool:
    shell = path.endswith(SHELL_SUFFIXES) or SH.match(text) is not None
    return shell or alone or _link(path, text, known) is not None


def _link(path: str, text: str, known: Names) -> str | None:
    """Where a link leads; its text is the name of another file, and nothing else."""
    if not text or "\n" in text or len(text) > LONGEST_LINK:
        return None
    target = normpath(join(dirname(path), text))
    return target if target in known.files or target in known.directories else None


def _add_read(known: Names, led: Led) -> None:
    """What tools are told by, where they run; and where they have their tests."""
    if not led.tools.isdisjoint(FEATURES):
        led.tests |= {(normpath(join(at, "features")) + "/", "*") for at in led.directories}
    for tool in led.tools & READS.keys():
        led.own |= {join(at, name) for at in led.directories for name in READS[tool]} & known.files


# ---- what these lead to


def _follow(known: Names, led: Led, read: Texts) -> None:
    """Read what was found, and what that leads to, a few steps far."""
    seen = set[str]()
    fresh = (led.own | led.back | _settings(known, led)) & known.files
    for _ in range(DEPTH):
        texts = read(sorted(fresh - seen)[:MOST])
        seen |= fresh
        fresh = set()
        for path, text in texts.items():
            fresh |= _links(path, text, known, led) | _take_in(path, text, known, led)
        led.back |= fresh
    mades = {dirname(path) for path in led.own if "makefile" in basename(path).lower()}
    led.goals = {normpath(join(at, goal)) for at in mades | {""} for goal in led.goals}


def _settings(known: Names, led: Led) -> set[str]:
    names = [*(["package.json"] if led.tools & NODES else []), *(PYTEST if led.tools & PYTHONS else [])]
    return {join(at, name) for at in led.directories for name in names}


def _links(path: str, text: str, known: Names, led: Led) -> set[str]:
    """What a link leads to is what it is itself."""
    target = _link(path, text, known)
    if target is None:
        return set()
    target = target if target in known.files else f"{target}/"
    if path in led.own:
        led.own.add(target)
    return {target}


def _take_in(path: str, text: str, known: Names, led: Led) -> set[str]:
    name = basename(path)
    words = [*_inside(path, text, led)]
    _find_by(text, led)
    if name in PYTEST:
        led.tests |= set(_tests_by(dirname(path), text))
        return set()
    if "makefile" in name.lower() or name.endswith(".mk"):
        _add_goals(text, led)
        led.included |= {piece for line in INCLUDE.findall(text) for word in line.split() for piece in _pieces(word)}
    elif _is_shells(name, text):
        led.included |= {found for part in parts(text) for found in _sourced(part)}
    led.tools |= {tool_of(word) for word in BETWEEN.split(text) if len(word) < LONGEST_LINK}
    return {found for word in words for found in known.called(word)[:NEAREST]}


def _inside(path: str, text: str, led: Led) -> Iterator[str]:
    """What a script, a Makefile or a package.json leads to."""
    name = basename(path)
    if name == "package.json":
        for command in _tests_of(text, led.words):
            yield from _words(path, command, every=True)
    elif "makefile" in name.lower() or name.endswith(".mk"):
        for line in INCLUDE.findall(text):
            yield from (piece for word in line.split() for piece in _pieces(word))
        for line in RECIPE.findall(text):
            yield from _words(path, _plain(line))
    elif name.lower().removeprefix(".").startswith(("justfile", "taskfile")):
        yield from IMPORTED.findall(text)
    elif _is_shells(name, text):
        yield from _words(path, text)


def _is_shells(name: str, text: str) -> bool:
    return name.endswith(SHELL_SUFFIXES) or "." not in name or SH.match(text) is not None


def _add_goals(text: str, led: Led) -> None:
    """A target that is not phony is there as soon as a file of its name is."""
    found = [(names.split(), after.split()) for names, after in TARGETS.findall(text)]
    phony = {name for names, after in found if ".PHONY" in names for name in after}
    led.goals |= {name for names, _ in found for name in names if not re.search(r"^\.|[$%*]", name)}
    led.goals -= phony
    values: dict[str, str] = {}
    for name, value in SET.findall(text):
        values[name] = f"{values.get(name, '')} {value}"[:LONGEST_LINK]
    spelt = [name for names, _ in found for name in names if "$" in name or "%" in name]
    led.included |= {one for name in spelt for one in _spelt_out(name, values) if one.strip("*")}


def _spelt_out(name: str, values: Mapping[str, str]) -> Iterator[str]:
    """What a target may be called, with a sign for what is not known of it."""
    for _ in range(NESTED):
        name = re.sub(r"\$[({](\w+)[)}]", lambda used: values.get(used[1], "$"), name[:LONGEST_LINK])
    for one in name[:LONGEST_LINK].split():
        steps = one.split("/")
        known = next((n for n, step in enumerate(reversed(steps)) if n and "$" in step), len(steps))
        yield "/".join(steps[len(steps) - known :]).replace("%", "*").replace("$", "*")


def _tests_of(text: str, words: Collection[str]) -> list[str]:
    """The commands of a package.json that test something, or that the check names, and those that they run."""
    try:
        scripts = {str(name): str(run) for name, run in json.loads(text)["scripts"].items()}
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return []
    chosen = {name for name in scripts if is_checklike(name.replace(":", "-")) or name in words}
    for _ in range(DEPTH):
        chosen |= {word for name in chosen for word in scripts[name].split() if word in scripts}
    return [scripts[name] for name in sorted(chosen)]


def _tests_by(at: str, text: str) -> Iterator[tuple[str, str]]:
    """What pytest is told that tests are called, where that can be told from the product."""
    said = {name: re.findall(r"[^\s\"',\[\]]+", value) for name, value in PYTESTS.findall(text)}
    where = [normpath(join(at, one)) for one in said.get("testpaths", ())]
    for pattern in said.get("python_files", ()):
        if pattern not in ("*", "*.py"):
            yield from ((f"{one}/", pattern) for one in where if one != ".")
            if is_checklike(pattern.replace("*", "-")):
                yield "", pattern
    yield from ((f"{one}/", "*") for one in where if is_checklike(one))


def _plain(line: str) -> str:
    for pattern, word in VARIABLES:
        line = re.sub(pattern, word, line)
    return line.replace("$$", "$")


def _words(path: str, text: str, *, every: bool = False) -> Iterator[str]:
    for part in parts(text):
        yield from (name for tool in {tool_of(word) for word in part} & READS.keys() for name in READS[tool])
        for piece in (piece for word in _without_subjects(part) for piece in _pieces(word)):
            if (every and "*" not in piece) or _is_near(piece, path, sourced=part[0] in SOURCING):
                yield piece


def _is_near(word: str, path: str, *, sourced: bool) -> bool:
    """Whether what a script runs is likely to be of its own kind, and not the product that it looks at."""
    steps = word.split("/")[:-1]
    beside = sourced and dirname(word) in ("", dirname(path)) and HELPING.search(basename(word)) is not None
    named = is_checklike(word) and not word.endswith(COMPILED)
    return beside or named or not SCRIPT_DIRECTORIES.isdisjoint(steps)
