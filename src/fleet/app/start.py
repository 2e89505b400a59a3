"""A home, and a starter fleet.yaml that already fits this machine."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fleet import coders, nodes
from fleet.app import kinds, legacy, settings
from fleet.app.doctor import PROGRAMS
from fleet.app.home import ensure_home, settings_path
from fleet.app.legacy import Legacy
from fleet.config import json_schema, runtime
from fleet.config.fleet_yaml import check
from fleet.config.limits import candidates
from fleet.config.runtime_schema import TrackerName
from fleet.core import FleetError, ToolMissing
from fleet.core.fleet import Kind, Node
from fleet.generate.yaml import dump_for_people
from fleet.host import files, machine

SCHEMA = "fleet.schema.json"
CONTEXT_TOKENS = 32768  # an agent says 12,000 before its first word of work

ROLES: dict[str, dict[str, object]] = {
    "planner": {
        "model": "small-coder",
        "description": "Use for planning, finding files and breaking a task into steps.",
        "tools": ["Read", "Grep", "Glob"],
        "prompt": "You plan; you do not edit files.\n"
        "Answer briefly with the plan, the files that matter, the risks, and which agent should go on.\n",
    },
    "summarizer": {
        "model": "small-coder",
        "description": "Use for summaries of files, logs, diffs and long output.",
        "tools": ["Read"],
        "prompt": "You summarize. Keep names, numbers and decisions exact; leave out everything else.\n",
    },
    "implementer": {
        "model": "heavy-coder",
        "description": "Use for writing code: features, bug fixes and refactorings.",
        "tools": ["Read", "Grep", "Glob", "Edit", "Write", "Bash"],
        "prompt": "You write code. Make the smallest change that is right, run the checks that concern it,\n"
        "and say what you changed, why, and what you saw when you ran it.\n",
    },
    "reviewer": {
        "model": "heavy-coder",
        "description": "Use after an implementation, to review the diff and its tests.",
        "tools": ["Read", "Grep", "Glob", "Bash"],
        "prompt": "You review. Look for wrong behaviour, regressions, missing tests, security faults and needless\n"
        "complication. Report only what somebody should act on, each with the place in the code.\n",
    },
}


@dataclass(frozen=True, slots=True)
class Starter:
    """A fleet.yaml that was written, or one that was there and kept; `workspace` is what it says, or should."""

    path: Path
    is_new: bool
    found: tuple[nodes.Found, ...] = ()
    agents: tuple[str, ...] = ()  # the agent CLIs of this machine
    has_models: bool = False
    placeholder: bool = False
    kind: str | None = None
    workspace: Mapping[str, object] = field(default_factory=dict)
    migrated: Legacy | None = None
    missing: str = ""  # what to add to one that was kept, as text


@dataclass(frozen=True, slots=True)
class Begun:
    """What init made and what it kept."""

    home: Path
    home_is_new: bool
    tracker: str
    starter: Starter | None


def init(
    output: Path | None = None,
    *,
    force: bool,
    home_only: bool = False,
    tracker: str | None = None,
    kind: str | None = None,
    migrate: bool = False,
    models: bool = False,
) -> Begun:
    """Make the home and a starter. What exists is kept; --force replaces a fleet.yaml, and never runtime.toml."""
    output = output or _usual_place()
    if not home_only and output.is_dir():
        raise FleetError(f"{output} is a directory", hint="fleet init --output DIR/fleet.yaml")
    if tracker == TrackerName.BEADS:
        _need_bd()
    old = legacy.read(Path.home(), output.absolute().parent) if migrate and not home_only else None
    home_is_new = not os.path.lexists(settings_path())
    home = ensure_home()
    if tracker:
        _use(tracker, home)
    used = str(
        runtime.read(settings_path()).tracker
    )  # settings that are wrong are named before anything is built on them
    starter = (
        None if home_only else _starter(output, force, kind or kinds.detect(output.absolute().parent), old, models)
    )
    return Begun(home, home_is_new, used, starter)


def _need_bd() -> None:
    """Refuse before anything is changed."""
    from fleet.tracker.beads import GET_BD, PROGRAM

    if machine.program(PROGRAM) is None:
        raise ToolMissing("bd (beads) is not installed", hint=GET_BD)


def _use(tracker: str, home: Path) -> None:
    """Make this the tracker. The settings are changed last: a tracker that could not be made is not used."""
    if tracker == TrackerName.BEADS:
        from fleet.tracker.beads import Beads

        with settings.alone(home):
            Beads.init(home)
    settings.change([f"tracker={tracker}"])


def _usual_place() -> Path:
    """The fleet.yaml here or above; else where one belongs, at the top of the repository."""
    places = list(candidates(Path.cwd()))
    found = next((path for path in places if os.path.lexists(path)), None)
    is_top = os.path.lexists(places[-1].with_name(".git"))
    return Path(os.path.relpath(found or (places[-1] if is_top else places[0])))


def _starter(output: Path, force: bool, kind: str | None, old: Legacy | None, models: bool) -> Starter:
    workspace = kinds.workspace(kind, output.absolute().parent) if kind else {}
    workspace |= old.workspace if old else {}
    if os.path.lexists(output) and not force:
        return _kept(output, kind, workspace, old)
    found = nodes.find(nodes.usual_places())
    chosen = nodes.pair(found)
    has_models = models or chosen is not None
    name = (old and old.name) or output.resolve().parent.name
    project = output.absolute().parent
    checks, setup = (kinds.checks(kind, project), kinds.check_setup(kind, project)) if kind else ([], "")
    suggested = suggested_checks(checks, setup)
    text = render(name, chosen, workspace, suggested) if has_models else render_for_tasks(name, workspace, suggested)
    check(text, output)  # a starter that does not validate is our bug, and must not be written
    own = files.own_dir(output.parent)
    files.write(own / SCHEMA, (json.dumps(json_schema(), indent=2) + "\n").encode())
    if force:
        files.write(output, text.encode())
    elif not files.create(output, text.encode()):
        return _kept(output, kind, workspace, old)
    placeholder = has_models and chosen is None
    return Starter(output, True, tuple(found), _agents(), has_models, placeholder, kind, workspace, old)


def _agents() -> tuple[str, ...]:
    """The coders whose programs are on the search path."""
    own = ((name, coders.find(name, {}).program) for name in PROGRAMS)
    return tuple(name for name, program in own if machine.program(program) is not None)


def _kept(output: Path, kind: str | None, workspace: Mapping[str, object], old: Legacy | None) -> Starter:
    """A file that stays as it is, and what of the old settings it does not say yet."""
    missing = ""
    if old and old.workspace:
        lacking = legacy.lacking(old, output)
        missing = dump_for_people({"workspace": lacking}) if lacking else ""
    return Starter(output, is_new=False, kind=kind, workspace=workspace, migrated=old, missing=missing)


def render(
    project: str,
    chosen: nodes.Pair | None,
    workspace: Mapping[str, object] | None = None,
    suggested: str = "",
) -> str:
    """The text of the starter; with a clear placeholder when no model was found."""
    head = f"# yaml-language-server: $schema={files.OWN}/{SCHEMA}\n"
    head += "# Which model on which machine each agent role thinks with.\n"
    if chosen is None:
        head += (
            "#\n# PLACEHOLDER: no model server answered on this machine, so the models below are examples.\n"
            "# Put in your own node addresses and model names, then run: fleet discover\n"
        )
        local = Node("local-ollama", Kind.OLLAMA, "http://127.0.0.1:11434")
        chosen = nodes.Pair(
            (local, nodes.ServedModel("qwen2.5-coder:7b")), (local, nodes.ServedModel("qwen2.5-coder:32b"))
        )
    document = _document(project, chosen)
    if workspace:
        document["workspace"] = dict(workspace)
    return head + dump_for_people(document) + suggested


def render_for_tasks(project: str, workspace: Mapping[str, object], suggested: str) -> str:
    """The text of a starter without models: the agent CLIs think with those of their own."""
    head = f"# yaml-language-server: $schema={files.OWN}/{SCHEMA}\n"
    head += "# How agents work on this project: each task in a worktree of its own, by an agent CLI of this machine.\n"
    head += "# To think with models on your own machines: fleet init --models --force\n"
    document: dict[str, object] = {"project": {"name": _name(project)}}
    if workspace:
        document["workspace"] = dict(workspace)
    return head + dump_for_people(document) + suggested


def _name(project: str) -> str:
    return "".join(c if c.isprintable() else "-" for c in project).strip() or "my-project"


def suggested_checks(checks: Sequence[Mapping[str, object]], setup: str) -> str:
    """Checks as comments: whether a project passes them is not known, and until it does they would refuse all work."""
    if not checks:
        return ""
    said = dump_for_people({"checks": list(checks)}).splitlines()
    head = (
        "\n# What decides about every result, in a clean checkout of it. Take the # away if this is how it is tested:\n"
    )
    if setup:  # an environment in which the project itself is installed would test that, and not the checkout
        head += f"# First make an environment for it, in which the project is not installed editable:\n#   {setup}\n"
    return head + "".join(f"#{line}\n" for line in said)


def _document(project: str, chosen: nodes.Pair) -> dict[str, object]:
    (small_node, small), (big_node, big) = chosen.small, chosen.big
    used: Sequence[Node] = list({node.name: node for node in (small_node, big_node)}.values())
    return {
        "project": {"name": _name(project)},
        "gateway": {"provider": "litellm", "host": "127.0.0.1", "port": 4000, "master_key_env": "LITELLM_MASTER_KEY"},
        "nodes": {node.name: _node(node) for node in used},
        "models": {
            "heavy-coder": _model(big_node, big, "claude-sonnet-local", 600),
            "small-coder": _model(small_node, small, "claude-haiku-local", 300),
        },
        "agents": ROLES,
    }


def _node(node: Node) -> dict[str, object]:
    kind = {} if node.kind is Kind.OLLAMA else {"kind": str(node.kind)}
    return {"endpoint": node.endpoint, **kind, "tags": ["local"]}


def _model(node: Node, model: nodes.ServedModel, alias: str, timeout: int) -> dict[str, object]:
    key = "ollama_model" if node.kind is Kind.OLLAMA else "model"
    fits = min(CONTEXT_TOKENS, model.context or CONTEXT_TOKENS)
    shared = {"litellm_alias": alias, "context": fits, "timeout": timeout, "max_parallel": 1}
    return {"node": node.name, key: model.name, **shared}
