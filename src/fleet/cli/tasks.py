"""add, tasks, ready, show, task, abort, retry, accept."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fleet.cli.show import data, json_option, talk, warn, watched
from fleet.core import BadConfig
from fleet.core.text import clean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fleet.app.limits import Allowed
    from fleet.app.tasks import Desk, Row, Shown
    from fleet.core.work import Attempt

TOGETHER = ("tokens", "cost")  # limits of all attempts at a task together
READABLE = ("log", "events", "plan", "knowledge", "questions", "receipt", "stderr")
MOST_TEXT = 10 * 1024 * 1024


@click.command()
@click.argument("title", required=False)
@click.option("--file", metavar="FILE", help="Add every task of a Markdown list or of JSON; - reads stdin.")
@click.option("--format", "form", type=click.Choice(["md", "json"]), help="What the file is.  [default: by its name]")
@click.option("--dry-run", is_flag=True, help="Check the file and show what would be added.")
@click.option("--description", "-d", default="", help="What is to be done, at length; - reads it from stdin.")
@click.option("--priority", "-p", type=click.IntRange(0, 4), default=2, show_default=True, help="0 is most urgent.")
@click.option("--after", metavar="ID", multiple=True, help="Wait for this task to be done. May be given again.")
@click.option("--cwd", type=click.Path(path_type=Path), help="Where the agent works.  [default: here]")
@click.option("--coder", help="The agent CLI for this task.")
@click.option("--model", help="The model for this task.")
@click.option("--account", help="The coder's account for this task, and no other.")
@click.option(
    "--place", type=click.Choice(["inplace", "worktree", "clone"]), help="Where: here, or in a copy of its own."
)
@click.option("--check", metavar="CMD", help="A shell command that must exit 0 before the task counts as done.")
@click.option("--kind", type=click.Choice(["work", "research"]), help="What it is to leave: a change, or an answer.")
@click.option("--allow", metavar="GLOB", multiple=True, help="Only such paths may be touched. May be given again.")
@click.option("--deny", metavar="GLOB", multiple=True, help="Such paths may not be touched. May be given again.")
@click.option("--max-files", "files", type=click.IntRange(0), help="How many files may be changed.")
@click.option("--deletions", type=click.IntRange(0), help="How many files may be deleted.  [default: 0]")
@click.option(
    "--allow-protected",
    "protected",
    metavar="GLOB",
    multiple=True,
    help="Of the protected paths (CI, settings of agents, lock files), such may be touched. May be given again.",
)
@click.option("--timeout", metavar="TIME", help="Wall time of one attempt, such as 30m.")
@click.option("--attempts", type=click.IntRange(1, 100), help="How often it is tried.")
@click.option("--output", metavar="SIZE", help="How much one attempt may print, such as 500MB.")
@click.option("--silence", metavar="TIME", help="How long the agent may say nothing, such as 20m; or none.")
@click.option("--tokens", metavar="COUNT", help="Tokens of all attempts together, such as 2M; or none.")
@click.option("--cost", metavar="USD", help="US dollars of all attempts together, such as 5; or none.")
@json_option
def add(
    title: str | None, file: str | None, form: str | None, dry_run: bool,
    description: str, priority: int, after: tuple[str, ...], cwd: Path | None, coder: str | None,
    model: str | None, account: str | None, check: str | None, timeout: str | None, attempts: int | None,
    output: str | None, silence: str | None, tokens: str | None, cost: str | None, place: str | None,
    kind: str | None, allow: tuple[str, ...], deny: tuple[str, ...], files: int | None, deletions: int | None,
    protected: tuple[str, ...], as_json: bool,
) -> None:  # fmt: skip
    """Put one task in the queue, or all of a file. It is worked on where you are now, unless --cwd says otherwise."""
    from fleet.app.add import add as put
    from fleet.core.task import NewTask, Spec, TaskKind

    spec = Spec(
        cwd=str((cwd or Path()).absolute()), coder=coder, model=model, check=_command(check),
        account=account, timeout=_seconds(timeout), attempts=attempts, output=_size(output),
        silence=_limit("silence", silence), tokens=_whole(_limit("tokens", tokens)), cost=_limit("cost", cost),
        place=place, kind=TaskKind(kind) if kind else None, files=files, deletions=deletions,
        allow=_globs("--allow", allow), deny=_globs("--deny", deny),
        protected=_globs("--allow-protected", protected),
    )  # fmt: skip
    if title is None or file is not None or form is not None or dry_run:
        from fleet.cli.plan import add_file

        add_file(title, file, form, dry_run, NewTask("", description, priority, after), spec, as_json)
        return
    said = sys.stdin.read(MOST_TEXT) if description == "-" else description
    made, is_awake = put(NewTask(title, said, priority, after), spec)
    if as_json:
        data({"id": made.id, "title": made.title, "cwd": spec.cwd})
    else:
        click.echo(f"Added {made.id}: {clean(made.title, 500)}")
        if not is_awake:
            talk("  no supervisor runs; start one: fleet run")


def open_desk() -> Desk:
    from fleet.app.tasks import Desk

    desk = Desk.open()
    if desk.problem is not None:
        warn(f"{' '.join(desk.problem.message.split())}; the defaults are shown in its place")
    return desk


def _seconds(text: str | None) -> float | None:
    if text is None:
        return None
    from fleet.config.units import seconds

    return _unit("--timeout", text, seconds)


def _size(text: str | None) -> int | None:
    if text is None:
        return None
    from fleet.config.units import size

    return int(_unit("--output", text, size))


def _limit(name: str, text: str | None) -> float | None:
    """A limit that can be switched off: by `none`, which is kept as 0."""
    if text is None:
        return None
    from fleet.config.units import switchable

    try:
        return switchable(name, text)
    except ValueError as problem:
        raise BadConfig(f"--{name} {problem}") from problem


def _command(check: str | None) -> str | None:
    if check is not None and not check.strip():
        raise BadConfig("--check must be a command, and is empty", hint='fleet add --check "make test" …')
    return check


def _globs(option: str, patterns: tuple[str, ...]) -> tuple[str, ...] | None:
    from fleet.core.globs import problem

    for pattern in patterns:
        wrong = problem(pattern)
        if wrong is not None:
            raise BadConfig(f"{option}: {clean(pattern, 80)!r} {wrong}")
    return patterns or None


def _whole(number: float | None) -> int | None:
    return None if number is None else int(number)


def _unit(option: str, text: str, read: object) -> float:
    assert callable(read)
    try:
        value = float(read(text))
    except ValueError as problem:
        raise BadConfig(f"{option} {problem}") from problem
    if value <= 0:
        raise BadConfig(f"{option} must be over 0")
    return value


@click.command()
@click.option("--all", "everything", is_flag=True, help="Finished ones too.")
@click.option("--limit", type=click.IntRange(1), help="At most so many: the newest.")
@click.option("--watch", "-w", is_flag=True, help="Again every second.")
@json_option
def tasks(everything: bool, limit: int | None, watch: bool, as_json: bool) -> None:
    """Show the tasks that are not finished, what each is doing, and why it is as it is.

    A coder or model in bold was asked for by the task itself; a dim one is inherited.
    """
    from fleet.app.tasks import rows
    from fleet.cli.grid import terminal_height, terminal_width
    from fleet.cli.table import print_live, print_tasks

    desk = open_desk()

    def look() -> list[Row]:
        found = rows(desk, everything=everything)
        return found[-limit:] if limit else found

    def show(found: list[Row]) -> None:
        if watch and sys.stdout.isatty():
            print_live(found, terminal_width(), terminal_height())
        else:
            print_tasks(found, terminal_width())

    watched(look, show, watch=watch, as_json=as_json)


@click.command()
@click.option("--limit", type=click.IntRange(1), help="At most so many.")
@json_option
def ready(limit: int | None, as_json: bool) -> None:
    """List the tasks that could start now, the most urgent first."""
    from fleet.app.tasks import ready as look

    found = look(open_desk(), limit)
    if as_json:
        data(found)
        return
    _print_ready(found)
    if not found:
        talk("nothing is ready")


def _print_ready(found: Sequence[Row]) -> None:
    """The columns that there is room for on a terminal; piped, a whole line for each."""
    from fleet.cli.grid import terminal_width
    from fleet.cli.table import print_ready

    width = terminal_width()
    if width is not None and found:
        print_ready(found, width)
        return
    for row in found:
        click.echo(f"{row.id}  {clean(row.title, 500)}  [{clean(row.cwd or 'no directory', 1000)}]")


@click.command()
@click.argument("id")
@json_option
def show(id: str, as_json: bool) -> None:
    """Show one task whole: what is wanted, what it runs with, and every attempt at it."""
    from fleet.app.tasks import show as look

    shown = look(open_desk(), id)
    if as_json:
        data(shown)
    else:
        _print(shown)


def _doing(row: Row) -> str:
    """What its agent does, and since when."""
    from fleet.cli.grid import clock

    return "" if row.life is None else f"{row.life.state}, since {clock(row.life.since)} ({row.life.why})"


def _print(shown: Shown) -> None:
    from fleet.cli.grid import clock, folded, span, terminal_width

    row, width = shown.row, terminal_width()
    coder = row.coder + ("" if row.own_coder else "  (default)")
    model = (row.model or "the agent's own") + ("" if row.own_model else "  (default)")
    facts = [
        ("id", row.id), ("title", row.title), ("state", row.shown_state), ("doing", _doing(row)), ("cause", row.cause),
        ("proof", _proof(shown)),
        ("cwd", row.cwd or f"unknown: {shown.spec_problem}"), ("coder", coder), ("model", model),
        ("account", (shown.spec.account if shown.spec else None) or ""),
        ("priority", str(row.priority)), ("place", _place(shown)), ("branch", row.branch or ""),
        ("waits for", ", ".join(row.waits_for)),
        *_demands(shown), *_limits(shown), ("notes", shown.notes),
    ]  # fmt: skip
    for name, value in facts:
        if value:
            click.echo(folded(f"{name + ':':11}{clean(value, 2000)}", width, 11))
    if shown.description:
        click.echo("\n" + "\n".join(folded(clean(line, 2000), width) for line in shown.description.splitlines()))
    for comment in shown.comments:
        said = f"{clock(comment.at)}  {clean(comment.author)}: {clean(comment.text, 2000)}"
        click.echo("\n" + folded(said, width, 4))
    for attempt in shown.history:
        wall = span((attempt.ended or time.time()) - attempt.started) if attempt.started else "-"
        ending = attempt.verdict.value if attempt.verdict else "running"
        coder = f"{attempt.coder} ({attempt.account})" if attempt.account else attempt.coder
        who = f"{clock(attempt.started)}  {wall}  {coder}  {_context(attempt)}"
        line = f"attempt {attempt.number}  {who}  {ending}"
        cause = "; ".join(clean(said, 2000) for said in (attempt.cause, _handover(attempt)) if said)
        whole = line + (f": {cause}" if cause else "")
        click.echo(("\n" if attempt.number == 1 else "") + folded(whole, width, 4))


def _proof(shown: Shown) -> str:
    """What the evidence says of the last attempt, and why."""
    last = shown.history[-1] if shown.history else None
    return f"{last.proof}: {last.reason}" if last is not None and last.proof is not None else ""


def _place(shown: Shown) -> str:
    """Which kind of place the last attempt had; before there is one, what the task itself asks for."""
    if shown.history:
        last = shown.history[-1]
        return f"{last.place} of {last.repository}" if last.repository else last.place.value
    return (shown.spec.place if shown.spec else None) or ""


def _demands(shown: Shown) -> list[tuple[str, str]]:
    from fleet.app.demands import described

    if shown.demands is None:
        return [("check", (shown.spec.check if shown.spec else None) or "")]
    return list(described(shown.demands, shown.spec))


def _limits(shown: Shown) -> list[tuple[str, str]]:
    """What a task may use: of one attempt in a line, of all together with what is used of it."""
    alone = ", ".join(_alone(one) for one in shown.limits if one.name not in TOGETHER)
    counted = [one for one in shown.limits if one.name in TOGETHER and (one.limit, one.used) != (None, None)]
    return [("limits", alone), *((one.name, _together(one)) for one in counted)]


def _alone(one: Allowed) -> str:
    figure = f"{one.name} {'none' if one.limit is None else _figure(one.name, one.limit)}"
    return figure if one.set_by.value == "default" else f"{figure} ({one.set_by.words})"


def _together(one: Allowed) -> str:
    used = "unknown" if one.used is None else _figure(one.name, one.used)
    limit = ", no limit" if one.limit is None else f" of {_figure(one.name, one.limit)}, {one.set_by.words}"
    return f"{used}{limit}" + (f"; not kept: {one.not_kept}" if one.not_kept else "")


def _figure(name: str, value: float) -> str:
    from fleet.config import units

    match name:
        case "timeout" | "silence":
            return units.time_text(value)
        case "output":
            return units.size_text(int(value))
        case "tokens":
            return units.tokens_text(int(value))
        case "cost":
            return units.dollars_text(value)
        case _:
            return f"{value:g}"


def _context(attempt: Attempt) -> str:
    from fleet.config.units import tokens_text

    if attempt.context_share is None:
        return "context unknown"
    return f"context {attempt.context_share}% of {tokens_text(attempt.context_limit or 0)}"


def _handover(attempt: Attempt) -> str:
    match attempt.handover:
        case None:
            return ""
        case "begun":
            return "its session writes its notes"
        case "done":
            return "handed over"
        case problem:
            return f"handover {problem}"


class TaskCommand(click.Command):
    """`task --help` also lists what runs now."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from fleet.core import FleetError

        try:
            running = _running_now()
        except FleetError:
            return
        with formatter.section("Running now"):
            formatter.write_dl(running or [("-", "nothing")])


