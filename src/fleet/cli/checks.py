"""How checks look: what ran, how it ended, what failed, and the end of what it printed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from fleet.cli.show import BAD, GOOD, MEH
from fleet.core.text import clean

if TYPE_CHECKING:
    from fleet.evidence.receipt import Check

MARKS = {True: click.style("✓", fg=GOOD), False: click.style("✗", fg=BAD), None: click.style("?", fg=MEH)}
MAX_LINE_CHARS = 500


def check_line(check: Check) -> str:
    """One check in one line: which, and how it ended."""
    from fleet.evidence.report import ended, which_files

    mark = MARKS[None if check.lost else check.passed]
    return (
        f"{mark} {clean(check.name or check.command, 200)}{which_files(check)}: {clean(ended(check), MAX_LINE_CHARS)}"
    )


def check_lines(checks: Sequence[Check], task: str, tail_lines: int) -> Iterator[str]:
    """Every check; of one that failed also what failed, the last lines that it printed, and where to read them all."""
    for check in checks:
        yield f"  {check_line(check)}"
        if check.passed or check.lost:
            continue
        if check.name:
            yield f"    command: {clean(check.command, MAX_LINE_CHARS)}"
        if check.failure:
            yield f"    {click.style(clean(check.failure, MAX_LINE_CHARS), bold=True)}"
        printed = [line for line in check.tail.splitlines() if line.strip()]
        yield from (click.style(f"    | {clean(line, MAX_LINE_CHARS)}", dim=True) for line in printed[-tail_lines:])
        yield f"    all of it: fleet task {task} check"
