"""create, fanout, multi, prompt, attach, logs, kill: agents on branches, each in a terminal of its own."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from fleet.cli.forerunners import warn_of_unread
from fleet.cli.screen import can_draw
from fleet.cli.show import BAD, GOOD, MEH, data, json_option, talk, text_of, warn
from fleet.core import BadConfig, FleetError
from fleet.core.text import clean

if TYPE_CHECKING:
    from fleet.app.agents import NotEnded
    from fleet.app.say import Said
    from fleet.batches.create import Made
    from fleet.batches.end import Ended
    from fleet.batches.site import Site
    from fleet.core.work import Attempt

LONGEST_PICTURE = 40  # lines
AGAIN = 0.5
EVERYTHING = 50_000  # lines


def _shared(command: Callable[..., Any]) -> Callable[..., Any]:
    """What create, fanout and multi can all be told."""
    for option in reversed(
        (
            click.option(
                "--agent", "-a", help="The agent CLI, or several: claude,codex:MODEL.  [default: the project's]"
            ),
            click.option("--model", help="The model, of all that name none themselves."),
            click.option("--base", metavar="REF", help="What the branch begins from.  [default: HEAD]"),
            click.option("--onto", metavar="BRANCH", help="The branch that the work is for, and begins from."),
            click.option("--after", metavar="ID", multiple=True, help="Begin with the result of this task."),
            click.option("--quick", is_flag=True, help="Leave out the project's set-up commands."),
            json_option,
        )
    ):
        command = option(command)
    return command


atomic_option = click.option("--atomic", is_flag=True, help="When one cannot be made, keep none.")


@click.command()
@click.argument("branch")
@click.option("--prompt", "-p", help="What the agent is told first; - reads it from stdin.")
@_shared
def create(
    branch: str, prompt: str | None, agent: str | None, model: str | None, base: str | None, onto: str | None,
    after: tuple[str, ...], quick: bool, as_json: bool,
) -> None:  # fmt: skip
    """Begin an agent on a branch, in a place and a terminal of its own, and tell it what to do.

    You are told that the prompt was taken only when the agent itself, or its screen, says so.
    """
    from fleet.app.begin import How
    from fleet.app.begin import create as make
    from fleet.app.sites import open_site

    warn_of_unread()
    site, how = open_site(to_create=True), How(agent, model, base, quick, onto=onto, after=after)
    hear = _hear(verbose=sys.stderr.isatty() and not as_json)
    _report(make(site, branch, "" if prompt is None else _text(prompt), how, hear, lambda made: None), as_json)


@click.command()
@click.argument("count", type=click.IntRange(1, 100))
@click.argument("prefix", required=False)
@click.option("--prompt", "-p", required=True, help="What each of them is told; - reads it from stdin.")
@atomic_option
@_shared
def fanout(
    count: int, prefix: str | None, prompt: str, atomic: bool, agent: str | None, model: str | None,
    base: str | None, onto: str | None, after: tuple[str, ...], quick: bool, as_json: bool,
) -> None:  # fmt: skip
    """Tell COUNT agents the same, each on a branch of its own: PREFIX-A1, PREFIX-A2 …

    Several agents are dealt out in turn: --agent claude,codex,opencode.
    """
    from fleet.app.begin import How, fan_out
    from fleet.app.sites import open_site

    warn_of_unread()
    site, how = open_site(to_create=True), How(agent, model, base, quick, atomic, onto, after)
    with _progress(count, "agents begun", quiet=as_json) as step:
        made = fan_out(site, count, prefix, _text(prompt), how, _hear(verbose=False), lambda one: step())
    _report(made, as_json, undone=atomic)


@click.command()
@click.argument("pairs", nargs=-1, required=True, metavar="BRANCH:PROMPT...")
@atomic_option
@_shared
def multi(
    pairs: tuple[str, ...], atomic: bool, agent: str | None, model: str | None, base: str | None, onto: str | None,
    after: tuple[str, ...], quick: bool, as_json: bool,
) -> None:  # fmt: skip
    """Tell several agents different things, each on a branch of its own: fix-auth:"Fix the login" docs:"Write them"."""
    from fleet.app.begin import How, several
    from fleet.app.sites import open_site

    warn_of_unread()
    site, how = open_site(to_create=True), How(agent, model, base, quick, atomic, onto, after)
    with _progress(len(pairs), "agents begun", quiet=as_json) as step:
        made = several(site, pairs, how, _hear(verbose=False), lambda one: step())
    _report(made, as_json, undone=atomic)


@click.command()
@click.argument("target", required=False)
@click.argument("text", required=False)
@click.option("--batch", metavar="NAME", help="All agents of a batch, in place of a branch.")
@json_option
def prompt(target: str | None, text: str | None, batch: str | None, as_json: bool) -> None:
    """Say something to an agent, or to all that a pattern such as 'auth-*' or a batch names; - reads it from stdin.

    Nothing is typed while an agent asks for leave. Exit 1 when one of them did not take it.
    """
    from fleet.app.say import say
    from fleet.app.sites import open_site, open_site_of

    if batch is not None and text is None:
        target, text = None, target
    if text is None or (target is None) == (batch is None):
        raise BadConfig("whom, and what?", hint='fleet prompt BRANCH "what to do", or: fleet prompt --batch NAME "…"')
    site = open_site_of(target) if target is not None else open_site()
    said = say(site, batch or target or "", _text(text), batch=batch is not None)
    if as_json:
        data(said)
    else:
        for one in said:
            _said(one)
    if any(one.taken is False for one in said):
        raise click.exceptions.Exit(1)


@click.command()
@click.argument("branch")
@click.option("--shell", is_flag=True, help="Open a shell in its place instead.")
def attach(branch: str, shell: bool) -> None:
    """Look at an agent's terminal, and type there; Ctrl-B D leaves it, and the agent goes on.

    Inside a tmux of your own whose prefix is Ctrl-B, too, that leaves yours: type Ctrl-B Ctrl-B D, as the line at the
    bottom says there.

    Of a task that the supervisor runs there is no terminal: its transcript is shown as it grows.
    """
    from fleet.app import agents as app
    from fleet.app.sites import open_site_of

    site = open_site_of(branch)
    app.attach(site, branch, shell=shell, follow=lambda: _logs(site, branch, EVERYTHING, follow=True))


@click.command()
@click.argument("branch")
@click.option("--lines", "-n", type=click.IntRange(1, 50_000), default=50, show_default=True, help="How many.")
@click.option("--follow", "-f", is_flag=True, help="Go on as it changes.")
@json_option
def logs(branch: str, lines: int, follow: bool, as_json: bool) -> None:
    """Print the last lines of an agent's terminal; of a task that the supervisor runs, of its transcript."""
    from fleet.app import agents as app
    from fleet.app.sites import open_site_of

    if as_json and follow:
        raise BadConfig("what goes on is no JSON", hint="leave out --json, or --follow")
    if as_json:
        data(app.logs(open_site_of(branch), branch, lines))
    else:
        _logs(open_site_of(branch), branch, lines, follow=follow)


