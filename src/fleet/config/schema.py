"""The shape of fleet.yaml, as it is written in the file."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Annotated, Any
from urllib.parse import urlsplit

from msgspec import Meta, field

from fleet.config.shape import Part
from fleet.config.units import Attempts, Dollars, Duration, Silence, Size, Tokens
from fleet.core import globs, template
from fleet.core.fleet import Kind, Provider
from fleet.core.proof import OnBreach, Unverified
from fleet.core.text import has_controls
from fleet.core.work import PlaceKind

ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
AGENT_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}\Z")
TAKEN_NAMES = {
    "ALL_PROXY", "DISABLE_TELEMETRY", "ENV", "EUID", "FLEET_HOME", "HOME", "HTTPS_PROXY", "HTTP_PROXY", "IFS", "LANG",
    "NO_PROXY", "PATH", "PROMPT_COMMAND", "PS1", "PWD", "REQUESTS_CA_BUNDLE", "SHELL", "SHELLOPTS", "TERM", "TMPDIR",
    "UID", "USER",
}  # fmt: skip
TAKEN_PREFIXES = ("BASH", "CLAUDE_CODE_", "DYLD_", "LC_", "LD_", "NODE_", "PYTHON", "SSL_CERT_", "XDG_")
CODER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z")
NOT_FOR_PLACES = {
    "BASH_ENV", "ENV", "GIT_COMMON_DIR", "GIT_DIR", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_WORK_TREE", "HOME",
    "IFS", "PATH", "PWD", "SHELL", "TERM", "USER",
}  # fmt: skip
OUR_NAMES = {"ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL"}
CLAUDE_WORDS = {"best", "default", "haiku", "inherit", "opus", "opusplan", "sonnet"}
METADATA_HOSTS = {"169.254.169.254", "169.254.170.2", "fd00:ec2::254", "100.100.100.200", "metadata.google.internal"}


def _one_line(text: str) -> str:
    if not text.strip():
        raise ValueError("is empty")
    if has_controls(text):
        raise ValueError("must be one line without control characters")
    if text.startswith("os.environ/"):
        raise ValueError("must not begin with os.environ/, which LiteLLM replaces by a variable of its environment")
    return text


def _alias(text: str) -> str:
    if "*" in _one_line(text):
        raise ValueError("must not contain *, which LiteLLM takes for a pattern")
    if text.lower() in CLAUDE_WORDS:
        raise ValueError(f"must not be {text!r}, which Claude Code takes for something else than a model of yours")
    return text


def _keep_alive(text: str) -> str:
    if not re.fullmatch(r"-?(\d{1,9}(\.\d{1,6})?(ms|s|m|h)){1,4}", text):
        raise ValueError("must be seconds as a number, -1 for ever, or a duration such as 30m or 1h30m")
    return text


def _prose(text: str) -> str:
    if not text.strip():
        raise ValueError("is empty")
    if has_controls(text, allow="\n\t\u2028\u2029\x85"):
        raise ValueError("contains control characters")
    return text


def _env_name(text: str) -> str:
    if not ENV_NAME.match(text):
        raise ValueError("must be the name of an environment variable, such as MY_API_KEY (never the key itself)")
    if text in TAKEN_NAMES or text.startswith(TAKEN_PREFIXES):
        raise ValueError(f"must not be {text}, which means something else to the shell or to other programs")
    if text in OUR_NAMES or text.startswith("ANTHROPIC_DEFAULT_"):
        raise ValueError(f"must not be {text}, which the generated environment file sets to something else")
    return text


def _endpoint(text: str) -> str:
    try:
        parts = urlsplit(_one_line(text))
        host, _ = parts.hostname, parts.port
    except ValueError:
        host, parts = None, urlsplit("")
    if parts.scheme not in ("http", "https") or not host or any(c in text for c in " \\"):
        raise ValueError("must be an HTTP or HTTPS address, such as http://192.168.1.50:11434")
    if parts.username is not None or parts.password is not None:
        raise ValueError("must not carry a user name or password; name an environment variable in api_key_env")
    if parts.query or parts.fragment:
        raise ValueError("must not have a query or a fragment")
    if not host.isascii():
        raise ValueError("must be written in ASCII; a name with other letters has a form that begins with xn--")
    if _plain_address(host) in METADATA_HOSTS:
        raise ValueError("is a cloud metadata address, which is never a node")
    return text.rstrip("/")


def _plain_address(host: str) -> str:
    """An address as it is usually written: 2852039166, 0xa9fea9fe and ::ffff:169.254.169.254 are the same machine."""
    try:
        address = ip_address(int(host, 0)) if host[:1].isdigit() and "." not in host else ip_address(host)
    except ValueError:
        return host.rstrip(".")
    mapped = address.ipv4_mapped if address.version == 6 else None
    return str(mapped or address)


def _host(text: str) -> str:
    try:
        return str(ip_address(text))
    except ValueError:
        if re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,252}[A-Za-z0-9])?", text):
            return text
        raise ValueError("must be an address or a host name to listen on, such as 127.0.0.1") from None


def place_variable(text: str) -> str:
    """The name of a variable that a project may give its set-up commands and agents; ValueError otherwise."""
    if not ENV_NAME.match(text):
        raise ValueError("must be the name of an environment variable, such as PORT")
    if text in NOT_FOR_PLACES or text.startswith(("DYLD_", "FLEET_", "LD_")):
        raise ValueError(f"must not be {text}, which means something else to fleet or to other programs")
    return text


def coder_name(text: str) -> str:
    if not CODER_NAME.match(text):
        raise ValueError("must be the name of a coder, such as claude; fleet coders list shows them")
    return text


def _template(text: str) -> str:
    if has_controls(text):
        raise ValueError("must be one line without control characters")
    return template.check(text)


def _inside(text: str) -> str:
    """A path of a file in the project; nothing that could lead out of it, and nothing of git's own."""
    if has_controls(text) or not text.strip():
        raise ValueError("must be the path of a file in the project, such as .env")
    steps = text.split("/")
    if text.startswith(("/", "~")) or ".." in steps:
        raise ValueError("must be a path inside the project, such as config/master.key")
    if not {"", "."}.isdisjoint(steps):
        raise ValueError("must be the plain path of a file, such as config/master.key")
    if any(step.lower() == ".git" for step in steps):
        raise ValueError("must not be in .git, which belongs to git")
    return text


