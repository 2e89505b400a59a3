"""What the scripts of a check run, source or include in their turn: purely, from their text before the agent came."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from posixpath import basename, dirname

from fleet.evidence.checks import CHECKLIKE, READS, module_of, path_of, scripts_of, simple_commands, tool_of

DEPTH, MOST, NEAREST = 3, 40, 3
SCRIPT_DIRECTORIES = {"scripts", "script", "ci", ".ci", "tools", "hack"}
HELPING = re.compile(r"lib|help|common|util|func|setup|env", re.IGNORECASE)
SOURCING = {".", "source"}
INCLUDE = re.compile(r"^[-s]?include\s+(.+)$", re.MULTILINE)
RECIPE = re.compile(r"^\t[@+-]*(.*)$", re.MULTILINE)
VARIABLES = ((r"\$[({]\w*PYTHON\w*[)}]", "python"), (r"\$[({](?:SHELL|BASH)[)}]", "sh"), (r"\$[({]CURDIR[)}]", "."))

Texts = Callable[[Sequence[str]], Mapping[str, str]]  # of some paths, as far as they are files of a bearable size


def led_to(commands: Iterable[str], names: Callable[[], Iterable[str]], read: Texts) -> frozenset[str]:
    """The files that checks are made of beyond those that their commands name. A path with `/` at its end is all below.

    Whether each is a check's own or the product cannot be told for sure: so a check has to pass with them as they were,
    and they may be changed. `names` are those that were there before.
    """
    words = {word for command in commands for word in _direct(command)}
    if not words:
        return frozenset()
    known: dict[str, list[str]] = {}
    for name in names():
        known.setdefault(basename(name), []).append(name)
    fresh, seen, led = _found(words, known), set[str](), _packages(words, known)
    for _ in range(DEPTH):
        texts = read(sorted(fresh - seen)[:MOST])
        seen |= fresh
        fresh = _found({word for path, text in texts.items() for word in _inside(path, text)}, known)
        led |= fresh
    return frozenset(led)


def _direct(command: str) -> Iterator[str]:
    for program, *rest in simple_commands(command):
        tool = tool_of(program)
        yield from map(path_of, scripts_of(program, tool, rest))
        yield from _read_by(tool, rest)
        module = module_of(tool, rest)
        if tool == "python" and CHECKLIKE.search(module):
            yield f"{module.replace('.', '/')}/__main__.py"


def _read_by(tool: str, rest: Sequence[str]) -> Iterator[str]:
    for name in (tool, module_of(tool, rest)):
        for files in READS.get(name, ()):
            yield from files


def _found(words: Iterable[str], known: Mapping[str, list[str]]) -> set[str]:
    """The files that words may mean: seen from the top, or from a directory below. The nearest few of them."""
    found = set()
    for word in words:
        ends = [name for name in known.get(basename(word), ()) if name == word or name.endswith(f"/{word}")]
        found |= set(sorted(ends, key=lambda name: name.count("/"))[:NEAREST])
    return found


def _packages(words: Iterable[str], known: Mapping[str, list[str]]) -> set[str]:
    mains = {word for word in words if basename(word) == "__main__.py"}
    return {f"{dirname(found)}/" for found in _found(mains, known) if dirname(found)}


def _inside(path: str, text: str) -> Iterator[str]:
    """What a script, a Makefile or a package.json leads to."""
    name = basename(path)
    if name == "package.json":
        for command in _tests_of(text):
            yield from _words(path, command, every=True)
    elif "makefile" in name.lower() or name.endswith(".mk"):
        for line in INCLUDE.findall(text):
            yield from (path_of(word) for word in line.split() if "$" not in word)
        for line in RECIPE.findall(text):
            yield from _words(path, _plain(line))
    elif name.endswith((".sh", ".bash")) or "." not in name or re.match(r"#!.*\b(ba|da|z|k)?sh\b", text):
        yield from _words(path, text)


def _tests_of(text: str) -> list[str]:
    """The commands of a package.json that test something."""
    try:
        scripts = json.loads(text)["scripts"]
        return [str(run) for name, run in scripts.items() if CHECKLIKE.search(name)]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return []


def _plain(line: str) -> str:
    for pattern, word in VARIABLES:
        line = re.sub(pattern, word, line)
    return line.replace("$$", "$")


def _words(path: str, text: str, *, every: bool = False) -> Iterator[str]:
    for program, *rest in simple_commands(text):
        tool = tool_of(program)
        yield from _read_by(tool, rest)
        for word in map(path_of, scripts_of(program, tool, rest, every=every)):
            if every or _is_near(word, path, sourced=tool in SOURCING):
                yield word


def _is_near(word: str, path: str, *, sourced: bool) -> bool:
    """Whether what a script runs is likely to be of its own kind, and not the product that it looks at."""
    steps = word.split("/")[:-1]
    beside = sourced and dirname(word) in ("", dirname(path)) and HELPING.search(basename(word)) is not None
    return beside or CHECKLIKE.search(word) is not None or not SCRIPT_DIRECTORIES.isdisjoint(steps)
