"""runtime.toml: the settings of this machine, with every problem at once, and read again while a supervisor runs."""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, structs

from fleet.config import toml
from fleet.config.problems import Document, InvalidFile, dotted
from fleet.config.runtime_schema import (
    BUILT_IN,
    CODER_NAME,
    ENV_NAME,
    NOT_WITH_ACP,
    OF_ACP,
    OF_OWN_CODERS,
    AccountSettings,
    Budget,
    CoderSettings,
    Concurrent,
    EventsAs,
    FenceMode,
    Liveness,
    MachineLimits,
    Passed,
    PromptBy,
    RuntimeFile,
    TrackerName,
)
from fleet.config.shape import fill
from fleet.config.units import dollars, seconds, silence, size, tokens
from fleet.core import BadConfig
from fleet.core.life import LifeState, Policy, Rule
from fleet.core.proof import Unverified
from fleet.core.text import clean, nearest
from fleet.core.work import Limits
from fleet.host import files, plugins

NAME = "runtime.toml"
MAX_BYTES = 64 * 1024
SETTLED = 2_000_000_000  # nanoseconds; a file changed later than that may change again within one tick of its clock
QUIET = 500_000_000  # nanoseconds without a change
MEND = "fleet config edit"


class DayBudget(Struct, frozen=True):
    """US dollars that may be spent in a day; `ends`: agents at work are ended when it is."""

    day: float | None = None
    coders: Mapping[str, float] = {}
    ends: bool = True


class Runtime(Struct, frozen=True, kw_only=True):
    """The settings in force. `written` is the file as it stands, defaults filled in; `given` names the limits in it."""

    max_concurrent: int
    coder: str
    model: str
    context_pressure_threshold_pct: int
    tracker: TrackerName
    min_free_disk: int
    dead_man: float
    backoff: float
    ask_wait: float
    limits: Limits
    liveness: Policy
    budget: DayBudget
    concurrent: Concurrent
    ageing: float
    quiet_hours: tuple[str, ...]
    memory: int | None
    agent_memory: int
    agent_memory_max: int
    unverified: Unverified
    fence: FenceMode
    accounts: Mapping[str, AccountSettings]
    coders: Mapping[str, CoderSettings]
    written: RuntimeFile
    given: frozenset[str] = frozenset()

    @property
    def known_coders(self) -> list[str]:
        return list(dict.fromkeys([*BUILT_IN, *self.coders, *_installed()]))

    def knows(self, coder: str) -> bool:
        """Whether there is a coder of that name. Other packages are looked at only for one that is not ours."""
        return coder in BUILT_IN or coder in self.coders or coder in _installed()


class InvalidRuntime(InvalidFile):
    """Every problem of one runtime.toml."""


def read(path: Path) -> Runtime:
    """The settings of a file; the defaults when there is none."""
    return parse(read_text(path) or "", path)


def salvage(path: Path) -> Runtime:
    """The defaults, with the tracker that a broken file still names: enough to look at tasks and to end them."""
    try:
        text = (files.read(path, follow=True, limit=MAX_BYTES) or b"").decode(errors="replace")
    except OSError:
        text = ""
    named = re.search(r"""^\s*tracker\s*=\s*["'](\w+)["']""", text, re.MULTILINE)
    known = named is not None and named[1] in set(TrackerName)
    return parse(f'tracker = "{named[1]}"' if named and known else "", path)


def read_text(path: Path) -> str | None:
    """The text of the file; None when there is none."""
    content = read_bytes(path)
    try:
        return None if content is None else content.decode()
    except UnicodeDecodeError as problem:
        raise BadConfig(f"{path} is not UTF-8 text (byte {problem.start})") from None


def read_bytes(path: Path) -> bytes | None:
    try:
        return files.read(path, follow=True, limit=MAX_BYTES)
    except OSError as problem:
        reason = f"larger than {MAX_BYTES // 1024} KiB" if problem.errno == errno.EFBIG else problem.strerror
        raise BadConfig(f"{path} cannot be read: {reason}") from None


def parse(text: str, path: Path) -> Runtime:
    """The settings that the text describes; InvalidRuntime with all problems otherwise."""
    document = toml.parse(text)
    if document.problems:
        raise InvalidRuntime(path, document.problems, MEND)
    file = _shape(document)
    if file is None:
        document = Document(document.value, toml.places(text))
        _shape(document)
        raise InvalidRuntime(path, document.problems, MEND)
    return structs.replace(_runtime(file), given=frozenset(_section(document.value, "limits")))