def _logs(site: Site, branch: str, lines: int, *, follow: bool) -> None:
    from fleet.app import agents as app

    shown = app.logs(site, branch, lines)
    _print(shown.lines)
    while follow and shown.goes_on:
        time.sleep(AGAIN)
        before, shown = shown.lines, app.logs(site, branch, lines)
        _print(app.new_lines(before, shown.lines))


@click.command()
@click.argument("pattern")
@click.option("--batch", is_flag=True, help="PATTERN is the name of a batch.")
@click.option("--force", is_flag=True, help="Do not ask.")
@click.option("--ignored", is_flag=True, help="Save files that git ignores, too.")
@click.option("--large", is_flag=True, help="Save even what is over the size limit.")
@json_option
def kill(pattern: str, batch: bool, force: bool, ignored: bool, large: bool, as_json: bool) -> None:
    """End agents with everything they started, and remove their places after these were saved.

    PATTERN is a branch, or such as 'auth-*'. What is committed stays on the branch; what is not is kept by
    `fleet salvage`.
    """
    from fleet.app.agents import kill as end
    from fleet.app.sites import find, open_site, open_site_of

    site = open_site() if batch else open_site_of(pattern)
    found = find(site, pattern, batch=batch)
    if not force:
        _ask(found)
    with _progress(len(found), "agents ended", quiet=as_json) as step:
        ended = end(site, found, ignored=ignored, large=large, done=lambda one: step())
    if as_json:
        data([_ended(one) for one in ended])
    else:
        for one in ended:
            _print_ended(one)
    if any(not hasattr(one, "saved") for one in ended):
        raise click.exceptions.Exit(1)