def _directory(text: str) -> str:
    _one_line(text)
    if text.startswith("~") and text != "~" and not text.startswith("~/"):
        raise ValueError("must begin with ~/ where it means your home")
    if "$" in text:
        raise ValueError("must not contain $: variables are not looked up here; ~ is")
    return text


def _branch_prefix(text: str) -> str:
    """What may stand at the beginning of every branch; the whole name is checked again when there is one."""
    is_odd = text.startswith(("-", "/", ".")) or any(sign in text for sign in ("..", "//", "/.", "@{", ".lock/"))
    if is_odd or has_controls(text) or any(sign in text for sign in " ~^:?*[\\"):
        raise ValueError("must be the beginning of a git branch name, such as agents/")
    return text


def _session_prefix(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_-]{0,40}", text) or text.startswith("-"):
        raise ValueError("must be letters, digits, _ and -, such as ai_: tmux takes : and . for something else")
    return text


def _command(text: str) -> str:
    if not text.strip():
        raise ValueError("is empty")
    if has_controls(text, allow="\n\t"):
        raise ValueError("contains control characters")
    return text


def glob(text: str) -> str:
    """A pattern of paths; ValueError with what is wrong with it."""
    if has_controls(text):
        raise ValueError("must be one line without control characters")
    wrong = globs.problem(text)
    if wrong is not None:
        raise ValueError(wrong)
    return text


def _says(description: str) -> Meta:
    return Meta(description=description)