def _shape(document: Document) -> RuntimeFile | None:
    """Check names first, on the document as it stands: a typo elsewhere must hide none of them."""
    for name, part in _section(document.value, "coders").items():
        _check_coder(document, name, part)
    for name, part in _section(document.value, "accounts").items():
        _check_name(document, ("accounts", name))
        _check_env(document, ("accounts", name), part)
    _check_references(document)
    file = fill(RuntimeFile, document)
    return None if document.problems else file


def _section(value: object, *names: str) -> dict[str, object]:
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def _check_coder(document: Document, name: str, part: object) -> None:
    path = ("coders", name)
    _check_name(document, path)
    if not isinstance(part, dict):
        return
    if name in BUILT_IN:
        _check_additions(document, path, part, f"{name} is built in; give a coder of your own another name")
    elif part.get("argv") is None and name in _installed():
        _check_additions(document, path, part, f"{name} is installed; a coder of your own needs argv")
    elif not _starts_something(part.get("argv")):
        document.problem((*path, "argv"), f"{dotted(path)}.argv is missing: the program to start, and its options")
    _check_env(document, path, part)
    if name not in BUILT_IN:
        _check_protocol(document, path, part)


def _check_protocol(document: Document, path: tuple[str, str], part: dict[str, object]) -> None:
    """Keys that mean nothing beside the way an agent is given its prompt."""
    speaks = part.get("prompt") == PromptBy.ACP
    why = 'means nothing with prompt = "acp"' if speaks else 'means nothing without prompt = "acp"'
    for key in [key for key in (NOT_WITH_ACP if speaks else OF_ACP) if key in part]:
        document.problem((*path, key), f"{dotted((*path, key))} {why}")
    if "tools" in part and not speaks and part.get("events") != EventsAs.JSONL:
        document.problem((*path, "tools"), f'{dotted((*path, "tools"))} means nothing without events = "jsonl"')


def _check_name(document: Document, path: tuple[str, str]) -> None:
    if not CODER_NAME.match(path[1]):
        document.problem(
            path,
            f"{path[0]}: {clean(path[1], 80)!r} is not a usable name: lowercase letters, digits, hyphens and "
            "underscores, at most 64, the first a letter or digit",
        )


def _check_env(document: Document, path: tuple[str, str], part: object) -> None:
    for variable in _section(part, "env"):
        if not ENV_NAME.match(variable):
            message = f"{dotted((*path, 'env', variable))} is not the name of an environment variable"
            document.problem((*path, "env", variable), message)


def _check_additions(document: Document, path: tuple[str, ...], part: dict[str, object], why: str) -> None:
    """What is only for a coder that is made of settings alone."""
    for key in [key for key in OF_OWN_CODERS if key in part]:
        document.problem((*path, key), f"{dotted((*path, key))}: {why}")


def _installed() -> list[str]:
    """The coders that other packages bring, by name; whether they work is seen when one is used."""
    return [name for name in plugins.offers(plugins.CODERS) if name not in BUILT_IN and CODER_NAME.match(name)]


def _starts_something(argv: object) -> bool:
    """Whether a program is named; a value that is no list is somebody else's problem."""
    return argv is not None and (not isinstance(argv, list) or bool(argv and argv[0]))


def _check_references(document: Document) -> None:
    """Coders and accounts that are named and not there, and directories that are none."""
    known = [*BUILT_IN, *_section(document.value, "coders")]
    named: list[tuple[tuple[str, ...], object]] = [
        ((section, "coders", name), name)
        for section in ("concurrent", "budget")
        for name in _section(document.value, section, "coders")
    ]
    if isinstance(document.value, dict) and "coder" in document.value:
        named.append((("coder",), document.value["coder"]))
    accounts = _section(document.value, "accounts")
    named += [
        (("accounts", account, "coder"), part["coder"])
        for account, part in accounts.items()
        if isinstance(part, dict) and "coder" in part
    ]
    for account in _section(document.value, "concurrent", "accounts"):
        if account not in accounts:
            document.problem(
                ("concurrent", "accounts", account), f"concurrent.accounts names an unknown account: {clean(account)!r}"
            )
    for directory in _section(document.value, "concurrent", "projects"):
        if not directory.startswith("/"):
            said = f"concurrent.projects: {clean(directory)!r} is not the absolute path of a directory"
            document.problem(("concurrent", "projects", directory), said)
    for path, name in named:
        if isinstance(name, str) and name not in known and name not in _installed():
            near = "" if document.has_many else nearest(name, known)
            document.problem(path, f"{dotted(path)} names an unknown coder: {clean(name)!r}{near}")


