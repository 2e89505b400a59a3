"""A failed check as its next reader needs it: which it was, how it ended, the end of what it printed. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from fleet.evidence.receipt import Check

MAX_NAME_CHARS = 32  # what failed comes after it, in a line of 80


def check_name(check: Check) -> str:
    """What a check is called in a sentence: its name, or its command; of a long one without where its program is."""
    words = " ".join((check.name or check.command).split())
    if len(words) > MAX_NAME_CHARS and words.startswith("/"):
        program, _, rest = words.partition(" ")
        words = f"{program.rpartition('/')[2]} {rest}".strip()
    return f'check "{words if len(words) <= MAX_NAME_CHARS else words[: MAX_NAME_CHARS - 1] + "…"}"'


def which_files(check: Check) -> str:
    """What a check was run with, of one that is run twice: its own files as they were before, too."""
    return " with its own files as they were before" if "as they were" in check.where else ""


def failed(checks: Sequence[Check]) -> Check | None:
    """The check that decided against the work. One that was cut off says nothing about it."""
    return next((check for check in checks if not check.passed and not check.lost), None)


def ended(check: Check) -> str:
    """How a check ended, and how long it took."""
    took = f", {check.seconds:.1f} s" if check.seconds is not None else ""
    counted = "".join(f", {number} {name}" for name, number in check.counts.items())
    return f"{check.cause}{took}{counted}"


def report(check: Check) -> str:
    """All that the next attempt is told of the check that failed."""
    named = f"{check.name}: " if check.name else ""
    lines = [
        f"Check: {named}{check.command}",
        f"From: {check.source}",
        f"Run in: {check.where or 'the directory of the task'}",
    ]
    lines += [f"Ended: {ended(check)}", *([f"What failed: {check.failure}"] if check.failure else [])]
    tail = check.tail.rstrip()
    return "\n".join([*lines, *(["The last lines that it printed:", "", tail] if tail else ["It printed nothing."])])
