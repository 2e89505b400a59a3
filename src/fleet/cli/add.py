"""add: one task, or all of a file, into the queue."""

from __future__ import annotations

from pathlib import Path

import click

from fleet.cli.show import data, json_option, talk, text_of
from fleet.core import BadConfig
from fleet.core.text import clean


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
    made, is_awake = put(NewTask(title, text_of(description), priority, after), spec)
    if as_json:
        data({"id": made.id, "title": made.title, "cwd": spec.cwd})
    else:
        click.echo(f"Added {made.id}: {clean(made.title, 500)}")
        if not is_awake:
            talk("  no supervisor runs; start one: fleet run")


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