def _running_now() -> list[tuple[str, str]]:
    from fleet.app.tasks import rows

    found = [row for row in rows(open_desk(), everything=False) if row.state.value in ("starting", "working")]
    return [(row.id, f"[{row.coder}/{row.model or 'its own'}] {clean(row.title, 60)}") for row in found]


@click.command(cls=TaskCommand)
@click.argument("id")
@click.argument("what", type=click.Choice(READABLE))
@click.option("--follow", "-f", is_flag=True, help="Go on as it grows.")
@click.option("--raw", "--json", "raw", is_flag=True, help="As it is in the file; a receipt is JSON.")
def task(id: str, what: str, follow: bool, raw: bool) -> None:
    """Read what a task left: its log and events, the agent's plan, knowledge and questions, its receipt, its stderr.

    A receipt is told in words on a terminal, and is JSON for everybody else.
    """
    from fleet.app.tasks import content, is_going_on, readable

    desk = open_desk()
    path = readable(desk, id, what)
    if what == "receipt" and not raw and not follow and sys.stdout.isatty() and _tell_receipt(desk, path):
        return
    if what == "receipt":
        _doubt_receipt(desk, id)
    shown = 0
    while True:
        while piece := content(path, shown):
            _pour(piece)
            shown += len(piece)
        if not follow or not is_going_on(desk, id):
            return
        time.sleep(0.5)


