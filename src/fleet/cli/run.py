"""run (with status and stop), log."""

from __future__ import annotations

import json
import queue
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING

import click

from fleet.cli.screen import Screen, can_draw
from fleet.cli.show import data, json_option, talk
from fleet.core import BadConfig
from fleet.core.text import clean

if TYPE_CHECKING:
    from fleet.app.run import Running
    from fleet.core.task import Task

QUIET = {"engine said"}
FAILED, LEFT_HELD = "supervisor failed", "tasks left held"
MOST_UNSAID = 10_000
LAST_WORDS = 1.0
MAX_IDS, MAX_YOURS = 10, 5  # tasks that are named at the end
BACKGROUND_NOTE = "in the background nothing is drawn: fleet tasks shows the tasks, fleet run stop ends it"


@click.group(invoke_without_command=True)
@click.option("--coder", help="The coder for tasks that name none, in place of runtime.toml's.")
@click.option("--once", is_flag=True, help="Start what can start, see it to its end, and stop.")
@click.option("--drain", is_flag=True, help="Stop when nothing is ready or running.")
@click.option("--detach", is_flag=True, help="Run in the background.")
@click.option("--quiet", "-q", is_flag=True, help="Print nothing of what happens; the log has it all.")
@click.option("--json", "as_json", is_flag=True, help="Print what happens as JSON lines.")
@click.pass_context
def run(
    ctx: click.Context, coder: str | None, once: bool, drain: bool, detach: bool, quiet: bool, as_json: bool
) -> None:
    """Start the supervisor: hand out tasks until it is stopped.

    Ctrl-C or SIGTERM stops it and leaves the agents running; the next `fleet run` goes on with them.
    """
    if ctx.invoked_subcommand is not None:
        return
    if once and drain:
        raise BadConfig("--once and --drain exclude each other")
    if detach:
        _detach(coder, once or drain, as_json)
    else:
        _supervise(coder, once, drain, _Telling.of(quiet, as_json))


class _Telling(Enum):
    """How what happens is told."""

    TABLE = "table"
    LINES = "lines"
    JSON = "json"
    NOTHING = "nothing"

    @classmethod
    def of(cls, quiet: bool, as_json: bool) -> _Telling:
        if quiet:
            return cls.NOTHING
        if as_json:
            return cls.JSON
        return cls.TABLE if sys.stdout.isatty() else cls.LINES


def _detach(coder: str | None, bounded: bool, as_json: bool) -> None:
    from fleet.app.run import start_detached

    if bounded:
        raise BadConfig("--detach runs until it is stopped; leave out --once and --drain")
    who = start_detached(coder)
    data(who) if as_json else click.echo(f"the supervisor runs: process {who.pid}")


def _supervise(coder: str | None, once: bool, drain: bool, telling: _Telling) -> None:
    from fleet.app.run import supervise
    from fleet.supervisor.supervisor import Mode

    mode = Mode.ONCE if once else Mode.DRAIN if drain else Mode.FOREVER
    live = telling is _Telling.TABLE
    say = SAY.get(telling, _ignore)
    failed, held = list[str](), list[str]()
    with ExitStack() as terminal:
        terminal.callback(_say_why, failed)
        if live:
            terminal.callback(_say_held, held)
        screen = terminal.enter_context(Screen(live, "Ctrl-C leaves; the agents go on", BACKGROUND_NOTE))
        if live:
            terminal.enter_context(_drawing(screen))
        voice = terminal.enter_context(_Voice(say))

        def hear(record: Mapping[str, object]) -> None:
            if record["event"] == FAILED:
                failed.append(str(record["text"]))
            if record["event"] == LEFT_HELD:
                held.append(f"{record['text']}\n  held: {record['tasks']}")
            voice(record)

        def leave() -> None:
            terminal.close()
            if telling in (_Telling.TABLE, _Telling.LINES) and not failed:
                _part()

        supervise(mode, coder, hear, farewell=leave)


class _Voice:
    """Says things in a thread of its own: a reader that is slow, stopped or gone must not hold up the supervisor."""

    def __init__(self, say: Callable[[Mapping[str, object]], None]) -> None:
        self._say = say
        self._waiting: queue.Queue[Mapping[str, object]] = queue.Queue(MOST_UNSAID)
        self._thread = threading.Thread(target=self._speak, daemon=True)

    def __enter__(self) -> _Voice:
        self._thread.start()
        return self

    def __call__(self, record: Mapping[str, object]) -> None:
        with suppress(queue.Full):  # the log file has it all
            self._waiting.put_nowait(record)

    def __exit__(self, *_: object) -> None:
        self({})
        self._thread.join(LAST_WORDS)

    def _speak(self) -> None:
        with suppress(OSError, ValueError):
            while record := self._waiting.get():
                self._say(record)


def _say_why(failed: Sequence[str]) -> None:
    """Why the supervisor could not go on, as every command says why it failed."""
    for text in failed:
        talk(f"fleet: {clean(text, 2000)}\n  next: fleet doctor")


def _say_held(held: Sequence[str]) -> None:
    """What waits for a person when nothing else is left to do."""
    for text in held:
        talk(text)


