"""Begin attempts that people talk to: a task, a place, a terminal, and the first prompt, proven to be taken."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from threading import BoundedSemaphore, Lock
from uuid import uuid4

from fleet import keeper, places, tracker
from fleet.batches.prompt import give
from fleet.batches.site import BEING_MADE, Site, place_of
from fleet.batches.together import AT_ONCE, once, together
from fleet.batches.wanted import Wanted, must_differ
from fleet.coders import Job, talker_of, teller
from fleet.coders.base import checked
from fleet.config.demands import Find, trusted_yaml
from fleet.config.limits import Origin, project_limits, resolve_limits
from fleet.config.local import noted
from fleet.core import BadConfig, FleetError, ToolMissing, Unavailable
from fleet.core.errors import of_system
from fleet.core.frozen import dataclass
from fleet.core.talk import Delivery
from fleet.core.task import NewTask, Spec, task_id
from fleet.core.text import clean
from fleet.core.work import FOREVER, Attempt, PlaceKind, StandsOn
from fleet.host import files, locks, machine, program, repository
from fleet.host.run import stopping, unwind_when_told
from fleet.sessions import session_name, unfit
from fleet.supervisor.bases import NO_BRANCH, on_results, tip_of
from fleet.supervisor.before import note_before
from fleet.supervisor.choice import LOCK
from fleet.supervisor.demands import demands
from fleet.supervisor.environment import agent_environment, marks, told
from fleet.supervisor.fence import fence, first_of_all
from fleet.supervisor.heard import SIGNALS
from fleet.supervisor.house import House
from fleet.supervisor.identity import git_identity
from fleet.supervisor.login import KEY_VARIABLE, Passed, passed_on
from fleet.supervisor.place import furnished
from fleet.tracker.base import is_done

TITLE = 100
KEEPER_WITHIN = 30.0
BEGINNING, BEGINS_WITHIN = "beginning.lock", 60.0
TICK = 0.01
COMING_UP = 20  # agents that are made or come to their prompt at once; those are waited for, which costs little
_making = BoundedSemaphore(AT_ONCE)
_turn = Lock()  # of ourselves: who waits for the file's lock looks for it again and again
HARD = 3.0  # seconds that an agent in a terminal gets to end before it is killed

Hear = Callable[[str, str], None]  # branch, what happens


@dataclass(frozen=True, slots=True)
class Made:
    """What came of one that was wanted: it is there, and its prompt was taken or not; or why it could not be made."""

    branch: str
    attempt: Attempt | None = None
    delivery: Delivery | None = None
    problem: FleetError | None = None
    warnings: tuple[str, ...] = field(default=())
    login: Passed = Passed()  # of the first with each coder

    @property
    def good(self) -> bool:
        return self.problem is None and (self.delivery is None or self.delivery.taken is not False)


@dataclass(frozen=True, slots=True)
class Known:
    """What is the same for all that begin from one commit: its tree, and the fleet.yaml that it has."""

    tree: Callable[[str], str | None]
    yaml: Find


def create(site: Site, wanted: Sequence[Wanted], hear: Hear, done: Callable[[Made], None]) -> list[Made]:
    """Make them all, several at once. What can be known beforehand is looked at first, so that a mistake makes none."""
    unwind_when_told()
    site.server.seen()  # a tmux that is missing, or refuses, is said before anything is made
    ready = [_checked(site, one) for one in wanted]
    must_differ(ready)
    known = Known(once(partial(repository.tree_of, site.project.common)), once(trusted_yaml))
    made = together(partial(_one, site, known, hear=hear), ready, done, COMING_UP)
    firsts = {one.coder: n for n, one in reversed(list(enumerate(ready)))}
    return [_with_login(site, each) if n in firsts.values() else each for n, each in enumerate(made)]


def _with_login(site: Site, made: Made) -> Made:
    return made if made.attempt is None else replace(made, login=_passed_on(site.house, made.attempt))


def _checked(site: Site, wanted: Wanted) -> Wanted:
    """The same, with what is inherited, if it can be made at all."""
    prefix = site.workspace.branch_prefix
    named = wanted.branch if wanted.branch.startswith(prefix) else prefix + wanted.branch
    one = replace(wanted, branch=places.check_branch(named))
    _must_be_free(site, one.branch)
    if site.workspace.place is not PlaceKind.CLONE:
        places.must_be_free(site.project, one.branch, places.path_for(site.root, one.branch))
    _must_be_possible(site, one)
    coder = talker_of(site.house.find_coder(one.coder, site.house.runtime))
    if machine.program(coder.program) is None:
        raise ToolMissing(f"{coder.program} is not installed, or not on your PATH", hint="fleet coders list")
    checked(Job(one.prompt, site.project.top, one.model))
    problem = unfit(one.prompt) if one.prompt else None
    if problem is not None:
        raise BadConfig(problem)
    return one


def _must_be_free(site: Site, branch: str) -> None:
    for other in site.attempts():
        if other.branch == branch:
            directory = site.directory(other)
            if keeper.Hold(directory).exit is not None:
                has, hint = "the place of an agent that ended", f"fleet kill {branch}"
            elif keeper.is_alive(directory) or locks.held(directory / BEING_MADE):
                has, hint = "an agent already", f"fleet attach {branch}"
            else:
                has, hint = "what is left of an agent whose making was cut off", "fleet list --repair"
            raise BadConfig(f"{branch} has {has} ({other.id})", hint=hint)


def _must_be_possible(site: Site, wanted: Wanted) -> None:
    """Refuse a base that cannot be made: of what is not done, of a branch that is not there, or for one that is."""
    if wanted.onto:
        tip_of(site.project, wanted.onto)
    for name in wanted.after:
        if not is_done(site.house.tracker.get(task_id(name))):
            raise FleetError(f"{name} is not done, so nothing can begin with its result", hint=f"fleet show {name}")
    if wanted.after and repository.ref(site.project.common, f"refs/heads/{wanted.branch}") is not None:
        has = f"there is a branch {clean(wanted.branch)} already, which is used as it is"
        raise BadConfig(f"{has}: it cannot begin with the result of {', '.join(wanted.after)}", hint="choose another")


def _one(site: Site, known: Known, wanted: Wanted, hear: Hear) -> Made:
    """One of them, made and then given its prompt; while its agent comes up, others are made."""
    with _making:
        made = _made(site, known, wanted, hear)
    if made.attempt is None or not wanted.prompt:
        return made
    return replace(made, delivery=give(site, made.attempt, wanted.prompt))


def _made(site: Site, known: Known, wanted: Wanted, hear: Hear) -> Made:
    lock: list[int] = []
    saved: list[str] = []
    attempt = None
    try:
        attempt = _begin(site, wanted, lock)
        attempt = _placed(site, known, wanted, attempt, saved.append)
        attempt, warnings = _furnished(site, known, wanted, attempt, hear)
        if stopping.is_set():
            raise FleetError("you stopped it")
        attempt = _started(site, attempt)
    except (FleetError, OSError) as problem:
        said = problem if isinstance(problem, FleetError) else of_system(problem)
        _let_go(lock)
        if attempt is not None:
            _undone(site, attempt, said)
        return Made(wanted.branch, problem=said, warnings=tuple(saved))
    _let_go(lock)
    hear(wanted.branch, "started")
    return Made(wanted.branch, attempt, warnings=(*saved, *warnings))


def _let_go(lock: list[int]) -> None:
    while lock:
        locks.release(lock.pop())


def _undone(site: Site, attempt: Attempt, problem: FleetError) -> None:
    from fleet.batches.end import end  # half of all that would be loaded, and what nobody pays for whose agents begin

    with suppress(FleetError, OSError):  # what is in the way now is left to `fleet list --repair`
        end(site, attempt, f"it could not be made: {problem.message}")


def _begin(site: Site, wanted: Wanted, lock: list[int]) -> Attempt:
    """Write down what is going to be, before anything of it is there: what a crash leaves is found by that."""
    house = site.house
    kind = PlaceKind.WORKTREE if site.workspace.place is PlaceKind.INPLACE else site.workspace.place
    spec = Spec(str(site.project.top), wanted.coder, wanted.model, interactive=True, place=kind.value)
    made = Attempt(
        id="", task="", number=1, coder=wanted.coder, model=wanted.model,
        cwd=str(places.path_for(site.root, wanted.branch)), actor=house.actor, created=house.now(), own_coder=True,
        own_model=wanted.model is not None, branch=wanted.branch, place=kind, repository=str(site.project.top),
        interactive=True, batch=wanted.batch, spec=spec, nonce=str(uuid4()),
    )  # fmt: skip

    def record(task: str) -> None:
        tracker.spec.write(house.home, task, spec)
        taken = locks.take(files.private_dir(site.directory(replace(made, task=task))) / BEING_MADE)
        assert taken is not None, "nobody else knows of this task yet"
        lock.append(taken)

    with _in_turn(site):
        _must_be_free(site, wanted.branch)
        task = house.tracker.add(NewTask(_title(wanted), wanted.prompt, after=wanted.after), record)
        house.tracker.claim(task.id, house.actor)
        return house.ledger.begin(replace(made, task=task.id))


@contextmanager
def _in_turn(site: Site) -> Iterator[None]:
    """One after the other: of several that want the same branch at once, one gets it."""
    with _turn:
        lock = locks.take(site.house.home / BEGINNING, BEGINS_WITHIN)
        if lock is None:
            raise Unavailable("others begin agents here, and have not come to an end", hint="fleet list")
        try:
            yield
        finally:
            locks.release(lock)


def _title(wanted: Wanted) -> str:
    first = next((line.strip() for line in wanted.prompt.splitlines() if line.strip()), "")
    return clean(first, TITLE) or f"work on {wanted.branch}"


def _based(site: Site, wanted: Wanted, attempt: Attempt) -> Attempt:
    """The attempt with the branch it is meant for, and with a base where one is to be made of that and of results."""
    here = places.prepare(site.project.top)
    onto = wanted.onto or here.branch or ""
    if not wanted.after and (wanted.base or not wanted.onto):
        return replace(attempt, onto=onto)
    if wanted.base:
        tip = StandsOn(wanted.base, places.commit(site.project, wanted.base))
    else:
        tip = tip_of(site.project, onto) if onto else StandsOn(NO_BRANCH, here.base or "")
    task = site.house.tracker.get(attempt.task)
    return replace(on_results(site.house, attempt, task, site.project, tip), onto=onto)


def _placed(site: Site, known: Known, wanted: Wanted, attempt: Attempt, tell: Callable[[str], None]) -> Attempt:
    """The attempt in its place. What stands in one that was just made is what its commit has."""
    is_new = not os.path.lexists(attempt.cwd)
    attempt = _based(site, wanted, attempt)
    base = attempt.base or wanted.base
    place = places.make(attempt.place, site.project, wanted.branch, base, Path(attempt.cwd), tell)
    began_at = places.prepare(place.path).base
    tree = known.tree(began_at) if is_new and began_at else None
    found = replace(attempt, began_at=began_at, began_tree=tree, base_tree=tree, base_taken=site.house.now())
    placed = replace(found, base=place.base, cwd=str(place.path))
    site.house.ledger.save(placed)
    return placed


def _furnished(
    site: Site, known: Known, wanted: Wanted, attempt: Attempt, hear: Hear
) -> tuple[Attempt, tuple[str, ...]]:
    """The attempt with what its project gives it, and asks of it; what stands in its place then is noted."""
    house, place = site.house, place_of(attempt)
    files.private_dir(house.artifacts(attempt.task))
    found = furnished(
        house, attempt, place, site.workspace, quick=wanted.quick, hear=lambda line: hear(wanted.branch, line)
    )
    if attempt.began_tree is None or found.files or found.commands:
        from fleet.supervisor.trees import found_by  # what nobody pays for whose place is just what its commit has

        attempt = found_by(replace(attempt, began_tree=None, base_tree=None), ())
    began = replace(note_before(house, attempt), variables=dict(found.env))
    return _asked(site, known, began), found.warnings


def _asked(site: Site, known: Known, attempt: Attempt) -> Attempt:
    """The attempt with what is asked of its result, by the commit that its work is compared with."""
    spec = attempt.spec or Spec(attempt.repository)
    return replace(
        attempt,
        demands=demands(site.house, (), spec, attempt.base, known.yaml),
        local=noted(Path(spec.cwd), attempt.base, known.yaml),
    )


def _started(site: Site, attempt: Attempt) -> Attempt:
    """The agent in a terminal of its own, under a keeper."""
    house, directory = site.house, site.directory(attempt)
    resolved = resolve_limits(Spec(attempt.cwd), project_limits(site.project.top), house.runtime)
    limits = resolved.limits
    if resolved.origins["timeout"] is Origin.DEFAULT:
        limits = replace(limits, timeout=FOREVER)  # the default is for agents that nobody watches
    coder = talker_of(house.find_coder(attempt.coder, house.runtime))
    declared = house.runtime.coders.get(attempt.coder)
    flags = site.workspace.flags.get(attempt.coder)
    args = flags if flags is not None else tuple(declared.args) if declared else ()
    passed = _passed_on(house, attempt)
    job = Job("", Path(attempt.cwd), attempt.model, args=args, key_from=KEY_VARIABLE if passed.asked_about else "")
    command = coder.converse(job, teller(directory / SIGNALS))
    chosen = (dict(declared.env) if declared else {}) | attempt.variables
    given = git_identity(Path(attempt.cwd)) | dict(command.env) | chosen
    env = agent_environment(house.environment, passed.names, given, told(house, attempt))
    env = first_of_all(house, {KEY_VARIABLE if name == passed.asked_about else name: env[name] for name in env})
    begun = keeper.Start(
        argv=command.argv,
        env={name: value for name, value in env.items() if name in given or name not in ("TERM", "NO_COLOR")},
        cwd=Path(attempt.cwd), stdin="", timeout=limits.timeout, output=limits.output, dead_man=float("inf"),
        supervisor_lock=house.home / LOCK, interrupt=0.0, terminate=HARD,
        fence=fence(house, attempt, given, marks(house, attempt)),
    )  # fmt: skip
    origins = {name: origin.value for name, origin in resolved.origins.items()}
    found = program.find(coder.program, begun.env, begun.cwd)
    ran = program.identify(house.home, found, ask=False) if found else None
    attempt = replace(attempt, limits=limits, origins=origins, program=ran)
    house.ledger.save(attempt)  # before anything runs: whoever finds it running keeps it to them
    terminal = session_name(site.workspace.tmux_prefix, attempt.branch or "")
    argv = keeper.in_terminal(directory, begun)
    terminal = site.server.open(terminal, attempt.id, Path(attempt.cwd), argv, is_first=True).name
    _meet_keeper(site, attempt)
    started = replace(attempt, started=house.now(), terminal=terminal)
    house.ledger.save(started)
    house.log.say("agent started", task=attempt.task, attempt=attempt.id, coder=attempt.coder, terminal=terminal)
    return started


def _passed_on(house: House, attempt: Attempt) -> Passed:
    declared = house.runtime.coders.get(attempt.coder)
    given = (dict(declared.env) if declared else {}) | attempt.variables
    return passed_on(attempt.coder, declared, house.environment, given)


def _meet_keeper(site: Site, attempt: Attempt) -> None:
    """Wait until the keeper is there: tmux starts it, and says nothing of how that went."""
    deadline = time.monotonic() + KEEPER_WITHIN
    while (hold := keeper.adopt(site.directory(attempt))) is None:
        if time.monotonic() > deadline:
            shown = clean((site.server.picture(attempt.id) or "it shows nothing").strip(), 500)
            raise FleetError(f"no keeper came up in the terminal of {attempt.branch} in {KEEPER_WITHIN:.0f} s: {shown}")
        time.sleep(TICK)
    hold.close()