def _tell_receipt(desk: Desk, path: Path) -> bool:
    """Show a receipt in words; False when the file is none."""
    from fleet.app.verify import look
    from fleet.cli.verify import show_receipt
    from fleet.evidence.receipt import load_receipt

    receipt = load_receipt(path)
    if receipt is not None:
        show_receipt(receipt, look(desk.home, receipt.attempt.id))
    return receipt is not None


def _doubt_receipt(desk: Desk, id: str) -> None:
    """Say what is wrong with a receipt that is printed as it is."""
    from fleet.app.verify import doubts

    for text in doubts(desk.home, id):
        click.echo(f"this does not hold: {clean(text, 2000)}; next: fleet verify {id}", err=True)


def _pour(text: bytes) -> None:
    """Text that an agent wrote: on a terminal without what it would obey, piped as it is."""
    if not sys.stdout.isatty():
        sys.stdout.buffer.write(text)
        sys.stdout.flush()
        return
    shown = text.decode(errors="replace")
    safe = (c if c in "\n\t" or c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in shown)
    click.echo("".join(safe), nl=False)


@click.command()
@click.argument("id")
@json_option
def abort(id: str, as_json: bool) -> None:
    """End a task's agent, with everything it started, and cancel the task.

    First it is asked (INT, then TERM after 5 s), and after 10 s more it is made to end. Works without a supervisor.
    """
    from fleet.app.tasks import abort as end

    done = end(open_desk(), id)
    data({"id": done.id, "state": "cancelled"}) if as_json else click.echo(f"Cancelled {done.id}")