def _part() -> None:
    """What a person should know at the end: what came of the tasks, who lives on, and what is theirs to do."""
    from fleet.app.not_landed import not_landed
    from fleet.app.overview import ids_of, overview
    from fleet.app.tasks import Desk
    from fleet.cli.table import not_landed_line
    from fleet.core.states import Group, sums_line

    desk = Desk.open()
    found = overview(desk)
    yours = ids_of(found, Group.NEEDS_YOU)
    talk(f"stopped. {clean(sums_line(found.sums, _short(yours)), 1000)}")
    alive = [row.id for row in found.rows if row.state.value in ("starting", "working")]
    if alive:
        who = "1 agent lives on" if len(alive) == 1 else f"{len(alive)} agents live on"
        talk(f"{who}: {', '.join(alive[:MAX_IDS])}{' …' if len(alive) > MAX_IDS else ''}")
        talk("  next: `fleet run` goes on with them; `fleet abort ID` ends one")
    for row in [row for row in found.rows if row.group is Group.NEEDS_YOU][:MAX_YOURS]:
        talk(f"  yours: {row.id}: {row.next}" if row.next else f"  yours: fleet show {row.id}")
    if line := not_landed_line(not_landed(desk, found.proven)):
        talk(line)


def _short(yours: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """The ids of those that need a person, of each kind a few."""
    return {word: [*ids[:MAX_IDS], *(["…"] if len(ids) > MAX_IDS else [])] for word, ids in yours.items()}


def _ignore(record: Mapping[str, object]) -> None:
    """Nobody looks."""


@contextmanager
def _drawing(screen: Screen) -> Iterator[None]:
    """Draw the table again every second beside the supervisor, and not once more when it is over."""
    over = threading.Event()
    drawer = threading.Thread(target=_draw, args=(screen, over), daemon=True)
    drawer.start()
    try:
        yield
    finally:
        over.set()
        drawer.join(LAST_WORDS)


def _draw(screen: Screen, over: threading.Event) -> None:
    from fleet.app.overview import overview
    from fleet.app.tasks import Desk
    from fleet.cli.grid import terminal_height, terminal_width
    from fleet.cli.table import print_live
    from fleet.core import FleetError

    known: dict[str, Task] = {}
    while not over.is_set():
        with suppress(FleetError):
            found = overview(Desk.open(), known=known)
            screen.draw(partial(print_live, found, terminal_width(), terminal_height()))
        over.wait(1)


def _print_json(record: Mapping[str, object]) -> None:
    click.echo(json.dumps(record, ensure_ascii=False, default=str))


def _print(record: Mapping[str, object]) -> None:
    """One plain line for one thing that happened."""
    from fleet.app.log_words import log_line

    if record["event"] not in QUIET or record["level"] != "info":
        click.echo(clean(log_line(record), 2000))


def _print_in_background(record: Mapping[str, object]) -> None:
    """Print a line where the table is not drawn."""
    if not can_draw(sys.stdout):
        _print(record)


SAY = {_Telling.LINES: _print, _Telling.JSON: _print_json, _Telling.TABLE: _print_in_background}


@run.command()
@json_option
def status(as_json: bool) -> None:
    """Say whether a supervisor runs for this home. Exit 1 when none does, or when somebody has stopped it."""
    from dataclasses import asdict

    from fleet.app.run import held_back
    from fleet.app.run import status as look

    who = look()
    closed = held_back() if who.running else None
    if as_json:
        data(asdict(who) | {"held_back": closed})
    else:
        click.echo(_who(who))
    if closed is not None and not as_json:
        click.echo(f"nothing more is started: {clean(closed, 500)}")
    if not who.running or who.stopped:
        raise click.exceptions.Exit(1)


def _who(who: Running) -> str:
    if not who.running:
        return f"no supervisor runs for {who.home}"
    if who.stopped:
        return f"the supervisor was stopped by a signal, and does nothing: kill -CONT {who.pid}"
    since = f" since {datetime.fromtimestamp(who.started):%Y-%m-%d %H:%M:%S}" if who.started else ""
    return f"the supervisor runs: process {who.pid or 'unknown'}{since}, for {who.home}"


@run.command()
@json_option
def stop(as_json: bool) -> None:
    """Stop the supervisor. Its agents live on, and the next `fleet run` goes on with them."""
    from fleet.app.run import stop as end

    who = end()
    if as_json:
        data({"stopped": who.running, "pid": who.pid})
    elif who.running:
        click.echo(f"stopped the supervisor, process {who.pid}")
    else:
        talk("no supervisor was running")


@click.command()
@click.argument("lines", type=click.IntRange(1), required=False)
@click.option("--follow", "-f", is_flag=True, help="Go on as it grows.")
@click.option("--words", is_flag=True, help="Local times and sentences, as on a terminal.")
@json_option
def log(lines: int | None, follow: bool, words: bool, as_json: bool) -> None:
    """Print the supervisor's newest log: on a terminal in words, else JSON lines; with a number, only so many lines
    from its end.
    """
    from fleet.app.log_words import log_line
    from fleet.app.run import log_growth, log_lines
    from fleet.cli.records import in_words, record_printer

    show = record_printer(log_line if in_words(words, as_json) else None)
    for line in log_lines(lines):
        show(line)
    for line in log_growth() if follow else ():
        show(line)
