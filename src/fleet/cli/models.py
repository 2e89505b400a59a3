"""validate, discover, warmup, status."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fleet.cli.screen import can_draw
from fleet.cli.show import (
    BAD,
    GOOD,
    MEH,
    config_option,
    data,
    json_option,
    out_option,
    size,
    table,
    talk,
    warn,
    watched,
)
from fleet.config import load
from fleet.core import FleetError
from fleet.core.fleet import Fleet
from fleet.core.text import clean

if TYPE_CHECKING:
    from fleet.app.models import FleetStatus, RouteStatus
    from fleet.app.status import WorkStatus
    from fleet.config import Loaded
    from fleet.nodes import ServedModel, Survey

STATES = {"online": GOOD, "offline": BAD, "ok": GOOD, "failed": BAD, "yes": GOOD, "no": BAD}


class Seconds(click.FloatRange):
    """A number of seconds; not-a-number is none."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        seconds = float(super().convert(value, param, ctx))
        return seconds if seconds == seconds else self.fail(f"{value!r} is not a number of seconds", param, ctx)


timeout_option = click.option(
    "--timeout", type=Seconds(0.1, 600), default=5.0, show_default=True, help="Seconds to wait for a node."
)


paid_option = click.option("--paid", is_flag=True, help="Also ask models in clouds, which costs money.")


def open_fleet(config: Path, load: Callable[[Path], Loaded] = load) -> Fleet:
    """The fleet of a file; its warnings go to stderr."""
    loaded = load(config)
    for warning in loaded.warnings:
        warn(warning)
    return loaded.fleet


@click.command()
@config_option
@json_option
@click.option("--schema", is_flag=True, help="Print the JSON Schema of fleet.yaml instead.")
def validate(config: Path, as_json: bool, schema: bool) -> None:
    """Check fleet.yaml: its shape, its names and its references. Reports every problem at once.

    It asks no node. A model that has no tools, as its node said when it was last asked, is refused for an agent.
    """
    from fleet.app import capabilities
    from fleet.config import InvalidFleet, json_schema
    from fleet.config.fleet_yaml import check, text_of

    if schema:
        click.echo(json.dumps(json_schema(), indent=2))
        return
    try:
        checked = check(text_of(config), config)
        if not checked.for_tasks:
            fleet = load(config).fleet
            capabilities.refuse_toolless(fleet, config, config.parent, capabilities.recall(fleet, config.parent))
    except InvalidFleet as invalid:
        if not as_json:
            raise
        problems = [
            {"line": p.place.line, "column": p.place.column, "path": list(p.path), "message": p.message}
            for p in invalid.problems
        ]
        data({"valid": False, "file": str(config), "problems": problems})
        raise click.exceptions.Exit(invalid.exit_code) from None
    if as_json:
        data({"valid": True, "file": str(config), "problems": [], "warnings": checked.warnings})
        return
    for warning in checked.warnings:
        warn(warning)
    click.echo(f"{config} is valid{', for tasks alone: it names no models' if checked.for_tasks else ''}.")


@click.command()
@config_option
@timeout_option
@json_option
@click.option("--write", "keep", is_flag=True, help="Also write .subagent-fleet/discovery.json.")
@click.option("--verbose", "-v", is_flag=True, help="Say why a node is offline.")
def discover(config: Path, timeout: float, as_json: bool, keep: bool, verbose: bool) -> None:
    """Ask every node, all at once, which models it has and what they can do.

    The file needs to name no models and agents yet. What the models can do (tools, thinking, vision, context) is kept
    in .subagent-fleet/capabilities.json, which validate and generate read.
    """
    from fleet.app.models import discover as ask
    from fleet.app.models import write_discovery
    from fleet.config.fleet_yaml import load_nodes

    fleet = open_fleet(config, load_nodes)
    found = ask(fleet, config.parent, timeout)
    if keep:
        talk(f"wrote {write_discovery(fleet, found, config.parent)}")
    if as_json:
        data({"project": fleet.project, "nodes": found})
        return
    click.echo(f"Fleet: {clean(fleet.project)}\n")
    table(["Node", "Status", "Models"], [[s.node, s.state, model_names(s, verbose)] for s in found], STATES)
    if any(s.state == "offline" for s in found) and not verbose:
        talk("\nwhy a node is offline: fleet discover --verbose")


def model_names(survey: Survey, verbose: bool) -> str:
    if survey.state == "offline":
        return f"{survey.cause}: {survey.detail}" if verbose else ""
    if survey.models is None:
        return "unknown (it does not list them)"
    return ", ".join(_with_remark(model) for model in survey.models) or "none"


def _with_remark(model: ServedModel) -> str:
    remarks = ["cloud"] * model.remote + ["no tools"] * (model.tools is False and not model.embeds)
    return f"{model.name} ({', '.join(remarks)})" if remarks else model.name


