"""How the demonstration is told."""

from __future__ import annotations

from typing import Any

import click

from fleet.cli.models import STATES, model_names, show_status
from fleet.cli.show import table


def tell(step: str, value: Any) -> None:
    """Show one step of the demonstration as the command of the same name would."""
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