# A check is a function that returns the value, or raises ValueError with the words that follow the value's path.
Line = Annotated[str, Meta(max_length=300, extra={"check": _one_line})]
Prose = Annotated[str, Meta(max_length=200_000, extra={"check": _prose})]
EnvName = Annotated[str, Meta(max_length=100, extra={"check": _env_name})]
Alias = Annotated[str, Meta(max_length=300, extra={"check": _alias})]
Host = Annotated[str, Meta(max_length=300, extra={"check": _host})]
Endpoint = Annotated[str, Meta(max_length=500, extra={"check": _endpoint})]
KeepSeconds = Annotated[int, Meta(ge=-1, le=10**9)]
KeepDuration = Annotated[str, Meta(max_length=40, extra={"check": _keep_alive})]
Port = Annotated[int, Meta(ge=1, le=65535)]
Inside = Annotated[str, Meta(max_length=500, extra={"check": _inside})]
Directory = Annotated[str, Meta(max_length=1000, extra={"check": _directory})]
BranchPrefix = Annotated[str, Meta(max_length=100, extra={"check": _branch_prefix})]
SessionPrefix = Annotated[str, Meta(max_length=40, extra={"check": _session_prefix})]
Command = Annotated[str, Meta(max_length=20_000, extra={"check": _command})]
Template = int | Annotated[str, Meta(max_length=5000, extra={"check": _template})]
Glob = Annotated[str, Meta(max_length=500, extra={"check": glob})]
Count = Annotated[int, Meta(ge=0, le=10**9)]
Coder = Annotated[str, Meta(max_length=64, extra={"check": coder_name})]


class GatewayPart(Part, frozen=True, kw_only=True):
    """What agents talk to."""

    provider: Annotated[
        Provider, _says("litellm: a LiteLLM proxy. direct: one node, no proxy, straight to its own API.")
    ] = Provider.LITELLM
    host: Annotated[Host, _says("The address to listen on.")] = "127.0.0.1"
    port: Annotated[Port, _says("The port to listen on.")] = 4000
    master_key_env: Annotated[EnvName, _says("The environment variable that carries the gateway's key.")] = (
        "LITELLM_MASTER_KEY"
    )


class ProjectPart(Part, frozen=True, kw_only=True):
    """What this fleet is called."""

    name: Annotated[Line, _says("The name of the project.")]
    gateway: Annotated[GatewayPart | None, _says("The same as `gateway` at the top level.")] = None


class NodePart(Part, frozen=True, kw_only=True):
    """A machine that serves models."""

    endpoint: Annotated[
        Endpoint | None, _says("Where it answers, such as http://192.168.1.50:11434. OpenRouter needs none.")
    ] = None
    kind: Annotated[Kind, _says("What it speaks.")] = Kind.OLLAMA
    tags: Annotated[tuple[Line, ...], _says("Words of your own, shown by status.")] = ()
    api_key_env: Annotated[
        EnvName | None, _says("The environment variable that holds its API key. The key itself never stands here.")
    ] = None
    memory_gb: Annotated[
        Annotated[float, Meta(gt=0, le=100_000)] | None, _says("Memory for models, checked by doctor.")
    ] = None


class ModelPart(Part, frozen=True, kw_only=True):
    """An LLM on a node."""

    node: Annotated[str, _says("The node that serves it.")]
    ollama_model: Annotated[Line | None, _says("The name Ollama knows it by, such as qwen2.5-coder:7b.")] = None
    model: Annotated[Line | None, _says("The name the node knows it by, for any kind of node.")] = None
    litellm_alias: Annotated[Alias, _says("The name agents ask for, such as claude-sonnet-local.")]
    context: Annotated[int, Meta(ge=256, le=100_000_000, description="Context window, in tokens.")] = 32768
    timeout: Annotated[int, Meta(ge=1, le=86_400, description="Seconds one answer may take.")] = 300
    max_parallel: Annotated[
        Annotated[int, Meta(ge=1, le=10_000)] | None,
        _says("Requests that may run at once; more wait in the gateway. 1 by default, no limit in a cloud."),
    ] = None
    keep_alive: Annotated[
        KeepSeconds | KeepDuration, _says("How long Ollama keeps it loaded: -1 for ever, or 30m.")
    ] = -1


