"""What failed, from what a check printed: the first failing test and its message. Pure; the output is untrusted."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from fleet.core.frozen import dataclass

MAX_MESSAGE_CHARS = 300
MAX_LINE_CHARS = 2000
MAX_MESSAGE_LINES = 4
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")

PYTEST_SUMMARY = re.compile(r"(?:FAILED|ERROR) (\S+\.\w+(?:::.*?)?)(?: - (.*))?$")
PYTEST_HEADING = re.compile(r"_{3,} (?:ERROR (?:collecting|at setup of|at teardown of) )?(.+?) _{3,}$")
PYTEST_REASON = re.compile(r"E {2,}(\S.*)$")
CARGO_TEST = re.compile(r"---- (.+?) stdout ----$")
CARGO_PANIC = re.compile(r"thread '.*' (?:\(\d+\) )?panicked at (.*)$")
CARGO_OLD_PANIC = re.compile(r"'(.*)', \S+:\d+:\d+$")
CARGO_END = re.compile(r"stack backtrace:|note: |---- |failures:|$")
RUSTC_ERROR = re.compile(r"error(?:\[E\d+\])?: (.*)$")
RUSTC_PLACE = re.compile(r"\s*--> (\S+)$")
RUSTC_SUMMARY = ("could not compile", "aborting due to", "test failed, to rerun")
GO_TEST = re.compile(r"(\s*)--- FAIL: (\S+) \(")
GO_REASON = re.compile(r"\s+\S+\.go:\d+: (.*)$")
GO_PANIC = re.compile(r"panic: (.*?)(?: \[recovered.*)?$")
GO_COMPILE = re.compile(r"(?:vet: )?(\.{0,2}/?\S+\.go:\d+(?::\d+)?): (.*)$")
GO_END = re.compile(r"\s*--- |FAIL\b|ok\s|=== ")
ASSERTION = re.compile(r"(?:AssertionError|builtins\.AssertionError): (?=\S)")


@dataclass(frozen=True, slots=True)
class Failure:
    """The first thing that failed, and what its runner says of it."""

    name: str
    message: str = ""

    def __str__(self) -> str:
        return f"{self.name}: {self.message}" if self.message else self.name


def first_failure(output: str) -> Failure | None:
    """The first failing test in the output of pytest, cargo or go, or the first error of their compilers."""
    lines = [ESCAPE.sub("", line[:MAX_LINE_CHARS]).rstrip() for line in output.splitlines()]
    found = (read(lines) for read in READERS)
    return next((_shortened(one) for one in found if one is not None), None)


def last_words(output: str) -> str:
    """The last line that says something, for a check whose runner is not known."""
    lines = (ESCAPE.sub("", line[:MAX_LINE_CHARS]).strip() for line in reversed(output.splitlines()))
    return next((line[:MAX_MESSAGE_CHARS] for line in lines if any(map(str.isalnum, line))), "")


def last_lines(outputs: Sequence[str], limit: int) -> str:
    """The last lines of several streams together; a talkative one does not push the others out."""
    split = [text.splitlines(keepends=True) for text in outputs]
    share = limit // max(1, len(split))
    spare = sum(max(0, share - len(lines)) for lines in split)
    kept = [line for lines in split for line in lines[-(share + spare) :]]
    return "".join(kept[-limit:])


def _shortened(found: Failure) -> Failure:
    message = ASSERTION.sub("", found.message, count=1)
    return Failure(found.name[:MAX_MESSAGE_CHARS], message[:MAX_MESSAGE_CHARS])


def _of_pytest(lines: Sequence[str]) -> Failure | None:
    """The summary names the test; its own section has the message whole."""
    for line in lines:
        summary = PYTEST_SUMMARY.match(line)
        if summary:
            return Failure(summary[1], _pytest_reason(lines, summary[1]) or summary[2] or "")
    return None


def _pytest_reason(lines: Sequence[str], test: str) -> str:
    headings = {test, ".".join(test.split("::")[1:])}
    inside = False
    for line in lines:
        heading = PYTEST_HEADING.match(line)
        if heading:
            inside = heading[1] in headings
        reason = PYTEST_REASON.match(line) if inside else None
        if reason:
            return reason[1]
    return ""


def _of_cargo(lines: Sequence[str]) -> Failure | None:
    for at, line in enumerate(lines):
        test = CARGO_TEST.match(line)
        if test:
            return Failure(test[1], _cargo_reason(lines[at + 1 :]))
    return None


def _cargo_reason(lines: Sequence[str]) -> str:
    for at, line in enumerate(lines):
        if CARGO_TEST.match(line):
            break
        panic = CARGO_PANIC.match(line)
        if panic:
            old = CARGO_OLD_PANIC.match(panic[1])
            return old[1] if old else ", ".join(_until(lines[at + 1 :], CARGO_END))
    return ""


def _of_rustc(lines: Sequence[str]) -> Failure | None:
    for at, line in enumerate(lines):
        error = RUSTC_ERROR.match(line)
        if error and not error[1].startswith(RUSTC_SUMMARY):
            place = RUSTC_PLACE.match(lines[at + 1]) if at + 1 < len(lines) else None
            return Failure(place[1], error[1]) if place else Failure(error[1])
    return None


def _of_go(lines: Sequence[str]) -> Failure | None:
    """The innermost of the first failing test: what holds it failed because of it."""
    for at, line in enumerate(lines):
        test = GO_TEST.match(line)
        if not test:
            continue
        inner = GO_TEST.match(lines[at + 1]) if at + 1 < len(lines) else None
        if inner and len(inner[1]) > len(test[1]):
            continue
        return Failure(test[2], _go_reason(lines[at + 1 :]))
    return None


def _go_reason(lines: Sequence[str]) -> str:
    said = ""
    for line in lines:
        panic = GO_PANIC.match(line)
        if panic:
            return f"panic: {panic[1]}"
        if GO_END.match(line):
            break
        reason = GO_REASON.match(line)
        said = reason[1] if reason else said  # the last one: what came before it is a log
    return said


def _of_go_compiler(lines: Sequence[str]) -> Failure | None:
    if not any(line.startswith("FAIL\t") and line.endswith(" failed]") for line in lines):
        return None
    return next((Failure(found[1], found[2]) for line in lines if (found := GO_COMPILE.match(line))), None)


def _until(lines: Sequence[str], end: re.Pattern[str]) -> Iterator[str]:
    for line in lines[:MAX_MESSAGE_LINES]:
        if end.match(line):
            return
        yield line.strip()


READERS: tuple[Callable[[Sequence[str]], Failure | None], ...] = (
    _of_pytest, _of_cargo, _of_go, _of_go_compiler, _of_rustc,
)  # fmt: skip
