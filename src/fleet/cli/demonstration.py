"""demo: the work plane, or with --models the models plane, on things of our own that are thrown away."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from fleet.cli.screen import Screen
from fleet.cli.show import data, json_option, table, talk
from fleet.core import BadConfig, FleetError
from fleet.core.text import clean

if TYPE_CHECKING:
    from fleet.app.demo import Shown


@click.command()
@click.option("--coder", default="demonstration", show_default=True, help="The agent; claude is the real one.")
@click.option("--models", is_flag=True, help="Show the models plane instead, on two scripted nodes.")
@json_option
def demo(coder: str, models: bool, as_json: bool) -> None:
    """Run a handful of tasks in a scratch repository, and show what becomes of each; nothing is kept.

    The agent is a scripted program, and says so; the queue, the supervisor, its keepers and git are the real ones.
    One of the agents lies, and one waits at a prompt that nobody sees: the table tells them apart, with the reasons.
    """
    if models:
        if coder != "demonstration":
            raise BadConfig("--models needs no coder")
        _show_models(as_json)
    else:
        _show_work(coder, as_json)


def _show_work(coder: str, as_json: bool) -> None:
    from fleet.app.demo import demo as run
    from fleet.cli.grid import terminal_width
    from fleet.cli.table import print_tasks

    if not as_json:
        talk("a scratch home and repository, a handful of tasks, three agents at a time …")
    with Screen(not as_json) as screen:
        shown = run(coder, lambda rows: screen.draw(partial(print_tasks, rows, terminal_width())))
    if as_json:
        data(shown)
    else:
        _summarize(shown)
    if not shown.true:
        why = f": {shown.problem}" if shown.problem else ""
        raise FleetError(f"the demonstration did not end as it should{why}", hint=shown.hint or "fleet doctor")


def _summarize(shown: Shown) -> None:
    from fleet.cli.grid import terminal_width
    from fleet.cli.table import print_tasks

    print_tasks(shown.tasks, terminal_width())
    click.echo("\nThe repository now:")
    for line in shown.commits:
        click.echo(f"  {clean(line)}")
    click.echo("\nWhat fleet makes of it:")
    for said in _verdicts(shown):
        click.echo(f"  {clean(said, 500)}")
    if shown.true:
        talk('\nYour own:  fleet add "what is to be done"   then   fleet run')


def _verdicts(shown: Shown) -> list[str]:
    """One line for each kind of agent: whom it believes, whom it does not, and whom it leaves to a person."""
    verified = [row.id for row in shown.tasks if row.proof is not None and row.proof.value == "verified"]
    unverified = [row.id for row in shown.tasks if row.proof is not None and row.proof.value == "unverified"]
    lines = {
        "verified": f"{', '.join(verified)}: fleet found the work and ran its check itself" if verified else "",
        "unverified": f"{', '.join(unverified)}: done, and nothing was given to check it with" if unverified else "",
        "refused": f"it said that it was done, and was not believed: {shown.lie}" if shown.lie else "",
        "waiting for input": f"{shown.stuck}; it would be left to you" if shown.stuck else "",
        "not started": f"{', '.join(shown.not_started)}: no agent was started for them" if shown.not_started else "",
    }
    return [f"{verdict:17}  {said}" for verdict, said in lines.items() if said]


def _show_models(as_json: bool) -> None:
    from fleet.app.demo_models import demo as run

    shown = run((lambda step, value: None) if as_json else _tell)
    if as_json:
        answers = [{"agent": a.agent, "node": a.node, "text": a.text} for a in shown.answers]
        paths = [step.path for step in shown.files]
        data({"nodes": shown.nodes, "files": paths, "answers": answers, "crossed": shown.crossed})
    if shown.crossed:
        raise FleetError(f"{shown.crossed} requests went to the wrong node")
    if not as_json:
        click.echo("\nEvery request reached the node of its own agent, and nothing left this machine.")
        talk("Your own fleet:  fleet init")


def _tell(step: str, value: Any) -> None:
    """Show one step of the models plane as the command of the same name would."""
    from fleet.cli.models import STATES, model_names, show_status

    match step:
        case "discover":
            _title("1  discover: ask both nodes at once which models they have")
            table(["Node", "Status", "Models"], [[s.node, s.state, model_names(s, True)] for s in value], STATES)
        case "generate":
            _title("2  generate: the files that LiteLLM and Claude Code read")
            for one in value:
                click.echo(f"  {one.change}  {one.path}")
        case "request":
            _title("3  one request along each route, straight to its node (the gateway is not part of the demo)")
            for answer in value:
                click.echo(f"  {answer.agent} -> {answer.node}: {answer.text!r}")
        case "status":
            _title("4  status: what is in memory now, and which agent thinks where")
            show_status(value)


def _title(words: str) -> None:
    click.echo(click.style(f"\n{words}\n", bold=True))