class AgentPart(Part, frozen=True, kw_only=True):
    """A role, and the model it thinks with."""

    model: Annotated[str, _says("The model it thinks with.")]
    description: Annotated[Prose, _says("When this agent should be used.")]
    tools: Annotated[
        tuple[Line, ...] | None, _says("Tools it may use; none listed means the agent CLI's default.")
    ] = ()
    prompt: Annotated[Prose | None, _says("Its instructions.")] = None


class LimitsPart(Part, frozen=True, kw_only=True):
    """What a task of this project may use. A task's own limits win; this machine's come after these."""

    timeout: Annotated[Duration | None, _says("Wall time of one attempt: seconds, or such as 30m or 1h30m.")] = None
    attempts: Annotated[Attempts | None, _says("How often a task is tried.")] = None
    output: Annotated[Size | None, _says("What one attempt may print: bytes, or such as 500MB.")] = None
    silence: Annotated[
        Silence | None, _says("How long an agent may say nothing, such as 20m. 0 or none: for ever.")
    ] = None
    tokens: Annotated[
        Tokens | None, _says("Tokens of all attempts at a task together, such as 2M. 0 or none: no limit.")
    ] = None
    cost: Annotated[Dollars | None, _says("US dollars of all attempts at a task together. 0 or none: no limit.")] = None


class WorkspacePart(Part, frozen=True, kw_only=True):
    """Where attempts at this project work, and what is done there before an agent begins."""

    place: Annotated[
        PlaceKind,
        _says("worktree: a git worktree. clone: a private clone. inplace: the task's own directory."),
    ] = PlaceKind.WORKTREE
    worktree_root: Annotated[
        Directory | None,
        _says("The directory in which places are made, such as ~/worktrees/shop. Without one it is in the home."),
    ] = None
    branch_prefix: Annotated[BranchPrefix, _says("What the branch of every attempt begins with, such as agents/.")] = ""
    tmux_prefix: Annotated[SessionPrefix, _says("What the name of every tmux session begins with.")] = "ai_"
    agent: Annotated[Coder | None, _says("The coder of an attempt that names none.")] = None
    credential_files: Annotated[
        tuple[Inside, ...],
        _says("Files that git does not have, copied into every place with their mode and kept out of git there."),
    ] = ()
    setup: Annotated[
        tuple[Command, ...], _says("Commands for /bin/sh, run in every new place, one after the other.")
    ] = ()
    setup_timeout: Annotated[Duration, _says("How long all of them may take: seconds, or such as 10m.")] = 600.0
    quick: Annotated[bool, _says("Leave the set-up commands out, and only copy files.")] = False
    flags: Annotated[
        dict[str, tuple[Line, ...]],
        _says("Arguments for a coder in a terminal, by its name: `claude: [--permission-mode, plan]`."),
    ] = field(default_factory=dict)
    env: Annotated[
        dict[str, Template],
        _says("Variables for set-up commands and agents, by name. {branch}, {port} and the like are filled in."),
    ] = field(default_factory=dict)
    env_file: Annotated[
        Inside | None, _says("A file in the place that gets these variables too, such as .env; kept out of git.")
    ] = None


class CheckPart(Part, frozen=True, kw_only=True):
    """A command that decides about a result: exit code 0 is for it, anything else against it."""

    run: Annotated[Command, _says("The command, for /bin/sh, in a clean checkout of what would land.")]
    name: Annotated[Line, _says("What it is called; without a name it is its command.")] = ""
    timeout: Annotated[Duration, _says("How long it may take: seconds, or such as 10m.")] = 600.0
    needs: Annotated[
        tuple[Inside, ...],
        _says("Paths that git ignores, such as .venv, lent to it from the project's own working tree."),
    ] = ()
    before: Annotated[
        bool, _says("Whether it is run once on what a task begins with, before its first agent: false switches it off.")
    ] = True