def _ask(found: Sequence[Attempt]) -> None:
    whose = "this ends the agent, saves what its place holds, and removes that:"
    several = f"this ends {len(found)} agents, saves what each place holds, and removes those:"
    talk(several if len(found) > 1 else whose)
    for one in found:
        talk(f"  {clean(one.branch or '', 200)}  {clean(one.cwd, 500)}")
    if not sys.stdin.isatty():
        raise BadConfig("nobody can be asked here", hint="the same with --force")
    click.confirm("end them?" if len(found) > 1 else "end it?", abort=True, err=True)


def _text(given: str) -> str:
    text = text_of(given)
    if not text.strip():
        raise BadConfig("the prompt is empty")
    return text


def _hear(*, verbose: bool) -> Callable[[str, str], None]:
    return (lambda branch, line: talk(click.style(f"  {clean(line, 300)}", dim=True))) if verbose else lambda *_: None


@contextmanager
def _progress(count: int, what: str, *, quiet: bool) -> Iterator[Callable[[], None]]:
    """A bar on a terminal; nothing where nobody looks."""
    if quiet or count < 2 or not can_draw(sys.stderr):
        yield lambda: None
        return
    with click.progressbar(length=count, label=what, file=sys.stderr, show_pos=True, show_eta=False) as bar:
        yield lambda: bar.update(1)


def _report(made: Sequence[Made], as_json: bool, *, undone: bool = False) -> None:
    """Say what came of each; exit 1 when one is not as it was wanted."""
    failed = [one for one in made if one.problem is not None]
    if as_json:
        data([_made(one) for one in made])
    else:
        for one in made:
            _print_made(one, undone=undone and bool(failed))
    if failed and len(failed) < len(made) and not undone and not as_json:
        talk(f"  {len(made) - len(failed)} of {len(made)} were begun, and are kept; `fleet kill` ends them")
    if failed and len(made) == 1 and failed[0].problem is not None and not as_json:
        raise click.exceptions.Exit(failed[0].problem.exit_code)
    if not all(one.good for one in made):
        raise click.exceptions.Exit(1)


def _made(one: Made) -> dict[str, object]:
    attempt, given = one.attempt, one.delivery
    return {
        "branch": one.branch,
        "task": attempt.task if attempt else None,
        "attempt": attempt.id if attempt else None,
        "agent": attempt.coder if attempt else None,
        "model": attempt.model if attempt else None,
        "path": attempt.cwd if attempt else None,
        "terminal": attempt.terminal if attempt else None,
        "batch": attempt.batch if attempt else None,
        "prompt_taken": given.taken if given else None,
        "cause": one.problem.message if one.problem else given.cause if given else "",
        "made": one.problem is None,
        "warnings": [*one.warnings, *one.login.warnings],
        "login": one.login.note,
    }


