"""Bring results onto the branch that they are meant for, and take the last landing back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from fleet import places
from fleet.app.landed import candidate_of, named_attempts, open_results, repository_of
from fleet.app.not_landed import merged_results, still_landed
from fleet.app.sites import open_house
from fleet.app.train import Report, Train, Way, keep_line
from fleet.core import BadConfig, FleetError, NotFound
from fleet.core.task import ACCEPTED_BY_PERSON, Status
from fleet.core.text import clean
from fleet.evidence.receipt import Process, Receipt, Result, load_receipt
from fleet.host import locks, repository
from fleet.host.repository.finish import LANDED_REFS, finish_move
from fleet.host.repository.move import CutOff, InTheWay, move_branch
from fleet.host.run import unwind_when_told
from fleet.landing.choose import PROVEN, Candidate, PutAside, check_standing, drop_without_foundations
from fleet.landing.record import Landing, Landings, LandingState
from fleet.supervisor.house import House

LOCK = "landing.lock"
LOCK_PATIENCE_S = 30.0


@dataclass(frozen=True, slots=True)
class Request:
    """What a person wants landed, and how."""

    names: tuple[str, ...] = ()
    batch: str | None = None
    proven: bool = False
    onto: str | None = None
    way: Way = field(default_factory=Way)


def merge(cwd: Path, request: Request, say: Callable[[str], None] = lambda line: None) -> list[Report]:
    """Land results; one report for each branch that is concerned, and one for what goes nowhere."""
    unwind_when_told()  # a check that runs ends with us, also when the terminal is closed
    house = open_house()
    with _alone(house.home):
        unfinished = finish_landings(house.home)
        chosen, aside = _choose(request, _wanted(house, cwd, request))
        groups: dict[tuple[Path, str], list[Candidate]] = {}
        for one in chosen:
            try:
                groups.setdefault(_where(house, one, request.onto), []).append(one)
            except BadConfig:
                raise
            except FleetError as problem:
                aside.append(PutAside(one.task, one.attempt, problem.message, problem.hint or ""))
        for common, _ in groups:
            if str(common) in unfinished:
                raise unfinished[str(common)]
        reports = [_run(house, request, common, branch, found, say) for (common, branch), found in groups.items()]
    return [*reports, *([Report("", request.onto or "", "", "", aside=tuple(aside))] if aside else [])]


def _run(
    house: House, request: Request, common: Path, branch: str, found: Sequence[Candidate], say: Callable[[str], None]
) -> Report:
    """Land results on one branch; what keeps that branch from moving is told of it, and keeps no other."""
    book = Landings(house.home)
    landed = {
        attempt
        for attempt, landing in still_landed(house.home).items()
        if (landing.repository, landing.branch) == (str(common), branch)
    }
    known = book.refused(common, branch) if request.proven else {}
    broke = [
        PutAside(one.task, one.attempt, f"tried before: {known[one.attempt]}", f"fleet retry {one.task}")
        for one in found
        if one.attempt in known
    ]
    fresh = [one for one in found if one.attempt not in known]
    left, aside = drop_without_foundations(fresh, landed | merged_results(common, branch))
    receipts = {one.task: _receipt(house, one.attempt) for one in left}
    try:
        report = Train(house, common, branch, receipts, request.way, say).run(left)
    except FleetError as problem:
        report = Report(str(common), branch, "", "", problem=problem.message, hint=problem.hint or "")
    if report.number is not None:
        _accept_landed(house, report)
    return replace(report, aside=(*broke, *aside, *report.aside))


def _accept_landed(house: House, report: Report) -> None:
    """A person who lands what is not proven accepts it, and its task is done."""
    for one in report.landed:
        if not one.note:
            continue
        house.ledger.note_accepted(one.attempt)
        if house.tracker.get(one.task).status is Status.BLOCKED:
            house.tracker.close(one.task, f"{ACCEPTED_BY_PERSON} it: landed on {report.branch}, {one.note}")


def _wanted(house: House, cwd: Path, request: Request) -> list[Candidate]:
    named = bool(request.names or request.batch)
    if named == request.proven:
        raise BadConfig(
            "--proven lands everything that is proven: name nothing beside it" if named else "what is to be landed?",
            hint="fleet merge t3 t4; or all that is proven: fleet merge --proven",
        )
    if request.proven:
        project = places.project(cwd)
        if project is None:
            raise NotFound(f"{clean(str(cwd))} is in no git repository", hint="go to the project: cd …")
        found = open_results(house, project)
        return [one for one in found if one.standing in PROVEN and not one.no_longer]
    return [candidate_of(house, one) for one in named_attempts(house, cwd, request.names, request.batch)]


def _choose(request: Request, wanted: Sequence[Candidate]) -> tuple[list[Candidate], list[PutAside]]:
    """The results that may be landed, and the others with the reasons."""
    twice = next((one for one in wanted if any(one.task == other.task and one != other for other in wanted)), None)
    if twice is not None:
        names = ", ".join(other.attempt for other in wanted if other.task == twice.task)
        raise BadConfig(f"{twice.task} is named more than once: {names}", hint="name one attempt of a task")
    problems = {one.attempt: check_standing(one, anyway=request.way.anyway) for one in wanted}
    chosen = [one for one in wanted if problems[one.attempt] is None]
    return chosen, [problem for problem in problems.values() if problem is not None]


def _where(house: House, one: Candidate, onto: str | None) -> tuple[Path, str]:
    """The repository and the branch that a result goes to."""
    project = repository_of(house.ledger.get(one.attempt))
    if project is None:
        raise FleetError(f"the repository of {one.task} is gone", hint=f"fleet show {one.task}")
    if (project.common / "shallow").exists():
        where = clean(str(project.top))
        raise FleetError(
            f"{where} is a shallow clone: its history is cut off", hint=f"git -C {where} fetch --unshallow"
        )
    branch = onto or one.onto or repository.branch_of(project.common)
    if not branch:
        raise FleetError(f"{clean(str(project.top))} has no branch checked out", hint="say where: --onto BRANCH")
    if onto is None and repository.ref(project.common, f"refs/heads/{branch}") is None:
        raise FleetError(f"the branch {clean(branch)}, for which it is meant, is gone", hint="say where: --onto BRANCH")
    return project.common, _checked_name(project.common, branch)


def _checked_name(common: Path, branch: str) -> str:
    """The name of a branch of the user's own; what names another kind of ref would make a branch that confuses git."""
    places.check_branch(branch)
    if branch.startswith("refs/") or repository.ref(common, f"refs/remotes/{branch}") is not None:
        short = branch.removeprefix("refs/heads/").partition("/")[2] if "/" in branch else branch
        raise BadConfig(f"{clean(branch)} is not the name of a branch here", hint=f"--onto {clean(short)}")
    return branch


