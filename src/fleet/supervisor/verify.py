"""Step three, after what was found: the checks are run anew, on a clean checkout of what would land."""

from __future__ import annotations

import hashlib
import shlex
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath
from signal import SIGKILL
from tempfile import TemporaryDirectory

from fleet import keeper, places
from fleet.core import FleetError, Unavailable
from fleet.core.proof import CheckSpec
from fleet.core.text import clean
from fleet.core.work import Attempt, PlaceKind
from fleet.evidence import checkout
from fleet.evidence.check_runs import CheckRuns, run_key
from fleet.evidence.checks import counts, is_cut_short, is_nothing_passed, run_outside
from fleet.evidence.failures import first_failure, last_lines, last_words
from fleet.evidence.lent import leads_into, times
from fleet.evidence.receipt import Check, Receipt, Result, load_receipt, save
from fleet.host import files, git, repository
from fleet.keeper import Cause
from fleet.places import Ground, Place
from fleet.supervisor.aside import aside, at_leisure
from fleet.supervisor.choice import LOCK
from fleet.supervisor.environment import agent_environment, marks
from fleet.supervisor.fence import check_fence
from fleet.supervisor.house import House
from fleet.supervisor.place import place_of
from fleet.supervisor.start import limited
from fleet.supervisor.trees import demands_of

