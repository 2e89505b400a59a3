"""Agents on branches, as people begin them, see them, talk to them and end them."""

from __future__ import annotations

import json
import os
import secrets
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from fnmatch import fnmatchcase
from getpass import getuser
from pathlib import Path

from fleet import keeper, places, tracker
from fleet.app.home import SETTINGS, ensure_home
from fleet.batches import end as ending
from fleet.batches.create import Hear, Made
from fleet.batches.create import create as make
from fleet.batches.end import Ended
from fleet.batches.look import Row, look
from fleet.batches.prompt import give
from fleet.batches.repair import Mended, repair
from fleet.batches.site import Site
from fleet.batches.wanted import Wanted, Who, agents, fanout, multi
from fleet.coders.known import find_coder
from fleet.config.runtime import Live
from fleet.config.workspace import project_workspace
from fleet.core import BadConfig, FleetError, NotFound
from fleet.core.talk import Delivery
from fleet.core.task import Status
from fleet.core.text import clean, nearest
from fleet.core.work import Attempt, Ending
from fleet.core.workspace import Workspace
from fleet.evidence.ledger import Ledger
from fleet.host import files, run
from fleet.questions import remarks
from fleet.sessions import Server
from fleet.supervisor.house import House
from fleet.supervisor.log import Log

AT_ONCE = 8
LONGEST_LOG = 4 * 1024 * 1024


def open_site(cwd: Path | None = None, *, to_create: bool = False) -> Site:
    """The project that somebody stands in, from anywhere in it."""
    here = (cwd or Path()).absolute()
    project = places.project(here)
    if project is None:
        raise NotFound(f"{here} is not in a git repository", hint="cd to your project, or: git init")
    return _site(_house(), project, to_create=to_create)


def every_site() -> list[Site]:
    """Every project that has an agent somebody talks to."""
    house = _house()
    tops = dict.fromkeys(one.repository for one in house.ledger.talked_to())
    return [_site(house, _project(Path(top))) for top in tops]


def _project(top: Path) -> places.Project:
    """The project that an attempt was begun in, also when it is gone: agents outlive it."""
    return places.project(top) or places.Project(top, top / ".git")


def _house() -> House:
    home = ensure_home()
    settings = Live(home / SETTINGS)
    desk = tracker.open(home, settings.runtime.tracker)
    return House(home, desk, Ledger(home), settings, find_coder, Log(home), f"person-{getuser()}")


def _site(house: House, project: places.Project, *, to_create: bool = False) -> Site:
    """A project as it wants its places; for agents that are there already a broken fleet.yaml is no obstacle."""
    try:
        workspace = project_workspace(project.top) or Workspace()
    except BadConfig:
        if to_create:
            raise
        workspace = Workspace()
    root = places.root_for(house.home, project, workspace.worktree_root)
    return Site(house, project, workspace, root, Server(house.home, project.top))


@dataclass(frozen=True, slots=True)
class How:
    """What a create, a fanout and a multi can all be told."""

    agent: str | None = None
    model: str | None = None
    base: str | None = None
    quick: bool = False
    atomic: bool = False


def create(site: Site, branch: str, prompt: str, how: How, hear: Hear, done: Callable[[Made], None]) -> list[Made]:
    who = _who(site, how)
    if len(who) > 1:
        raise BadConfig("one branch has one agent", hint="several: fleet fanout N --agent claude,codex")
    wanted = Wanted(branch, prompt, who[0].coder, who[0].model, how.base)
    return _made(site, [wanted], how, hear, done)


def fan_out(
    site: Site, count: int, prefix: str | None, prompt: str, how: How, hear: Hear, done: Callable[[Made], None]
) -> list[Made]:
    """One prompt to several agents, each on a branch of its own."""
    wanted = fanout(count, prefix, secrets.token_hex(4), prompt, _who(site, how), how.base)
    return _made(site, wanted, how, hear, done)


def several(site: Site, pairs: Sequence[str], how: How, hear: Hear, done: Callable[[Made], None]) -> list[Made]:
    """Several prompts, each to an agent on a branch of its own."""
    wanted = multi(pairs, f"multi-{secrets.token_hex(4)}", _who(site, how), how.base)
    return _made(site, wanted, how, hear, done)


def _who(site: Site, how: How) -> list[Who]:
    """The coders that were named, or the project's, or this machine's; whose model is only the machine's coder's."""
    runtime = site.house.runtime
    found = agents(how.agent or site.workspace.agent or runtime.coder, how.model)
    own = runtime.model or None
    return [replace(one, model=one.model or (own if one.coder == runtime.coder else None)) for one in found]


def _made(site: Site, wanted: Sequence[Wanted], how: How, hear: Hear, done: Callable[[Made], None]) -> list[Made]:
    """Make them all; with `atomic`, none when one of them cannot be made."""
    made = make(site, [replace(one, quick=how.quick) for one in wanted], hear, done)
    if how.atomic and any(one.problem for one in made):
        return [_undone(site, one) for one in made]
    return made


