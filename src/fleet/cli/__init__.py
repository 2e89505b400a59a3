"""The command line: parse, call one function of the house, render.

Nothing but click is imported until a command is called, so that `fleet --help` costs next to nothing.
"""

from __future__ import annotations

import io
import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING

import click

from fleet import __version__

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# name -> (module, attribute, what it does); one line a command, in the order of the help page
COMMANDS: dict[str, dict[str, tuple[str, str]]] = {
    "Start": {
        "init": ("fleet.cli.start", "Make the home, and a fleet.yaml that fits this machine."),
        "demo": ("fleet.cli.demonstration", "Run a handful of tasks in a scratch repository; nothing is kept."),
        "status": ("fleet.cli.models", "Show all on one screen: tasks, what needs you, cost, nodes and models."),
        "config": ("fleet.cli.config", "Show and change this machine's settings (show, set, edit, validate)."),
        "doctor": ("fleet.cli.start", "Check everything, and say how to mend what is wrong."),
        "chaos": ("fleet.cli.chaos", "Drive a supervisor with agents that misbehave, and print a scorecard."),
        "update": ("fleet.cli.update", "Bring the newest version from where this one came from."),
        "uninstall": ("fleet.cli.uninstall", "End what runs, and remove what fleet made."),
    },
    "Tasks": {
        "add": ("fleet.cli.add", "Put a task in the queue, or a whole plan."),
        "run": ("fleet.cli.run", "Start the supervisor: hand out tasks until it is stopped (status, stop)."),
        "tasks": ("fleet.cli.tasks", "Show the tasks and what becomes of them."),
        "ready": ("fleet.cli.tasks", "List the tasks that could start now."),
        "show": ("fleet.cli.detail", "Show one task whole."),
        "task": ("fleet.cli.left", "Read what a task left: log, events, plan, knowledge, questions, receipt …"),
        "merge": ("fleet.cli.merge", "Bring results onto their branch, each checked on top of the others."),
        "verify": ("fleet.cli.verify", "Check receipts again, from scratch."),
        "questions": ("fleet.cli.questions", "List what agents ask and nobody has answered."),
        "answer": ("fleet.cli.questions", "Answer what an agent asks, and let its task go on."),
        "edit": ("fleet.cli.edit", "Change a task: its words, check, place, limits, what it waits for."),
        "comment": ("fleet.cli.tasks", "Write a comment on a task."),
        "depend": ("fleet.cli.tasks", "Let a task wait for others, or no longer."),
        "block": ("fleet.cli.tasks", "Set tasks aside, until `fleet retry` opens them again."),
        "abort": ("fleet.cli.tasks", "End the agents of tasks, with everything they started, and cancel the tasks."),
        "retry": ("fleet.cli.tasks", "Open tasks again, with their failures forgotten."),
        "accept": ("fleet.cli.tasks", "Close tasks whose work was not verified, because you looked at it."),
        "pause": ("fleet.cli.gates", "Start no more tasks, of one coder or project or at all."),
        "resume": ("fleet.cli.gates", "Let what was paused start again."),
        "quota": ("fleet.cli.gates", "Show what providers allow, account by account."),
        "cost": ("fleet.cli.cost", "Show what agents used and what it cost, by task, coder, model, day …"),
        "log": ("fleet.cli.run", "Print the supervisor's log."),
        "bd": ("fleet.cli.beads", "Call bd in the home, for tasks that beads keeps."),
    },
    "Agents": {
        "create": ("fleet.cli.agents", "Begin an agent on a branch, in a place and a terminal of its own."),
        "fanout": ("fleet.cli.agents", "Tell several agents the same, each on a branch of its own."),
        "multi": ("fleet.cli.agents", "Tell several agents different things, each on a branch of its own."),
        "list": ("fleet.cli.listing", "Show every agent on a branch, and what it does."),
        "prompt": ("fleet.cli.agents", "Say something to an agent, and see that it was taken."),
        "attach": ("fleet.cli.agents", "Look at an agent's terminal, and type there."),
        "logs": ("fleet.cli.agents", "Print the last lines of an agent's terminal."),
        "kill": ("fleet.cli.agents", "End agents, and remove their places after these were saved."),
        "diff": ("fleet.cli.places", "Show what an attempt's place has against what it began from."),
        "salvage": ("fleet.cli.places", "What was saved of places that are gone (list, show, restore, drop)."),
    },
    "Models": {
        "validate": ("fleet.cli.models", "Check fleet.yaml."),
        "discover": ("fleet.cli.models", "Ask every node which models it has."),
        "generate": ("fleet.cli.files", "Write the files that LiteLLM and the agent CLIs read."),
        "warmup": ("fleet.cli.models", "Load the models before the first request does."),
        "clean": ("fleet.cli.files", "List, or remove, the files that generate wrote; or places, or refs."),
        "gateway": ("fleet.cli.gateway", "Start, stop and look at the gateway (up, down, status, logs)."),
    },
    "Extend": {
        "coders": ("fleet.cli.coders", "List the agents that can work, and check one of your own (list, check)."),
        "skills": ("fleet.cli.assist", "Teach your assistant to set up and run a fleet (list, install)."),
        "plugins": ("fleet.cli.assist", "Write plugin marketplaces for Claude Code and Codex (install)."),
    },
}
DEBUG = ("FLEET_DEBUG", "AI_FLEET_DEBUG")
RUNS_IN = f"Python {sys.version.split()[0]}, {os.path.dirname(os.path.dirname(__file__))}".replace("%", "%%")
# What people type who know it from another program, and the command that does it here.
MEANT = {
    "stop": "run stop", "start": "run", "ls": "tasks", "ps": "tasks", "top": "tasks --watch", "watch": "tasks --watch",
    "rm": "abort", "delete": "abort", "remove": "abort", "cancel": "abort", "change": "edit", "modify": "edit",
    "set": "config set", "settings": "config", "new": "add", "events": "task ID events", "today": "status",
}  # fmt: skip
# What these are about stands in the home: one that is named and is not there is not made for them.
NEED_A_HOME = frozenset(
    {
        "tasks", "ready", "show", "task", "verify", "questions", "answer", "edit", "comment", "depend", "block",
        "abort", "retry", "accept", "quota", "cost", "log", "list", "prompt", "attach", "logs", "kill",
        "diff", "salvage",
    }
)  # fmt: skip
WHERE = {name: place for group in COMMANDS.values() for name, place in group.items()}


