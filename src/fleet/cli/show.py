"""What every command shares: options that mean the same everywhere, and how things are shown.

Data goes to stdout, talk to stderr; colours only on a terminal.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from fleet.cli.screen import Screen
from fleet.core.text import clean

if TYPE_CHECKING:
    from fleet.core.states import ShownState

FLEET_YAML = Path("fleet.yaml")
MOST_TEXT = 10 * 1024 * 1024


def _found(ctx: click.Context, param: click.Parameter, value: Path) -> Path:
    """The file that was named; else the one here, or the nearest above, up to the top of the repository."""
    if value != FLEET_YAML or os.path.lexists(value):
        return value
    from fleet.config.limits import candidates

    found = next((path for path in candidates(Path.cwd()) if os.path.lexists(path)), None)
    return Path(os.path.relpath(found)) if found else value


config_option = click.option(
    "--config",
    "-c",
    type=click.Path(path_type=Path, dir_okay=False),
    default=FLEET_YAML,
    show_default="fleet.yaml, here or above",
    callback=_found,
    help="The fleet file.",
)
out_option = click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="The project directory.  [default: where fleet.yaml is]",
)
T = TypeVar("T")
json_option = click.option("--json", "as_json", is_flag=True, help="Print data as JSON.")
GOOD, BAD, MEH = "green", "red", "yellow"


def text_of(given: str) -> str:
    """A text as somebody gave it: `-` reads standard input."""
    return sys.stdin.read(MOST_TEXT) if given == "-" else given


def data(value: object, *, line: bool = False) -> None:
    """Print a value as JSON, whole, on stdout; as one line where more will follow."""
    import msgspec

    text = msgspec.json.encode(value, enc_hook=str)
    click.echo((text if line else msgspec.json.format(text, indent=2)).decode())


def watched(
    look: Callable[[], T], show: Callable[[T], None], *, watch: bool, as_json: bool, every: float = 1.0
) -> None:
    """Show what is found, once, or again and again on a screen of its own; as JSON it is a line each time."""
    with Screen(watch and not as_json) as screen:
        while True:
            found = look()
            if as_json:
                data(found, line=watch)
            elif watch and sys.stdout.isatty():
                screen.draw(partial(show, found))
            else:
                show(found)
            if not watch:
                return
            time.sleep(every)


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], colours: dict[str, str] | None = None) -> None:
    """Print aligned columns; the last one is as wide as it likes. Cells are cleaned of control characters."""
    cells = [[clean(cell, 10_000) for cell in row] for row in rows]
    widths = [max(len(row[n]) for row in [list(heads), *cells]) for n in range(len(heads))]
    click.echo("  ".join(head.ljust(width) for head, width in zip(heads, widths, strict=True)).rstrip())
    click.echo("-" * min(100, sum(widths) + 2 * (len(widths) - 1)))
    for row in cells:
        padded = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        padded[-1] = padded[-1].rstrip()
        click.echo("  ".join(paint(cell, colours) for cell in padded).rstrip())


def paint(cell: str, colours: dict[str, str] | None) -> str:
    colour = (colours or {}).get(cell.strip())
    return click.style(cell, fg=colour) if colour else cell


def paint_state(text: str, shown: ShownState) -> str:
    """A text in the colour of a state."""
    from fleet.core.states import LOOKS

    colour = LOOKS[shown].colour
    return click.style(text, fg=colour) if colour else text


def talk(message: str) -> None:
    click.echo(message, err=True)


def warn(message: str) -> None:
    click.echo(click.style("warning: ", fg=MEH) + message, err=True)


def size(count: int | None) -> str:
    """Bytes for people."""
    if count is None:
        return "unknown"
    amount = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} TB"