def _undone(site: Site, made: Made) -> Made:
    """The same after it was ended; one that cannot be ended is left, and says why."""
    if made.attempt is not None:
        try:
            ending.end(site, made.attempt, "another of its batch could not be made")
        except FleetError as problem:
            return replace(made, problem=problem)
    return made


def rows(*, everywhere: bool, disk: bool = False) -> list[Row]:
    """The agents of the project that somebody stands in; of every project outside of one, or when asked to."""
    project = None if everywhere else places.project(Path().absolute())
    sites = every_site() if project is None else [_site(_house(), project)]
    return [row for site in sites for row in look(site, disk=disk)]


def mend(*, everywhere: bool) -> list[Mended]:
    sites = every_site() if everywhere or places.project(Path().absolute()) is None else [open_site()]
    return [mended for site in sites for mended in repair(site)]


def find(site: Site, pattern: str, *, batch: bool = False) -> list[Attempt]:
    """The attempts that a branch, a glob, an attempt's or a task's id, or a batch names. None is an error."""
    known = site.attempts()
    prefix = site.workspace.branch_prefix
    if batch:
        found = [one for one in known if one.batch and fnmatchcase(one.batch, pattern)]
        names = [one.batch for one in known if one.batch]
    else:
        found = [one for one in known if pattern in (one.branch, one.id, one.task) or one.branch == prefix + pattern]
        found = found or [one for one in known if fnmatchcase(one.branch or "", pattern)]
        names = [one.branch or "" for one in known]
    if not found:
        what = "no batch is called" if batch else "there is no agent on"
        raise NotFound(f"{what} {clean(pattern)}{nearest(pattern, names)}", hint="fleet list")
    return sorted(found, key=lambda one: one.created)


def find_one(site: Site, name: str) -> Attempt:
    found = find(site, name)
    if len(found) > 1:
        raise BadConfig(
            f"{clean(name)} names {len(found)} agents: {', '.join(one.branch or '' for one in found[:5])} …"
        )
    return found[0]


@dataclass(frozen=True, slots=True)
class Said:
    """What came of a prompt to one agent."""

    branch: str
    attempt: str
    taken: bool | None
    cause: str
    picture: str = ""
    kept: bool = False  # for its next turn


def say(site: Site, whom: str, text: str, *, batch: bool) -> list[Said]:
    """Say something to an agent, or to several at once: in their terminals, or at the next turn of a queued task's."""
    if not text.strip():
        raise BadConfig("the prompt is empty", hint='fleet prompt BRANCH "what to do"')
    try:
        attempts = find(site, whom, batch=batch)
    except NotFound:
        if batch:
            raise
        return [remark(site, whom, text)]
    with ThreadPoolExecutor(AT_ONCE) as hands:
        given: list[Delivery] = list(hands.map(lambda one: give(site, one, text), attempts))
    return [
        Said(one.branch or "", one.id, said.taken, said.cause, said.picture)
        for one, said in zip(attempts, given, strict=True)
    ]


def remark(site: Site, name: str, text: str) -> Said:
    """Say something to the agent of a queued task: it is told at its next turn, where its coder can be taken up again.

    It is written down first, and only then the ledger is asked whether anybody is left to hear it.
    """
    try:
        attempt = find_any(site, name)
    except NotFound as nobody:
        return _remark_early(site, name, text, nobody)
    house, who = site.house, f"{attempt.branch or attempt.task}"
    coder = house.find_coder(attempt.coder, house.runtime)
    if attempt.interactive:
        return Said(who, attempt.id, False, f"its agent has ended; begin another: fleet create {who}")
    if house.tracker.get(attempt.task).status is Status.CLOSED:
        return Said(who, attempt.id, False, f"its agent has ended; open the task again: fleet retry {attempt.task}")
    if attempt.verdict is None and not coder.can.resume:
        return Said(who, attempt.id, False, f"{attempt.coder} cannot be told anything while it works")
    number = remarks.add(house.home, attempt.task, text)
    now = house.ledger.get(attempt.id)
    if now.verdict is not None and attempt.verdict is None and number > now.remarks and now.ending is not Ending.TOLD:
        remarks.drop(house.home, attempt.task, number)
        return Said(who, attempt.id, False, f"its agent has just ended: {now.cause}")
    return Said(who, attempt.id, None, "it is told at its next turn", kept=True)


def _remark_early(site: Site, name: str, text: str, nobody: NotFound) -> Said:
    """Say something to the agent of a task that nobody has begun: it is told with its first prompt."""
    house = site.house
    try:
        task = house.tracker.get(name)
    except NotFound:
        raise nobody from None
    if task.status is Status.CLOSED:
        return Said(task.id, "", False, f"it is closed; open it again: fleet retry {task.id}")
    number = remarks.add(house.home, task.id, text)
    begun = house.ledger.of(task.id)
    if begun and not house.find_coder(begun[-1].coder, house.runtime).can.resume:
        remarks.drop(house.home, task.id, number)
        return Said(task.id, begun[-1].id, False, f"{begun[-1].coder} has just begun, and cannot be told anything now")
    return Said(task.id, "", None, "it is told when it begins", kept=True)