class Commands(click.Group):
    """Loads a command's module when the command is called, and lists commands by group without loading any."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(WHERE)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in WHERE:
            return None
        command = getattr(import_module(WHERE[cmd_name][0]), cmd_name)
        assert isinstance(command, click.Command)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The commands that begin so, without loading any, and our own options."""
        from click.shell_completion import CompletionItem

        names = [CompletionItem(name, help=line) for name, (_, line) in WHERE.items() if name.startswith(incomplete)]
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError:
            from fleet.core.text import nearest

            near = f" (did you mean {MEANT[args[0]]}?)" if args[0] in MEANT else nearest(args[0], WHERE)
            raise click.UsageError(f"there is no command {args[0]!r}{near}", ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for group, commands in COMMANDS.items():
            with formatter.section(group):
                formatter.write_dl([(name, line) for name, (_, line) in commands.items()])


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="fleet", message=f"%(prog)s, version %(version)s ({RUNS_IN})")
@click.option(
    "--verbose", "-v", is_flag=True, help="Say on stderr which programs are run. FLEET_DEBUG=1 does the same."
)
@click.pass_context
def program(ctx: click.Context, verbose: bool) -> None:
    """Run a fleet of coding agents on your own machines and models."""
    if "FLEET_ATTEMPT" in os.environ:
        from fleet.app.inside import refuse

        refuse(ctx.invoked_subcommand, sys.argv[1:], os.environ)
    if ctx.invoked_subcommand in NEED_A_HOME:
        from fleet.app.home import must_exist

        must_exist(sys.argv[1:])
    if verbose:
        os.environ[DEBUG[0]] = "1"  # for what we start in the background, too
    if _is_loud():
        from fleet.host.run import listen

        listen(lambda line: click.echo(f"+ {line}", err=True))


def _is_loud() -> bool:
    return any(os.environ.get(name, "0") not in ("", "0") for name in DEBUG)


def main(args: list[str] | None = None) -> int:
    """Run one command; every failure that a user can act on becomes a sentence and an exit code."""
    _open_streams()
    try:
        # What a command ends with on purpose (`Exit`) comes back as a value; a command that just ends gives None.
        color = False if os.environ.get("NO_COLOR") else None
        ended = program.main(args=args, prog_name=_called_as(), standalone_mode=False, color=color)
        sys.stdout.flush()
        return ended if isinstance(ended, int) else 0
    except click.ClickException as problem:
        problem.show()
        return 2
    except (click.Abort, KeyboardInterrupt) as stopped:
        if isinstance(stopped.__cause__, EOFError):  # click takes it for the end of the input
            return _explain(_damaged(stopped.__cause__))
        click.echo("stopped", err=True)
        return 130
    except BrokenPipeError:
        _give_up_stdout()
        return 141  # as a program that the pipe's signal ends
    except Exception as problem:
        return _explain(problem)


def _open_streams() -> None:
    """Streams that are closed lead nowhere, and those that are open take any character."""
    if sys.stdin is None:
        sys.stdin = open(os.devnull)  # noqa: SIM115 - open for as long as we are
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a path may hold any bytes, and a terminal any character set


def _explain(problem: Exception) -> int:
    """Say what went wrong and what to do next; the exit code."""
    from fleet.core import FleetError
    from fleet.core.text import clean

    if isinstance(problem, OSError) and problem.strerror:
        _give_up_stdout()
        problem = FleetError(f"{problem.filename or 'the system'}: {problem.strerror}")
    if not isinstance(problem, FleetError):
        return _confess(problem)
    lines = [clean(line, 2000) for line in problem.message.splitlines()]
    click.echo("\n".join(lines) if len(lines) > 1 else f"fleet: {lines[0]}", err=True)
    if problem.hint:
        click.echo(f"  next: {clean(problem.hint, 2000)}", err=True)
    return problem.exit_code


def _give_up_stdout() -> None:
    """Let what could not be printed go: Python would try once more at the very end, and fail in its own words."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _damaged(problem: EOFError) -> Exception:
    from fleet.core import FleetError

    where = os.path.dirname(os.path.dirname(__file__))
    return FleetError(
        f"a file of the installation is cut short ({problem})", hint=f"find {where} -name __pycache__ | xargs rm -r"
    )


def _confess(problem: Exception) -> int:
    if _is_loud():
        from traceback import print_exception

        print_exception(problem)
    click.echo(f"fleet: this is a bug of ours ({type(problem).__name__}: {problem}).", err=True)
    click.echo("  next: run it again with FLEET_DEBUG=1 and send us what it prints", err=True)
    return 70


def _called_as() -> str:
    name = os.path.basename(sys.argv[0])
    return name if name in ("flt", "subagent-fleet") else "fleet"