Checks = Annotated[
    tuple[Command | CheckPart, ...],
    _says("Commands that decide about a result, one after the other; each alone, or with what else is said of it."),
]


class ScopePart(Part, frozen=True, kw_only=True):
    """What a result may touch. Patterns are those of a .gitignore."""

    allow: Annotated[tuple[Glob, ...], _says("Only these paths may be touched. None given: all of them.")] = ()
    deny: Annotated[tuple[Glob, ...], _says("These may not, whatever else is said.")] = ()
    max_files: Annotated[Count | None, _says("How many files may be changed.")] = None
    deletions: Annotated[Count | None, _says("How many files may be deleted. 0 unless it is said.")] = None
    protected: Annotated[
        tuple[Glob, ...],
        _says('Of the protected paths, those that may be touched after all, such as uv.lock; "*" is all of them.'),
    ] = ()
    on_breach: Annotated[
        OnBreach | None,
        _says("What becomes of an agent that is seen to touch what it may not. flag: it is said. end: it is ended."),
    ] = None


class EvidencePart(Part, frozen=True, kw_only=True):
    """What is done with results."""

    unverified: Annotated[
        Unverified | None,
        _says("What becomes of a task whose result nothing could check. close: it is done. ask: a person is asked."),
    ] = None


class ResultsPart(Part, frozen=True, kw_only=True):
    """Where results of tasks are meant to go."""

    onto: Annotated[
        Line | None,
        _says("The branch, such as main. Without it: the one that is checked out when a task is added."),
    ] = None


class TasksFile(Part, frozen=True, kw_only=True):
    """A fleet.yaml for tasks alone: it names no models."""

    project: ProjectPart | None = None
    limits: LimitsPart | None = None
    workspace: WorkspacePart | None = None
    results: ResultsPart | None = None
    checks: Checks = ()
    scope: ScopePart | None = None
    evidence: EvidencePart | None = None


FOR_TASKS = frozenset(TasksFile.__struct_fields__)


class FleetFile(Part, frozen=True, kw_only=True):
    """One file that says which model on which machine each agent role thinks with."""

    project: ProjectPart
    gateway: Annotated[GatewayPart | None, _says("The same as `project.gateway`.")] = None
    nodes: Annotated[dict[str, NodePart], _says("Machines that serve models, by name.")]
    models: Annotated[dict[str, ModelPart], _says("LLMs on those machines, by name.")]
    agents: Annotated[dict[str, AgentPart], _says("Roles and the models they think with, by name.")]
    limits: LimitsPart | None = None
    workspace: WorkspacePart | None = None
    results: ResultsPart | None = None
    checks: Checks = ()
    scope: ScopePart | None = None
    evidence: EvidencePart | None = None


class NodesFile(FleetFile, frozen=True, kw_only=True):
    """A fleet.yaml that names nodes, and whatever else of a whole one stands there already."""

    project: ProjectPart = ProjectPart(name="")
    models: dict[str, ModelPart] = field(default_factory=dict)
    agents: dict[str, AgentPart] = field(default_factory=dict)


def json_schema() -> dict[str, Any]:
    """The JSON Schema of fleet.yaml, for editors."""
    import msgspec.json

    schema = msgspec.json.schema(FleetFile)
    root = schema["$defs"].pop("FleetFile")
    whole, alone = (
        {"required": root.pop("required")},
        {"propertyNames": {"enum": sorted(FOR_TASKS)}, "minProperties": 1},
    )
    about = {"$schema": "https://json-schema.org/draft/2020-12/schema", **root, "title": "fleet.yaml"}
    return {**about, "anyOf": [whole, alone], "$defs": schema["$defs"]}