def _receipt(house: House, attempt: str) -> Receipt:
    """The receipt of an attempt; an agent in a terminal that nobody has ended has none yet."""
    known = house.ledger.get(attempt)
    found = load_receipt(house.attempt_directory(known) / "receipt.json")
    return found or Receipt(known, Process("running"), Result(None, None, [], [], None, None))


@contextmanager
def _alone(home: Path) -> Iterator[None]:
    """One landing at a time in a home: two would check trees that the other is about to change."""
    lock = locks.take(home / LOCK, LOCK_PATIENCE_S)
    if lock is None:
        raise FleetError("results are being landed by somebody else now", hint="run it again when that has ended")
    try:
        with repository.under(lock):  # every git that we start has the lock, too: who gets it next is really alone
            yield
    finally:
        locks.release(lock)


def finish_landings(home: Path) -> dict[str, FleetError]:
    """Carry to its end what a killed `fleet merge` has left: the branch moves with all its files, or it never did. What
    keeps a landing from that, by its repository.
    """
    book, problems = Landings(home), dict[str, FleetError]()
    for one in book.all(LandingState.MOVING, LandingState.UNDOING):
        try:
            _finish(home, book, one)
        except FleetError as problem:
            names = ", ".join(result.task for result in one.results)
            said = f"a landing of {names} on {one.branch} was cut off, and cannot go on: {problem.message}"
            problems[one.repository] = FleetError(said, problem.hint)
    return problems


