"""From the text of fleet.yaml to a Fleet, or to every problem with it at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path as FilePath

from fleet.config.document import parse
from fleet.config.problems import Document, InvalidFile, Path, dotted
from fleet.config.schema import (
    AGENT_NAME,
    FOR_TASKS,
    AgentPart,
    CheckPart,
    FleetFile,
    GatewayPart,
    LimitsPart,
    ModelPart,
    NodePart,
    NodesFile,
    ScopePart,
    TasksFile,
    WorkspacePart,
    coder_name,
    place_variable,
)
from fleet.config.shape import fill
from fleet.config.units import dollars, seconds, silence, size, tokens
from fleet.core import BadConfig, NotFound
from fleet.core.fleet import Agent, Fleet, Gateway, Kind, Model, Node, Provider
from fleet.core.proof import CheckSpec, ProjectDemands, Scope
from fleet.core.text import clean, has_controls, nearest
from fleet.core.work import ProjectLimits
from fleet.core.workspace import Workspace
from fleet.host import files, git

OPENROUTER = "https://openrouter.ai/api"
SPEAKS_ANTHROPIC = {Kind.OLLAMA, Kind.VLLM, Kind.LMSTUDIO, Kind.LLAMACPP, Kind.ANTHROPIC}
MAX_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Loaded:
    fleet: Fleet
    warnings: tuple[str, ...]


class InvalidFleet(InvalidFile):
    """Every problem of one fleet.yaml."""


def load(path: FilePath) -> Loaded:
    return read(text_of(path), path)


def load_nodes(path: FilePath) -> Loaded:
    """A fleet that may lack models, agents and a name: before its nodes were asked, nobody knows what they have."""
    return read(text_of(path), path, NodesFile)


def load_limits(path: FilePath) -> ProjectLimits | None:
    """The limits of a fleet.yaml, which may say nothing else: who only hands out tasks needs no nodes and models."""
    return read_limits(text_of(path), path)


def read_limits(text: str, path: FilePath) -> ProjectLimits | None:
    alone = _alone(text, path, "limits")
    file = fill(TasksFile, alone) if alone.value else None
    if alone.problems:
        raise InvalidFleet(path, alone.problems)
    return _limits(file.limits) if file else None


def load_workspace(path: FilePath) -> Workspace:
    """The workspace of a fleet.yaml, which may say nothing else; everything by default when it has none."""
    alone = _alone(text_of(path), path, "workspace")
    file = _tasks(alone, alone.value) if isinstance(alone.value, dict) else None
    if alone.problems:
        raise InvalidFleet(path, alone.problems)
    return (_workspace(file.workspace, path) if file else None) or Workspace()


def load_onto(path: FilePath) -> str | None:
    """The branch that a fleet.yaml names for the results of its tasks."""
    alone = _alone(text_of(path), path, "results")
    file = fill(TasksFile, alone) if alone.value else None
    if alone.problems:
        raise InvalidFleet(path, alone.problems)
    return file.results.onto if file and file.results else None


def read_demands(text: str, path: FilePath, source: str) -> ProjectDemands:
    """What a fleet.yaml asks of every result; nothing when it says nothing of it."""
    alone = _alone(text, path, "checks", "scope", "evidence")
    file = fill(TasksFile, alone) if alone.value else None
    if alone.problems:
        raise InvalidFleet(path, alone.problems)
    if file is None:
        return ProjectDemands()
    return ProjectDemands(
        checks=tuple(_check(part, source) for part in file.checks),
        scope=Scope() if file.scope is None else _scope(file.scope),
        unverified=file.evidence.unverified if file.evidence else None,
    )


def _check(part: str | CheckPart, source: str) -> CheckSpec:
    if isinstance(part, str):
        return CheckSpec(part, source=source)
    return CheckSpec(part.run, part.name, seconds(part.timeout), source, part.needs, part.before)


def _scope(part: ScopePart) -> Scope:
    return Scope(part.allow, part.deny, part.max_files, part.deletions, part.protected, part.on_breach)


@dataclass(frozen=True, slots=True)
class Checked:
    """A fleet.yaml without a problem; one for tasks alone names no models."""

    warnings: tuple[str, ...] = ()
    for_tasks: bool = False


def check(text: str, path: FilePath) -> Checked:
    """Whether the text is a fleet.yaml, whole or for tasks alone; InvalidFleet with all problems otherwise."""
    document = parse(text)
    value = document.value
    if not isinstance(value, dict) or not value or not value.keys() <= FOR_TASKS:
        return Checked(read(text, path).warnings)
    _tasks(document, value)
    if document.problems:
        raise InvalidFleet(path, document.problems)
    return Checked(for_tasks=True)


def _tasks(document: Document, value: dict[str, object]) -> TasksFile | None:
    _check_workspace(document, value)
    return fill(TasksFile, document)


def _alone(text: str, path: FilePath, *sections: str) -> Document:
    """Sections of the file, with what is wrong there; what is wrong elsewhere is no concern of who asks for them."""
    document = parse(text)
    if document.value is None and document.problems:
        raise InvalidFleet(path, document.problems)
    whole = document.value if isinstance(document.value, dict) else {}
    parts = {section: whole[section] for section in sections if whole.get(section) is not None}
    if not parts:
        return Document()
    wrong = [problem for problem in document.problems if problem.path[:1] and problem.path[0] in parts]
    return Document(parts, document.places, wrong)


def text_of(path: FilePath) -> str:
    """The text of a fleet.yaml; NotFound when there is none."""
    try:
        content = files.read(path, follow=True, limit=MAX_BYTES)
    except OSError as problem:
        raise BadConfig(f"{path} cannot be read: {problem.strerror}") from None
    if content is None:
        raise NotFound(f"there is no {path}", hint="make one with: fleet init")
    try:
        return content.decode()
    except UnicodeDecodeError as problem:
        raise BadConfig(f"{path} is not UTF-8 text (byte {problem.start})") from None


def read(text: str, path: FilePath, kind: type[FleetFile] = FleetFile) -> Loaded:
    """The fleet that the text describes; InvalidFleet with all problems otherwise."""
    document = parse(text)
    if document.problems and document.value is None:
        raise InvalidFleet(path, document.problems)
    file = _shape(document, kind)
    if file is None:
        raise InvalidFleet(path, document.problems)
    fleet = _fleet(file, document, path)
    if document.problems:
        raise InvalidFleet(path, document.problems)
    return Loaded(fleet, tuple(_warnings(fleet)))


def _shape(document: Document, kind: type[FleetFile]) -> FleetFile | None:
    """Check names and references first, on the document as it stands: a typo elsewhere must hide none of them."""
    if not isinstance(document.value, dict):
        document.problem((), "the file is empty" if document.value is None else "the file must be a mapping")
        return None
    if document.value and document.value.keys() <= FOR_TASKS:
        _tasks(document, document.value)
        lacks, needs = ("nodes", "nodes") if kind is NodesFile else ("models", "project, nodes, models and agents")
        document.problem((), f"the file names no {lacks}; it needs {needs} for this")
        return None
    if kind is NodesFile:
        document.value = {key: part for key, part in document.value.items() if part or key not in ("models", "agents")}
    _check_names(document, document.value)
    _check_references(document, document.value)
    _check_served(document, document.value)
    _check_workspace(document, document.value)
    return fill(kind, document)


def _section(value: dict[str, object], name: str) -> dict[str, object]:
    section = value.get(name)
    return section if isinstance(section, dict) else {}


def _check_names(document: Document, value: dict[str, object]) -> None:
    for section in ("nodes", "models", "agents"):
        for name in _section(value, section):
            path = (section, name)
            if section == "agents" and not AGENT_NAME.match(name):
                document.problem(
                    path,
                    f"agents: {clean(name, 80)!r} is not a usable name: lowercase letters, digits, hyphens and "
                    "underscores, at most 64, the first a letter or digit",
                )
            elif not name.strip() or has_controls(name) or len(name) > 200:
                document.problem(path, f"{section}: {clean(name, 80)!r} is not a usable name: one line, at most 200")


def _check_references(document: Document, value: dict[str, object]) -> None:
    """Names that lead nowhere. Works on the raw document, so that a typo elsewhere does not hide them."""
    for section, key, target in (("models", "node", "nodes"), ("agents", "model", "models")):
        known = _section(value, target)
        for name, part in _section(value, section).items():
            wanted = part.get(key) if isinstance(part, dict) else None
            if isinstance(wanted, str) and wanted not in known:
                path = (section, name, key)
                near = "" if document.has_many else nearest(wanted, known)
                document.problem(path, f"{dotted(path)} references unknown {key}: {clean(wanted)}{near}")


def _check_served(document: Document, value: dict[str, object]) -> None:
    """What a node or a model needs depends on the kind of the node."""
    kinds = {}
    for name, part in _section(value, "nodes").items():
        given = part if isinstance(part, dict) else {}
        kinds[name] = given.get("kind", "ollama")
        if isinstance(part, dict) and not given.get("endpoint") and kinds[name] != Kind.OPENROUTER:
            document.problem(("nodes", name, "endpoint"), f"nodes.{name}.endpoint is missing")
    for name, part in _section(value, "models").items():
        if isinstance(part, dict):
            _check_model(document, ("models", name), part, kinds.get(str(part.get("node")), "ollama"))
    for section in ("nodes", "models", "agents"):
        if value.get(section) == {}:
            document.problem((section,), f"{section} must name at least one")


def _check_model(document: Document, path: Path, part: dict[str, object], kind: object) -> None:
    model, ollama = part.get("model"), part.get("ollama_model")
    if not model and not ollama:
        key = "ollama_model" if kind == Kind.OLLAMA else "model"
        document.problem((*path, key), f"{dotted((*path, key))} is missing")
    elif model and ollama and model != ollama:
        document.problem((*path, "model"), f"{dotted(path)} has both model and ollama_model, and they differ; keep one")
    elif ollama and kind != Kind.OLLAMA:
        where = (*path, "ollama_model")
        document.problem(where, f"{dotted(where)}: node {part.get('node')} is of the kind {kind}; write model instead")


def _check_workspace(document: Document, value: dict[str, object]) -> None:
    """The names of coders and variables, which are keys: the shape has no say over them."""
    part = _section(value, "workspace")
    checks: dict[str, Callable[[str], str]] = {"flags": coder_name, "env": place_variable}
    for section, check in checks.items():
        for name in _section(part, section):
            try:
                check(name)
            except ValueError as problem:
                where = ("workspace", section, name)
                document.problem(where, f"{dotted(where)} {problem}")


def _fleet(file: FleetFile, document: Document, path: FilePath) -> Fleet:
    nodes = {name: _node(name, part) for name, part in file.nodes.items()}
    models = {name: _model(name, part, nodes.get(part.node)) for name, part in file.models.items()}
    agents = {name: _agent(name, part) for name, part in file.agents.items()}
    gateway = _gateway(file, document)
    for name, node in nodes.items():
        if node.api_key_env == gateway.master_key_env:
            where = ("nodes", name, "api_key_env")
            document.problem(
                where, f"{dotted(where)} is gateway.master_key_env too: the node would get the gateway's key"
            )
    workspace = _workspace(file.workspace, path)
    name = file.project.name or path.absolute().parent.name
    fleet = Fleet(name, gateway, nodes, models, agents, _limits(file.limits), workspace)
    if gateway.provider is Provider.DIRECT and not document.problems:
        _check_direct(fleet, document)
    return fleet


def _gateway(file: FleetFile, document: Document) -> Gateway:
    inner, outer = file.project.gateway, file.gateway
    if inner and outer and inner != outer:
        document.problem(("gateway",), "gateway and project.gateway differ; keep one of them")
    part = outer or inner or GatewayPart()
    return Gateway(part.provider, part.host, part.port, part.master_key_env)


def _node(name: str, part: NodePart) -> Node:
    endpoint, key = part.endpoint or "", part.api_key_env
    if part.kind is Kind.OPENROUTER:
        endpoint, key = endpoint or OPENROUTER, key or "OPENROUTER_API_KEY"
    # A base address is often copied with the API's version on it; every adapter adds its own.
    bare = endpoint if part.kind is Kind.OLLAMA else endpoint.removesuffix("/v1")
    return Node(name, part.kind, bare, part.tags, key, part.memory_gb)


def _model(name: str, part: ModelPart, node: Node | None) -> Model:
    at_once = part.max_parallel or (None if node and node.is_cloud else 1)
    limits = (part.context, part.timeout, at_once, part.keep_alive)
    return Model(name, part.node, part.model or part.ollama_model or "", part.litellm_alias, *limits)


def _agent(name: str, part: AgentPart) -> Agent:
    return Agent(name, part.model, part.description, part.tools or (), part.prompt or default_prompt(name))


def _limits(part: LimitsPart | None) -> ProjectLimits | None:
    if part is None:
        return None
    return ProjectLimits(
        timeout=None if part.timeout is None else seconds(part.timeout),
        attempts=part.attempts,
        output=None if part.output is None else size(part.output),
        silence=None if part.silence is None else silence(part.silence),
        tokens=None if part.tokens is None else tokens(part.tokens),
        cost=None if part.cost is None else dollars(part.cost),
    )


def _workspace(part: WorkspacePart | None, path: FilePath) -> Workspace | None:
    if part is None:
        return None
    return Workspace(
        place=part.place,
        worktree_root=None if part.worktree_root is None else _root(part.worktree_root, path),
        branch_prefix=part.branch_prefix,
        tmux_prefix=part.tmux_prefix,
        agent=part.agent,
        credential_files=tuple(dict.fromkeys(part.credential_files)),
        setup=part.setup,
        setup_timeout=seconds(part.setup_timeout),
        quick=part.quick,
        flags=part.flags,
        env={name: str(value) for name, value in part.env.items()},
        env_file=part.env_file,
    )


def _root(written: str, path: FilePath) -> str:
    """Where places are made; what is relative stands beside the project's own files."""
    directory = path.absolute().parent
    repository = git.find(directory)
    top = repository.top if repository else directory
    return str((top / FilePath(written).expanduser()).resolve())


