"""The tree that an attempt finds, and the one it leaves: taken by the supervisor, and kept in the user's repository."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from fleet import places
from fleet.core import FleetError, Unavailable, scope
from fleet.core.errors import is_passing
from fleet.core.globs import matching
from fleet.core.proof import Change, CheckSpec, Demands
from fleet.core.text import clean, sayable
from fleet.core.work import Attempt, PlaceKind, Verdict
from fleet.evidence import checks
from fleet.evidence.checkout import texts
from fleet.evidence.outcome import Began, outcome
from fleet.evidence.receipt import SHOWN, Result
from fleet.evidence.snapshot import Marks
from fleet.evidence.tree import FOUND, LANDING, LeftOut, Stand, look_into, point
from fleet.host import git, program, repository
from fleet.places import Ground, Place
from fleet.supervisor.place import place_of

LONGEST = 500
BINS = ("", "bin", ".bin")  # where what a check is lent keeps them
NAMED = 5  # paths in one sentence
TICK = 0.01  # seconds by which a file system's clock may be late


def place_now(attempt: Attempt) -> Place:
    """The place of an attempt, its own directory if it has no other."""
    return place_of(attempt) or Place(Path(attempt.cwd))


def found_by(attempt: Attempt, earlier: Sequence[Attempt]) -> Attempt:
    """The attempt with the tree that it finds; outside a repository there is none. One that could be taken before, and
    cannot be any more, is an earlier agent's doing: this one is told, may mend it, and is judged by the whole of it.
    Otherwise nothing can be verified here, and why is kept.
    """
    place, first = place_now(attempt), _first(attempt, earlier)
    ground = places.ground(place, first.stores if first else ())
    if ground is None:
        return attempt
    since, now = first.base_taken if first else None, repository.now()
    try:
        places.must_be_understood(ground.main)
        with look_into(ground.repository, ground.main / "objects") as trees:
            stand = trees.take(leave_out=ground.furnished, settings=ground.main, since=since)
            if not stand.is_committed:
                _keep(place, ground, trees.commit_of(stand, f"What {attempt.id} found"), f"{FOUND}{attempt.id}")
    except Unavailable:
        raise
    except FleetError as problem:
        if first is None:
            return replace(attempt, untaken=clean(problem.message, LONGEST))
        head = git.head(ground.repository).commit or first.began_at
        stand = Stand(head, first.base_tree or "", committed=None)
    base = first.base_tree if first else _still(attempt, earlier, stand) or stand.tree
    return _began(attempt, ground, stand.head, stand.tree, base=base, taken=since or now)


def found_as_made(attempt: Attempt) -> Attempt:
    """The same in a place that was made just now, and into which nothing was put: it need not be looked at."""
    ground = places.ground(place_now(attempt))
    head = git.head(ground.repository).commit if ground else None
    tree = repository.tree_of(ground.main, head) if ground and head else None
    if ground is None or tree is None:
        return found_by(attempt, ())
    return _began(attempt, ground, head, tree, base=tree)


def _began(
    attempt: Attempt, ground: Ground, head: str | None, tree: str, *, base: str | None, taken: float | None = None
) -> Attempt:
    return replace(
        attempt,
        began_at=head,
        began_tree=tree,
        base_tree=base,
        base_taken=taken or repository.now(),
        stores=ground.stores,
    )


def here_before(attempt: Attempt, earlier: Sequence[Attempt]) -> list[Attempt]:
    """The earlier attempts whose work an attempt finds: since the last one for which a place was made."""
    found: list[Attempt] = []
    for one in () if attempt.fresh else reversed(earlier):
        found.append(one)
        if one.fresh:
            break
    return found[::-1]


def _first(attempt: Attempt, earlier: Sequence[Attempt]) -> Attempt | None:
    """The first attempt in the same place that found a tree: what was done since is all one result. In a directory that
    people work in too, somebody may have done so since a person opened the task again.
    """
    found = None
    for one in reversed(here_before(attempt, earlier)):
        inplace = attempt.place is PlaceKind.INPLACE
        if one.cwd != attempt.cwd or (inplace and (one.forgiven or one.verdict is not Verdict.RETRY)):
            break
        found = one if one.base_tree else found
    return found


def _still(attempt: Attempt, earlier: Sequence[Attempt], stand: Stand) -> str | None:
    """The base of the attempts before a person opened the task again, as long as everything stands as the last of them
    left it: what was refused is no base, and what was done counts as done. What was accepted is a new one.
    """
    last = next((one for one in reversed(here_before(attempt, earlier)) if one.left_tree), None)
    if last is None or last.cwd != attempt.cwd or last.verdict is Verdict.ACCEPTED:
        return None
    return last.base_tree if (last.left_at, last.left_tree) == (stand.head, stand.tree) else None


def _keep(place: Place, ground: Ground, commit: str, ref: str) -> None:
    if ground.is_apart:
        places.bring(place, commit, ref)
    else:
        point(ground.main, ref, commit)


def left_by(attempt: Attempt, before: Marks | None, after: Marks | None, *, keep: bool = True) -> Result:
    """What an attempt that found a tree has left, with the commit that would land and what speaks against it. Of one
    that goes on, nothing is kept: no commit is made, and no ref.
    """
    began = Began(attempt.began_at, attempt.began_tree or "", attempt.base_tree or attempt.began_tree or "")
    try:
        return _left(attempt, began, before, after, keep=keep)
    except Unavailable:
        raise
    except FleetError as problem:
        said = problem.message
    except OSError as problem:
        if is_passing(problem):
            raise
        said = f"{problem.filename}: {problem.strerror}"
    return Result(began.head, None, [], [], None, None, base_tree=began.base, problem=clean(said, LONGEST))


def _left(attempt: Attempt, began: Began, before: Marks | None, after: Marks | None, *, keep: bool) -> Result:
    place = place_now(attempt)
    ground = places.ground(place, attempt.stores)
    if ground is None:
        raise FleetError("its repository cannot be read any more")
    with look_into(ground.repository, ground.main / "objects") as trees:
        stand = trees.take(leave_out=ground.furnished, base=began.head, settings=ground.main, since=attempt.base_taken)
        result, changes = outcome(trees, began, stand, before, after)
        left_out = [one for one in stand.left_out if one.at >= (attempt.started or attempt.created) - TICK]
        result = replace(result, left_out=[sayable(one.path) for one in left_out[:SHOWN]])
        if stand.tree == began.base and stand.head in (began.head, None):
            return replace(result, problem=filtered(left_out) if left_out else _elsewhere(place, stand))
        if stand.unmerged:
            return replace(result, problem=_not_merged(stand.unmerged))
        asked = demands_of(attempt)
        names = trees.names(began.base) if asked.checks else []
        if keep:
            landing = trees.commit_of(stand, f"What {attempt.id} left uncommitted")
            _keep(place, ground, landing, f"{LANDING}{attempt.id}")
            result = replace(result, landing=landing)
        at = Path(attempt.cwd).resolve()
        own = _own(ground, changes, asked, (began.base, stand.tree), names, at)
        return _judged(result, changes, asked, own)


def filtered(left_out: Sequence[LeftOut]) -> str:
    """Why nothing lands of files that only a filter could take in."""
    paths = ", ".join(one.path for one in left_out[:NAMED])
    more = f" and {len(left_out) - NAMED} more" if len(left_out) > NAMED else ""
    names = ", ".join(sorted({one.filter for one in left_out}))
    which = f"{paths}{more}: git passes such files through a filter ({names}), which fleet does not run"
    return clean(sayable(f"{which}; the agent has to commit them itself"), LONGEST)


def _not_merged(paths: Sequence[str]) -> str:
    more = f", and {len(paths) - 1} more" if len(paths) > 1 else ""
    return clean(sayable(f"{paths[0]} is not merged: both sides stand in it{more}"), LONGEST)


def _elsewhere(place: Place, stand: Stand) -> str | None:
    """Why nothing lands of work inside a repository of its own; in a directory of the user's it may be anybody's."""
    inside = places.repositories(place, stand.inside) if place.kind is not PlaceKind.INPLACE else ()
    if not inside:
        return None
    more = f" and {len(inside) - NAMED} more" if len(inside) > NAMED else ""
    where = f"it is inside a repository of its own: {', '.join(inside[:NAMED])}{more}"
    return clean(sayable(where), LONGEST)


def _own(
    ground: Ground, changes: Sequence[Change], asked: Demands, trees: tuple[str, str], names: Iterable[str], at: Path
) -> checks.Own:
    """Of these changes, from one tree to another, those of the checks' own files. The checks run in the directory."""
    commands = [one.run for one in asked.checks]
    if not commands:
        return checks.Own()
    needs = [need for one in asked.checks for need in one.needs]
    read, left = (partial(texts, ground.repository, ground.main / "objects", tree) for tree in trees)
    top = ground.repository.top.resolve()
    inner = at.relative_to(top).as_posix() if at.is_relative_to(top) else "."
    there = partial(program.opening, also=[ground.top / need / one for need in needs for one in BINS])
    installed = partial(program.modules, also=[ground.top / need for need in needs])
    at_top = "" if inner == "." else inner
    return checks.own_files(
        commands, changes, names, read, left, opening=there, installed=installed, needs=needs, at=at_top
    )


def _judged(result: Result, changes: Sequence[Change], asked: Demands, own: checks.Own) -> Result:
    """The result with what is outside its scope, and with the checks' own files that are put back for a second run."""
    unsayable = {path for path in own.put_back if sayable(path) != path}  # no receipt could name it for the second run
    breaches = scope.breaches(changes, asked.scope, check_files=own.forbidden | unsayable)
    return replace(
        result,
        breaches=[replace(one, path=sayable(one.path), reason=sayable(one.reason)) for one in breaches[:SHOWN]],
        check_files=[path for path in sorted(own.put_back - unsayable) if not matching(asked.scope.protected, path)],
    )


def demands_of(attempt: Attempt) -> Demands:
    """What is asked of the result of an attempt; an older fleet wrote down the task's own check alone."""
    asked = attempt.demands or Demands()
    check = attempt.spec.check if attempt.spec else None
    if asked.checks or check is None:
        return asked
    return replace(asked, checks=(CheckSpec(check),))