@click.command()
@config_option
@click.option("--model", help="Warm only this model of fleet.yaml.")
@click.option("--agent", help="Warm only the model this agent thinks with.")
@paid_option
@json_option
def warmup(config: Path, model: str | None, agent: str | None, paid: bool, as_json: bool) -> None:
    """Load models before the first request does: nodes in parallel, the models of a node in order.

    Where the gateway runs, each is then asked through it as an agent asks.
    """
    from fleet.app.models import to_warm
    from fleet.app.models import warmup as warm

    if model and agent:
        raise click.UsageError("give --model or --agent, not both")
    fleet = open_fleet(config)
    models = to_warm(fleet, model, agent)
    if not as_json:
        click.echo("Warming models:")
    drawn = can_draw(sys.stderr)
    with click.progressbar(length=len(models), file=sys.stderr, label="warming", hidden=not drawn) as bar:
        results = warm(fleet, config.parent, models, lambda _: bar.update(1), paid=paid)
    if as_json:
        data(results)
    else:
        rows = [[r.model, r.node, r.served, "ok" if r.ok else "failed", r.reason] for r in results]
        table(["Model", "Node", "Served as", "Result", "Reason"], rows, STATES)
    failed = [result.model for result in results if not result.ok]
    if failed:
        raise FleetError(f"not warm: {', '.join(failed)}", hint="fleet discover --verbose")


@click.command()
@config_option
@out_option
@timeout_option
@json_option
@click.option("--watch", "-w", is_flag=True, help="Refresh in place until interrupted.")
@click.option("--interval", type=Seconds(0.2, 3600), default=2.0, show_default=True, help="With --watch.")
@click.option("--since", help="What came of the tasks since: yesterday, 12h, 7d, a date; no models then.")
def status(
    config: Path, out: Path | None, timeout: float, as_json: bool, watch: bool, interval: float, since: str | None
) -> None:
    """Show everything on one screen: supervisor, tasks, what needs you, cost; and nodes, what they hold in memory, and
    for every agent whether its alias is really served.

    The tasks are those since the last `fleet run` began. With --since what came to its end is listed, too: the morning.
    """
    from fleet.app.doctor import NO_MODELS
    from fleet.app.status import ADD, work_status
    from fleet.cli.status import show_next, show_work

    models = _models_asked(config, out, timeout) if since is None else None  # an invalid file is said before all else
    if watch or as_json:
        both = partial(_look_at_both, since, models)
        if as_json:
            watched(lambda: _plain_status(*both()), data, watch=watch, as_json=True, every=interval)
        else:
            watched(both, partial(_show_both, listed=since is not None), watch=watch, as_json=False, every=interval)
        return
    work = work_status(since)
    show_work(work, listed=since is not None)
    if since is None:
        click.echo("")
        show_status(models()) if models is not None else click.echo(f"models: {NO_MODELS}")
    show_next(ADD if work is None else work.next)


def _models_asked(config: Path, out: Path | None, timeout: float) -> Callable[[], FleetStatus] | None:
    """What asks the models plane how it is; None where there is none."""
    from fleet.app.doctor import names_models

    if not names_models(config):
        return None
    from fleet.app.models import status as ask

    return partial(ask, open_fleet(config), out or config.parent, timeout)


def _look_at_both(
    since: str | None, models: Callable[[], FleetStatus] | None
) -> tuple[WorkStatus | None, FleetStatus | None]:
    from fleet.app.status import work_status

    return work_status(since), None if models is None else models()


def _plain_status(work: WorkStatus | None, models: FleetStatus | None) -> dict[str, object]:
    """Both planes as JSON: the names of the models plane are those that it always had."""
    import msgspec

    nothing: dict[str, object] = {"project": None, "nodes": [], "gateway": None, "routes": []}
    return (nothing if models is None else msgspec.to_builtins(models, enc_hook=str)) | {"work": work}


def _show_both(found: tuple[WorkStatus | None, FleetStatus | None], *, listed: bool) -> None:
    from fleet.cli.status import show_work

    work, models = found
    show_work(work, listed=listed)
    if models is not None:
        click.echo("")
        show_status(models)


def show_status(now: FleetStatus) -> None:
    click.echo(f"Fleet: {clean(now.project)}\n")
    rows = [[s.node, s.state, s.kind, s.endpoint, model_names(s, True), ", ".join(s.tags)] for s in now.nodes]
    table(["Node", "Status", "Kind", "Endpoint", "Models", "Tags"], rows, STATES)
    _show_loaded(now)
    up = now.gateway.answers
    state = click.style("answers", fg=GOOD) if up else click.style("does not answer", fg=BAD)
    click.echo(f"\nGateway: {now.gateway.url} {state}" + (f" ({now.gateway.reason})" if now.gateway.reason else ""))
    click.echo("\nAgent routing:")
    for status in now.routes:
        r = status.route
        line = f"  {r.agent} -> {r.node} -> {clean(r.served)} -> {clean(r.alias)}"
        click.echo(f"{line}  served: {_served(status)}")


def _served(status: RouteStatus) -> str:
    """Green is only what was answered."""
    word = {True: "yes", False: "no", None: "unknown"}[status.served]
    colour = GOOD if status.state == "answered" else BAD if status.served is False else MEH
    why = f"{status.why}: fleet doctor --deep" if status.state == "untried" else status.why
    if status.last and status.state == "not served":
        from fleet.app.readiness import say_when

        why += f"; last {'answered' if status.last.ok else 'asked'} {say_when(status.last.at, time.time())}"
    return f"{click.style(word, fg=colour)} ({clean(why, 500)})"


def _show_loaded(now: FleetStatus) -> None:
    rows = [
        [survey.node, m.name, size(m.bytes), str(m.context or "unknown"), m.expires or "unknown"]
        for survey in now.nodes
        for m in survey.loaded or ()
    ]
    if rows:
        click.echo("\nIn memory:")
        table(["Node", "Model", "Size", "Context", "Until"], rows)
    silent = [survey.node for survey in now.nodes if survey.state == "online" and survey.loaded is None]
    if silent:
        click.echo(f"\nWhat is in memory is unknown on: {', '.join(silent)}")