def _finish(home: Path, book: Landings, one: Landing) -> None:
    is_undone = one.state is LandingState.UNDOING
    old, new = (one.new, one.old) if is_undone else (one.old, one.new)
    done = finish_move(
        Path(one.repository), one.branch, old or None, new, since=one.at,
        why=f"fleet: landing {one.number}, cut off and finished", aside=home / "landings" / str(one.number),
        more=() if is_undone else [keep_line(one.new)],
    )  # fmt: skip
    if is_undone:
        book.settle(one.number, LandingState.UNDONE if done else LandingState.LANDED)
    else:
        book.settle(one.number, LandingState.LANDED if done else LandingState.NOT_MOVED)


def undo(cwd: Path, onto: str | None) -> Landing:
    """Take the last landing on a branch back, as long as it is the last thing on it and nothing stands on it."""
    house, project = open_house(), places.project(cwd)
    if project is None:
        raise NotFound(f"{clean(str(cwd))} is in no git repository", hint="go to the project: cd …")
    branch = onto or repository.branch_of(project.common)
    if not branch:
        raise FleetError(f"{clean(str(project.top))} has no branch checked out", hint="say where: --onto BRANCH")
    with _alone(house.home):
        unfinished = finish_landings(house.home)
        if str(project.common) in unfinished:
            raise unfinished[str(project.common)]
        book = Landings(house.home)
        here = [one for one in book.all(LandingState.LANDED) if Path(one.repository) == project.common]
        last = next((one for one in reversed(here) if one.branch == branch), None)
        if last is None:
            raise NotFound(f"fleet has landed nothing on {clean(branch)}", hint="fleet tasks --all")
        _must_be_last(project.common, last)
        book.settle(last.number, LandingState.UNDOING)
        try:
            move_branch(project.common, branch, last.new, last.old, why=f"fleet: took landing {last.number} back")
        except CutOff:
            raise
        except InTheWay as problem:
            book.settle(last.number, LandingState.LANDED)
            raise InTheWay(problem.message, hint="commit or move them away") from None
        except FleetError:
            book.settle(last.number, LandingState.LANDED)
            raise
        book.settle(last.number, LandingState.UNDONE)
    return replace(last, state=LandingState.UNDONE)


def _must_be_last(common: Path, last: Landing) -> None:
    by_hand = _revert_command(common, last)
    if repository.ref(common, f"refs/heads/{last.branch}") != last.new:
        raise FleetError(f"{last.branch} has moved on since that landing", hint=by_hand)
    if not last.old:
        raise FleetError(f"{last.branch} began with that landing", hint=f"git branch -D {last.branch}")
    done = repository.ask(common, "for-each-ref", "--format=%(refname)", f"--contains={last.new}")
    others = [
        name
        for name in done.out.decode(errors="replace").split()
        if name != f"refs/heads/{last.branch}" and not name.startswith(LANDED_REFS)
    ]
    if others:
        raise FleetError(_in_use(others[0]), hint=by_hand)


def _in_use(name: str) -> str:
    """Why a landing cannot be taken back, by the ref that has it, too."""
    kind, _, rest = clean(name).removeprefix("refs/").partition("/")
    if kind == "remotes":
        return f"what was landed was pushed: {rest} has it"
    if kind == "fleet":
        return f"{rest.rpartition('/')[2]} began from what was landed"
    return f"{rest} has what was landed, too"


def _revert_command(common: Path, last: Landing) -> str:
    """How a person takes a landing back that has more on top of it: every commit that it put onto the branch."""
    span = f"{last.old}..{last.new}" if last.old else last.new
    done = repository.ask(common, "rev-list", "--first-parent", "--parents", span)
    commits = [line.split() for line in done.out.decode(errors="replace").splitlines()]
    merges = any(len(one) > 2 for one in commits)
    names = " ".join(one[0][:12] for one in commits)
    return f"git revert {'-m 1 ' if merges else ''}{names}"