def _print_made(one: Made, *, undone: bool) -> None:
    for warning in one.warnings:
        warn(f"{clean(one.branch)}: {clean(warning, 500)}")
    for warning in one.login.warnings:
        warn(clean(warning, 500))
    if one.login.note:
        talk(f"{clean(one.login.note, 500)}\n  to change that: {clean(one.login.change, 1000)}")
    if one.problem is not None:
        complain("not begun  ", one.branch, one.problem)
        return
    attempt = one.attempt
    assert attempt is not None
    if undone:
        click.echo(f"undone     {clean(one.branch)}")
        return
    where = f"{clean(one.branch)}  {attempt.task}  {attempt.coder}  {clean(attempt.cwd, 500)}"
    taken = "  prompt taken" if one.delivery is not None and one.delivery.taken else ""
    click.echo(click.style("begun      ", fg=GOOD) + where + taken)
    if one.delivery is not None and one.delivery.taken is not True:
        _not_taken(one.branch, one.delivery.taken, one.delivery.cause, one.delivery.picture)


def complain(what: str, branch: str, problem: FleetError) -> None:
    """Say what went wrong with one of several, and what to do next."""
    first, *others = [clean(line, 2000) for line in problem.message.splitlines()] or [""]
    talk(click.style(what, fg=BAD) + f"{clean(branch)}: {first}")
    for line in others:
        talk(f"  {line.strip()}")
    if problem.hint:
        talk(f"  next: {clean(problem.hint, 500)}")


def _said(one: Said) -> None:
    if one.taken:
        click.echo(click.style("taken      ", fg=GOOD) + clean(one.branch))
    elif one.kept:
        click.echo(click.style("kept       ", fg=GOOD) + f"{clean(one.branch)}: {one.cause}")
    else:
        _not_taken(one.branch, one.taken, one.cause, one.picture)


def _not_taken(branch: str, taken: bool | None, cause: str, picture: str) -> None:
    words = click.style("not taken  ", fg=BAD) if taken is False else click.style("unknown    ", fg=MEH)
    click.echo(words + f"{clean(branch)}: {clean(cause, 500)}", err=True)
    shown = [line for line in picture.splitlines() if line.strip()][-LONGEST_PICTURE:]
    for line in shown:
        talk(f"  | {clean(line, 200)}")
    talk(f"  next: fleet {'attach' if shown else 'logs'} {clean(branch)}")


def _ended(one: Ended | NotEnded) -> dict[str, object]:
    from fleet.batches.end import Ended

    if isinstance(one, Ended):
        return {
            "branch": one.branch, "attempt": one.attempt, "task": one.task, "ended": True, "saved": one.saved,
            "commits": one.commits, "place_removed": one.removed and not one.left, "left": one.left,
            "proof": one.proof, "reason": one.reason,
        }  # fmt: skip
    return {
        "branch": one.branch,
        "attempt": one.attempt,
        "ended": not one.runs,
        "place_removed": False,
        "cause": one.problem.message,
    }


def _print_ended(one: Ended | NotEnded) -> None:
    from fleet.batches.end import Ended

    if not isinstance(one, Ended):
        complain("not ended  " if one.runs else "not removed  ", one.branch, one.problem)
        return
    stays = f"  {one.commits} commit{' stays' if one.commits == 1 else 's stay'} on the branch" if one.commits else ""
    kept = f"  what only its place had: fleet salvage show {one.saved}" if one.saved else ""
    click.echo(click.style("ended      ", fg=GOOD) + clean(one.branch) + stays + kept)
    if one.proof is not None and (one.commits or one.saved):
        talk(f"  {one.proof}: {clean(one.reason, 1000)}")
    if one.left:
        warn(clean(one.left, 1000))


def _print(lines: Sequence[str]) -> None:
    """What an agent's terminal shows: on a terminal without what that would obey, piped as it is."""
    for line in lines:
        click.echo(clean(line, 10_000) if sys.stdout.isatty() else line)