SHELL = ("/bin/sh", "-c")
ORPHAN_S = 5.0  # for which a check goes on that nobody wants
CHECK_OUTPUT = 16 * 1024 * 1024
READ_BYTES = 256 * 1024  # of the end of each stream of a check, to find what failed
MAX_FAILURE_CHARS = 400
MAX_TAIL_LINES, MAX_TAIL_CHARS = 40, 8000  # of what a check printed, in its receipt
CUT_SHORT = "exit 0, and its runner did not say how many tests passed"
NOTHING_PASSED = "exit 0, and no test passed: all that ran were skipped"
NAMED, LONGEST = 3, 400  # files that one sentence names, and its signs
TRIES = 3
STREAMS = ("stdout", "stderr")
TICK, TICKS = 0.05, 400  # seconds, and how many of them a keeper gets to end its check
# What a user's own settings could make of a check is no part of it: an agent can write those files, too.
ALONE = {"PYTHONNOUSERSITE": "1", "PIP_CONFIG_FILE": "/dev/null", "NPM_CONFIG_USERCONFIG": "/dev/null"}
CLEAN, AS_THEY_WERE, IN_PLACE = (
    "a clean checkout of what it left", "the same, with the checks' own files as they were", "the place itself",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Run:
    """One check that is to be run, in which way, and the number that its first try has among all of them."""

    spec: CheckSpec
    where: str
    number: int


@dataclass(frozen=True, slots=True)
class Room:
    """Where a check runs, and what of it the agent could have written to."""

    top: Path
    cwd: Path
    lent: str = ""
    lenders: tuple[Path, ...] = ()
    leads: str = ""  # what it was lent leads to the user's own files


async def check(house: House, attempt: Attempt, keep: Callable[[Attempt], None]) -> list[Check]:
    """Run the checks, each under a keeper of its own, once the agent says that it is done; up to the first that fails.

    What an earlier supervisor began is found again by its number: so each is run once, unless it was cut off.
    """
    if not demands_of(attempt).checks:
        return []
    receipt = await aside(load_receipt, house.attempt_directory(attempt) / "receipt.json")
    done: list[Check] = []
    for run in planned(attempt, receipt):
        assert receipt is not None
        found, attempt = await run_check(house, attempt, receipt.result, run, keep)
        await aside(_keep_run, house, attempt, receipt.result, run, found)
        done.append(found)
        if not found.passed:
            break
    return done


def _keep_run(house: House, attempt: Attempt, result: Result, run: Run, found: Check) -> None:
    """Keep what a check said of a tree: the next task may begin from it."""
    if found.passed and not found.leads and run.where == CLEAN and result.tree is not None:
        ground, inner = where_of(attempt)
        CheckRuns(house.home).keep(key_of(house, ground, inner, result.tree, run.spec), found)


def key_of(house: House, ground: Ground, inner: PurePosixPath, tree: str, spec: CheckSpec) -> str:
    """What the run of a check on a tree is known by."""
    path, fence = house.environment.get("PATH", ""), str(house.runtime.fence)
    return run_key(tree, str(inner), spec, times(ground.top, spec.needs), path, fence)


def check_again(house: House, receipt: Receipt) -> list[Check]:
    """The checks run anew as they were, beside everything that the attempt left, and with nobody to take them over."""
    import asyncio

    with TemporaryDirectory(prefix="fleet-verify-", ignore_cleanup_errors=True) as made:
        apart = replace(house, home=Path(made), also_hidden=(house.home,))
        attempt = replace(receipt.attempt, checks=0)
        save(apart.attempt_directory(attempt) / "receipt.json", replace(receipt, checks=[]))
        try:
            return asyncio.run(check(apart, attempt, lambda known: None))
        except BaseException:  # whoever asked does not want to know any more, and what runs is nobody's then
            end_checks(apart, attempt)
            raise


def end_checks(house: House, attempt: Attempt) -> None:
    """End the checks of an attempt, and wait until they are gone."""
    _sweep(house, attempt)
    for directory in house.attempt_directory(attempt).glob("check*"):
        for _ in range(TICKS):
            if not keeper.abort(directory):
                break
            time.sleep(TICK)


def planned(attempt: Attempt, receipt: Receipt | None) -> list[Run]:
    """What is to be run: nothing for an attempt that is refused without."""
    if receipt is None or not (attempt.interactive or _came_to_its_end(attempt, receipt)):
        return []
    result = receipt.result
    if result.effect is False or result.breaches or result.problem:
        return []
    ways = [IN_PLACE] if result.tree is None else [CLEAN, *([AS_THEY_WERE] if result.check_files else [])]
    runs = [(spec, where) for where in ways for spec in demands_of(attempt).checks]
    return [Run(spec, where, 1 + TRIES * n) for n, (spec, where) in enumerate(runs)]


def _came_to_its_end(attempt: Attempt, receipt: Receipt) -> bool:
    """Whether the agent says that it is done. Of one in a terminal it is a person who says so."""
    return receipt.process.cause == Cause.EXITED and receipt.process.code == 0 and attempt.error is None


async def run_check(
    house: House, attempt: Attempt, result: Result, run: Run, keep: Callable[[Attempt], None]
) -> tuple[Check, Attempt]:
    """What one check says; and the attempt, which knows that it was begun before it was."""
    said = Check(
        run.spec.run, False, "it was cut off, and says nothing", None, None, "", lost=True, name=run.spec.name,
        source=run.spec.source, where=run.where, argv=[*SHELL, run.spec.run],
    )  # fmt: skip
    for number in range(run.number, run.number + TRIES):
        directory = house.attempt_directory(attempt) / ("check" if number == 1 else f"check.{number}")
        at = house.home / checkout.CHECKOUTS / f"{attempt.id}-{number}"
        compiled = at.with_name(f"{at.name}.pyc")  # beside it: what stands in a tree compiled is not believed
        if attempt.checks < number:  # not begun by an earlier supervisor, so what stands there is not ours
            await aside(files.fresh_dir, directory)
        try:
            room = await at_leisure(partial(make_room, attempt, result, run, at, directory))
        except Unavailable:
            raise
        except FleetError as problem:
            await at_leisure(partial(_remove, house, attempt, at))
            return replace(said, cause=clean(problem.message, 500), lost=False), attempt
        if attempt.checks < number:
            attempt = replace(attempt, checks=number)
            await aside(keep, attempt)
        await aside(files.private_dir, compiled)
        seen = await _run(house, attempt, run.spec, room, directory, compiled)
        await at_leisure(partial(_remove, house, attempt, at, compiled))
        if seen is not None and not _is_cut_off(seen, is_last=number == run.number + TRIES - 1):
            heard = await aside(_heard, said, room, seen, directory)
            way_out = _way_out(heard, result.check_files)
            failure = heard.failure + way_out if heard.failure else ""
            return replace(heard, cause=heard.cause + way_out, failure=failure), attempt
        await aside(_sweep, house, attempt)
    return said, attempt


def _is_cut_off(seen: keeper.Exit, *, is_last: bool) -> bool:
    """Whether somebody else ended a check, so that it says nothing: its keeper was told to, or the machine ran out. One
    that is killed to the last is killed by what it runs.
    """
    return seen.cause in (Cause.CANCELLED, Cause.ABANDONED) or (seen.signal == SIGKILL and not is_last)


def _remove(house: House, attempt: Attempt, *made: Path) -> None:
    """Remove what was made for a check; what may not be, because of whom a check has called, is not its fault."""
    for one in made:
        try:
            repository.remove_tree(one)
        except FleetError as problem:
            facts = {"attempt": attempt.id, "text": problem.message}
            house.log.say("checkout not removed", task=attempt.task, level="warning", **facts)


def _sweep(house: House, attempt: Attempt) -> None:
    """End what outlived the keeper of a check: by its fence, or by its own mark where there is none."""
    keeper.sweep(marks(house, attempt))
    keeper.sweep(_marks(house, attempt))


def make_room(attempt: Attempt, result: Result, run: Run, at: Path, directory: Path) -> Room:
    """Where a check is to be run: made for it, unless it runs already."""
    if result.tree is None:
        return Room(Path(attempt.cwd), Path(attempt.cwd))
    ground, inner = where_of(attempt)
    lenders: list[Path] = []
    if keeper.adopt(directory) is None:
        back = result.check_files if run.where == AS_THEY_WERE else ()
        unended = attempt.interactive and attempt.verdict is None  # what a clone has is nowhere else yet
        objects = ground.repository.common if unended else ground.main
        checkout.check_out(objects, result.tree, at, base=result.base_tree, put_back=back)
        _must_run_inside(run.spec.run, at, ground)
        checkout.inner(at, inner)
        lenders = checkout.lend(at, ground.top, run.spec.needs)
    return Room(at, at / inner, _lent(ground, run.spec), tuple(lenders), leads_into(ground.top, run.spec.needs))


def _must_run_inside(command: str, at: Path, ground: Ground) -> None:
    tops = {str(top) for tree in (ground.top, ground.repository.top) for top in (tree, tree.resolve())}
    found = run_outside(command, sorted(tops), lambda path: (at / path).is_file())
    if found is not None:
        raise FleetError(f"it names {clean(found)}, which is not what would land: a check names files as ./FILE")


def where_of(attempt: Attempt) -> tuple[Ground, PurePosixPath]:
    """Which repository has what an attempt left, and the directory of it that it worked in."""
    place, cwd = place_of(attempt), Path(attempt.cwd)
    if place is None and attempt.place is not PlaceKind.INPLACE:
        return _of_removed(attempt)
    ground = places.ground(place or Place(cwd))
    if ground is None:
        raise FleetError(f"there is no repository any more: {clean(attempt.cwd)}")
    inner = cwd.relative_to(place.path) if place else cwd.resolve().relative_to(ground.repository.top.resolve())
    return ground, PurePosixPath(inner)


def _of_removed(attempt: Attempt) -> tuple[Ground, PurePosixPath]:
    """The same for a place that was removed: the repository that it was made from has the tree, and its directory there
    is the task's own.
    """
    cwd, asked = Path(attempt.cwd), Path(attempt.spec.cwd if attempt.spec else attempt.repository).resolve()
    main = Path(attempt.repository) if attempt.repository else None
    ground = places.ground(Place(cwd, kind=attempt.place, repository=main)) if main else None
    found = git.find(asked)
    inner = asked.relative_to(found.top) if found else None
    if ground is None or inner is None or cwd.parts[len(cwd.parts) - len(inner.parts) :] != inner.parts:
        raise FleetError(f"the place is gone, and so is where it was made from: {clean(attempt.repository)}")
    return ground, PurePosixPath(inner)


def _lent(ground: Ground, spec: CheckSpec) -> str:
    """What a check was lent out of a tree that the agent could write to is not as good as the rest."""
    if not spec.needs or ground.top.resolve() != ground.repository.top.resolve():
        return ""
    return f"; {', '.join(spec.needs)} lent from the place itself"


def _marks(house: House, attempt: Attempt) -> dict[str, str]:
    """What a check's processes have in their environment. It is a number like any service's: what is checked need not
    know by whom.
    """
    return {"INVOCATION_ID": keeper.label(marks(house, attempt)).rpartition("-")[2]}


async def _run(
    house: House, attempt: Attempt, spec: CheckSpec, room: Room, directory: Path, compiled: Path
) -> keeper.Exit | None:
    """Nothing of what the agent was told, or has left outside the tree, is there for a check."""
    alone = ALONE | {"PYTHONPYCACHEPREFIX": str(compiled)} | _marks(house, attempt)
    start = keeper.Start(
        argv=limited(house, attempt, (*SHELL, spec.run)),
        env=agent_environment(house.environment, (), {}, alone),
        cwd=room.cwd,
        stdin="",
        timeout=spec.timeout,
        output=CHECK_OUTPUT,
        dead_man=spec.timeout if house.lock is None else ORPHAN_S,
        supervisor_lock=house.lock or house.home / LOCK,
        fence=check_fence(house, attempt, (room.top, compiled), room.lenders, marks(house, attempt)),
    )
    hold = await aside(keeper.hold, directory, start)
    try:
        while await hold.changed():
            pass
    finally:
        hold.close()
    return hold.exit


def _heard(said: Check, room: Room, seen: keeper.Exit, directory: Path) -> Check:
    """What a check that came to its end says."""
    digest, streams = hashlib.sha256(), []
    for name in STREAMS:
        for piece in files.pieces(directory / name):
            digest.update(piece)
        streams.append((files.read_end(directory / name, READ_BYTES) or b"").decode(errors="replace"))
    text = "".join(streams)
    passed, cause = seen.cause == Cause.EXITED and seen.code == 0, seen.error or seen.cause.value
    empty = _empty(said.command, text) if passed else ""
    return replace(
        said,
        passed=passed and not empty,
        cause=empty or (_exit(seen) if seen.cause == Cause.EXITED else cause),
        failure="" if passed else _failure(seen, streams),
        code=seen.code,
        seconds=seen.wall,
        tail=last_lines(streams, MAX_TAIL_LINES)[-MAX_TAIL_CHARS:],
        lost=False,
        sha256=digest.hexdigest(),
        counts=counts(text),
        where=f"{said.where}{room.lent}",
        network=None if seen.fenced is None else not seen.fenced,
        leads=room.leads,
    )


def _failure(seen: keeper.Exit, streams: Sequence[str]) -> str:
    """What failed, in one line: the first failing test, or how the check ended and the last that it printed."""
    found = first_failure("\n".join(streams))
    if found is not None:
        return clean(str(found), MAX_FAILURE_CHARS)
    words = next(filter(None, map(last_words, reversed(streams))), "")
    return clean(f"{_exit(seen)}: {words}", MAX_FAILURE_CHARS) if words and seen.cause == Cause.EXITED else ""


def _empty(command: str, output: str) -> str:
    """Why an exit of 0 says nothing; empty when it does."""
    if is_cut_short(command, output):
        return CUT_SHORT
    return NOTHING_PASSED if is_nothing_passed(output) else ""


def _way_out(check: Check, put_back: Sequence[str]) -> str:
    """What a check was run with as it was before, and failed; and what to do if it was to be changed."""
    if check.passed or AS_THEY_WERE not in check.where:
        return ""
    more = f" and {len(put_back) - NAMED} more" if len(put_back) > NAMED else ""
    allowed = " ".join(f"--allow-protected {shlex.quote(path)}" for path in put_back[:NAMED])
    return clean(f" ({', '.join(put_back[:NAMED])}{more}; if the change is wanted: {allowed})", LONGEST)


def _exit(seen: keeper.Exit) -> str:
    return f"exit {seen.code}" if seen.signal is None else f"ended by signal {seen.signal}"


def clear(house: House, running: Collection[str]) -> None:
    """Remove the checkouts that a supervisor left which was killed."""
    for left in checkout.leftovers(house.home, running):
        with suppress(FleetError):
            repository.remove_tree(left)