@dataclass(frozen=True, slots=True)
class NotEnded:
    branch: str
    attempt: str
    problem: FleetError


def kill(
    site: Site, attempts: Sequence[Attempt], *, ignored: bool, large: bool, done: Callable[[Ended | NotEnded], None]
) -> list[Ended | NotEnded]:
    """End several agents at once, whole; their places are saved, then removed."""

    def one(attempt: Attempt) -> Ended | NotEnded:
        ended: Ended | NotEnded
        try:
            ended = ending.end(site, attempt, ignored=ignored, large=large)
        except places.salvage.TooBig as problem:
            hint = f"commit or delete what is large there, or: fleet kill {attempt.branch} --large"
            ended = NotEnded(attempt.branch or "", attempt.id, FleetError(problem.message, hint=hint))
        except FleetError as problem:
            ended = NotEnded(attempt.branch or "", attempt.id, problem)
        done(ended)
        return ended

    with ThreadPoolExecutor(AT_ONCE) as hands:
        return list(hands.map(one, attempts))


def stop(attempt: Attempt) -> None:
    """End one agent wherever it is, and leave its place as it is."""
    ending.end(_site(_house(), _project(Path(attempt.repository))), attempt, keep=True)


@dataclass(frozen=True, slots=True)
class Shown:
    """The last lines of an agent, and whether more may come."""

    lines: list[str]
    goes_on: bool


def logs(site: Site, name: str, lines: int) -> Shown:
    """The last lines of an agent's terminal, as they are or as they were last; of a queued task, of its events."""
    attempt = find_any(site, name)
    directory = site.directory(attempt)
    if not attempt.interactive:
        kept = files.read_end(site.house.task_directory(attempt.task) / "events.jsonl", LONGEST_LOG) or b""
        said = [line for one in kept.decode(errors="replace").splitlines() for line in readable(one)]
        return Shown(said[-lines:], attempt.verdict is None)
    shown = site.server.picture(attempt.id, lines)
    if shown is None:
        shown = (files.read_end(directory / ending.SCREEN, LONGEST_LOG) or b"").decode(errors="replace")
    return Shown(squeezed(shown.rstrip("\n").splitlines())[-lines:], keeper.is_alive(directory))


def squeezed(lines: Sequence[str]) -> list[str]:
    """The same without all but the first of several empty lines: a terminal's screen has many."""
    return [line for n, line in enumerate(lines) if line.strip() or (n and lines[n - 1].strip())]


def readable(line: str) -> list[str]:
    """An event of a queued task as people read it; what is not one says nothing."""
    try:
        event = json.loads(line)
        at, kind = datetime.fromtimestamp(event["at"]), event["kind"]
    except (ValueError, KeyError, TypeError, OSError):
        return []
    said = " ".join(str(event[name]) for name in ("tool", "text", "ending", "cause") if event.get(name))
    return [f"{at:%H:%M:%S}  {kind}  {part}".rstrip() for part in (said.splitlines() or [""])]


def new_lines(before: Sequence[str], after: Sequence[str]) -> list[str]:
    """What a terminal shows now and did not before: where the end of the old picture stands in the new one, or all."""
    for kept in range(len(before), 0, -1):
        tail = list(before[-kept:])
        for start in range(len(after) - kept, -1, -1):
            if list(after[start : start + kept]) == tail:
                return list(after[start + kept :])
    return list(after)


def find_any(site: Site, name: str) -> Attempt:
    """The attempt of a branch, a task or an attempt's id: one that somebody talks to, or the newest that there was."""
    try:
        return find_one(site, name)
    except NotFound as nobody:
        ledger = site.house.ledger
        over = [one for one in ledger.last_of_each().values() if name in (one.task, one.id)]
        over = over or [
            one
            for one in ledger.last_of_each().values()
            if one.branch == name and one.repository == str(site.project.top)
        ]
        if not over:
            raise nobody
        return max(over, key=lambda one: one.created)


def attach(site: Site, name: str, *, shell: bool, follow: Callable[[Path, Callable[[], bool]], None]) -> None:
    """Become the agent's terminal, or a shell in its place; of a queued task, show its events as they come."""
    attempt = find_any(site, name)
    if shell:
        if not Path(attempt.cwd).is_dir():
            raise NotFound(f"the place of {name} is gone: {attempt.cwd}", hint="fleet salvage list")
        run.become([os.environ.get("SHELL") or "/bin/sh"], cwd=Path(attempt.cwd), env=dict(os.environ))
    if not attempt.interactive:
        events = site.house.task_directory(attempt.task) / "events.jsonl"
        follow(events, lambda: site.house.ledger.get(attempt.id).verdict is None)
        return
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise FleetError("a terminal is needed to attach to one", hint=f"fleet logs {name} -f")
    argv = site.server.attach_argv(attempt.id)
    if argv is None:
        raise NotFound(f"{name} has no terminal any more", hint=f"fleet logs {name}, or: fleet list --repair")
    run.become(argv, cwd=Path("/"), env=dict(os.environ))