@click.command()
@click.argument("id")
@json_option
def retry(id: str, as_json: bool) -> None:
    """Open a task again, with its failures forgotten."""
    from fleet.app.tasks import retry as again

    opened = again(open_desk(), id)
    data({"id": opened.id, "state": "open"}) if as_json else click.echo(f"Opened {opened.id}")


@click.command()
@click.argument("id")
@json_option
def accept(id: str, as_json: bool) -> None:
    """Close a task whose work was refused, or not verified, because you have looked at it. The mark stays."""
    from fleet.app.tasks import accept as believe

    done = believe(open_desk(), id)
    data({"id": done.id, "state": "done", "reason": done.reason}) if as_json else click.echo(f"Closed {done.id}")


@click.command()
@click.argument("id")
@click.argument("text")
@json_option
def comment(id: str, text: str, as_json: bool) -> None:
    """Write a comment on a task; `fleet show` prints it. Agents do not see it."""
    from fleet.app.tasks import comment as write

    write(open_desk(), id, text)
    data({"id": id, "comment": text}) if as_json else click.echo(f"Commented on {id}")


@click.command()
@click.argument("id")
@click.argument("on")
@json_option
def depend(id: str, on: str, as_json: bool) -> None:
    """Let the task ID wait until the task ON is done. A circle is refused."""
    from fleet.app.tasks import depend as wait

    task = wait(open_desk(), id, on)
    waits = ", ".join(task.waits_for) or "nothing, since that is done"
    data({"id": task.id, "waits_for": task.waits_for}) if as_json else click.echo(f"{task.id} waits for {waits}")


@click.command()
@click.argument("id")
@click.argument("reason")
@json_option
def block(id: str, reason: str, as_json: bool) -> None:
    """Set a task aside that nobody works on, until `fleet retry` opens it again."""
    from fleet.app.tasks import block as set_aside

    task = set_aside(open_desk(), id, reason)
    data({"id": task.id, "state": "blocked"}) if as_json else click.echo(f"Set aside {task.id}")