def _runtime(file: RuntimeFile) -> Runtime:
    return Runtime(
        max_concurrent=file.max_concurrent,
        coder=file.coder,
        model=file.model,
        context_pressure_threshold_pct=file.context_pressure_threshold_pct,
        tracker=file.tracker,
        min_free_disk=size(file.min_free_disk),
        dead_man=seconds(file.dead_man),
        backoff=seconds(file.backoff),
        ask_wait=seconds(file.ask_wait),
        limits=_limits(file.limits),
        liveness=_policy(file.liveness),
        budget=_budget(file.budget),
        concurrent=file.concurrent,
        ageing=seconds(file.ageing),
        quiet_hours=file.quiet_hours,
        memory=size(file.memory) or None,
        agent_memory=size(file.agent_memory),
        agent_memory_max=size(file.agent_memory_max),
        unverified=file.unverified,
        fence=file.fence,
        accounts=file.accounts,
        coders=file.coders,
        written=file,
    )


def _limits(part: MachineLimits) -> Limits:
    return Limits(
        timeout=seconds(part.timeout),
        attempts=part.attempts,
        output=size(part.output),
        silence=silence(part.silence) or None,
        tokens=tokens(part.tokens) or None,
        cost=dollars(part.cost) or None,
    )


def _policy(part: Liveness) -> Policy:
    """What is done in each state. Who works is left alone, and who is dead is settled: of these nothing is set."""
    stuck = {
        LifeState.STARTING: Rule(part.starting, seconds(part.starting_after)),
        LifeState.TOOL: Rule(part.tool_running, seconds(part.tool_running_after)),
        LifeState.MODEL: Rule(part.waiting_for_model, seconds(part.waiting_for_model_after)),
        LifeState.INPUT: Rule(part.waiting_for_input, seconds(part.waiting_for_input_after)),
        LifeState.LIMITED: Rule(part.rate_limited, seconds(part.rate_limited_after)),
        LifeState.SILENT: Rule(part.silent),
        LifeState.LOOPING: Rule(part.looping, seconds(part.looping_after)),
        LifeState.LINGERING: Rule(part.ended_but_alive, seconds(part.ended_but_alive_after)),
    }
    return Policy(stuck, seconds(part.quiet), part.repeats)


def _budget(part: Budget) -> DayBudget:
    coders = {name: cap for name, written in part.coders.items() if (cap := dollars(written))}
    return DayBudget(dollars(part.day) or None, coders, part.passed is Passed.END)


class Change(Struct, frozen=True):
    """What a look at the file brought: the settings before and now in force, and a problem that is new."""

    before: Runtime
    after: Runtime
    problem: BadConfig | None = None

    @property
    def changed(self) -> bool:
        return self.before != self.after


class Live:
    """The settings of a running supervisor: the last good ones, whatever becomes of the file."""

    def __init__(self, path: Path) -> None:
        """Read the file; a broken one is refused here, where somebody is looking."""
        self.path = path
        self._seen = _signature(path)
        self._problem: str | None = None
        self.runtime = read(path)

    def refresh(self) -> Change:
        """Look whether the file changed. A broken or vanished file changes nothing, and is reported once."""
        before, seen = self.runtime, _signature(self.path)
        if seen == self._seen or self._is_being_written(seen):
            return Change(before, before)
        try:
            if seen is None:
                raise BadConfig(f"{self.path} is gone; the settings stay as they were", hint="fleet init --home-only")
            if seen[1] == 0:
                raise BadConfig(f"{self.path} is empty; the settings stay as they were", hint=MEND)
            self._seen, self.runtime = seen, read(self.path)
        except BadConfig as problem:
            return Change(before, before, self._new(problem))
        self._problem = None
        return Change(before, self.runtime)

    def _is_being_written(self, seen: tuple[int, ...] | None) -> bool:
        """Whether the same file was changed a moment ago: many editors empty a file before they fill it."""
        same = seen is not None and self._seen is not None and seen[0] == self._seen[0]
        return same and seen is not None and 0 <= time.time_ns() - seen[2] < QUIET

    def _new(self, problem: BadConfig) -> BadConfig | None:
        known, self._problem = self._problem, problem.message
        return problem if problem.message != known else None


def _signature(path: Path) -> tuple[int, ...] | None:
    """What changes when the file does; None when there is none. Fresh files get one that never comes again."""
    try:
        facts = os.stat(path)
    except OSError:
        return None
    now = time.time_ns()
    fresh = now if abs(now - facts.st_mtime_ns) < SETTLED else 0
    return (facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_mode, fresh)