def default_prompt(name: str) -> str:
    return (
        f"You are the {name.replace('-', ' ').replace('_', ' ')} agent of this project.\n"
        "Do the task you were given and nothing beyond it.\n"
        "Say what you did, what you found, and what is still open.\n"
    )


def _check_direct(fleet: Fleet, document: Document) -> None:
    used = {fleet.models[agent.model].node for agent in fleet.agents.values()}
    if len(used) > 1:
        names = ", ".join(sorted(used))
        message = f"gateway.provider direct needs all agents on one node, and they are on {names}; use litellm"
        document.problem(("gateway", "provider"), message)
    for name in sorted(used):
        kind = fleet.nodes[name].kind
        if kind not in SPEAKS_ANTHROPIC:
            message = f"gateway.provider direct: node {name} ({kind}) does not speak the Anthropic API; use litellm"
            document.problem(("gateway", "provider"), message)


def _warnings(fleet: Fleet) -> Iterator[str]:
    by_alias: dict[str, list[Model]] = {}
    for model in fleet.models.values():
        by_alias.setdefault(model.alias, []).append(model)
    for alias, models in by_alias.items():
        if len({model.served.removesuffix(":latest") for model in models}) > 1:
            named = ", ".join(f"{model.name} ({clean(model.served)})" for model in models)
            yield f"alias {clean(alias)} is shared by different models: {named}; requests go to any of them"
    if not fleet.gateway.is_loopback and fleet.gateway.provider is Provider.LITELLM:
        yield f"gateway.host {fleet.gateway.host} is reachable from other machines; 127.0.0.1 is safer"
    yield from _warnings_of_parts(fleet)


def _warnings_of_parts(fleet: Fleet) -> Iterator[str]:
    """What is in order as far as it is written, and yet does not do what was meant."""
    for node in fleet.nodes.values():
        if node.kind is Kind.OLLAMA and node.endpoint.endswith("/v1"):
            bare = clean(node.endpoint.removesuffix("/v1"))
            yield f"nodes.{node.name}.endpoint ends in /v1, where Ollama has another API: write {bare}"
    for agent in fleet.agents.values():
        if "MultiEdit" in agent.tools and "Write" not in agent.tools:
            yield f"agents.{agent.name}.tools: Claude Code has no MultiEdit any more; Write makes new files"
