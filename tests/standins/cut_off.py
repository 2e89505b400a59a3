"""Makes and ends places, and is killed before the n-th thing that it does to the disk; what is left must be mended.

Run as a program: cut_off.py REPOSITORY KIND. Prints a line for each cut, and fails at the first that lost a byte.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from fleet import places
from fleet.places import Place, PlaceKind, Project, salvage

DEEDS = {
    "os.rename",
    "os.remove",
    "os.rmdir",
    "os.mkdir",
    "os.link",
    "os.symlink",
    "os.chmod",
    "os.utime",
    "subprocess.Popen",
}
WRITES = os.O_WRONLY | os.O_RDWR
MOST = 400
SCRATCH = "/fleet-git-"  # repositories of ours that nobody needs after us


def killed(deed: Callable[[], object], number: int) -> bool:
    """Do something in a child that is killed before its n-th deed; whether it was."""
    child = os.fork()
    if child == 0:
        left = number

        def count(event: str, args: tuple[object, ...]) -> None:
            nonlocal left
            writes = event == "open" and isinstance(args[2], int) and args[2] & WRITES
            if (event in DEEDS or writes) and SCRATCH not in str(args[0]):
                left -= 1
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(count)
        try:
            deed()
        except BaseException as problem:
            print(f"cut {number}: {type(problem).__name__}: {problem}", flush=True)
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)


def make(kind: PlaceKind, project: Project, root: Path, branch: str) -> Place:
    return places.make(kind, project, branch, None, places.path_for(root, branch))


def cut_making(kind: PlaceKind, project: Project, root: Path, *, used: bool) -> int:
    """Each is finished by the next call; what somebody put there meanwhile is where it was, or saved."""
    for number in range(1, MOST):
        branch = f"made/{used}/{number}"
        mine = places.path_for(root, branch) / "mine"
        cut = killed(lambda branch=branch: make(kind, project, root, branch), number)  # type: ignore[misc]
        was_used = used and mine.parent.is_dir()
        if was_used:
            mine.write_text("mine\n")
        place = make(kind, project, root, branch)
        kept = salvage.all(project)
        assert bool(kept) == (was_used and not mine.exists()), (number, kept)
        for one in kept:
            assert [path for path, _ in salvage.show(project, one.name).files] == ["mine"], number
            salvage.drop(project, one.name)
        mine.unlink(missing_ok=True)
        assert places.condition(place) == places.Condition(ahead=0, changed=0), number
        assert (place.path / "a.txt").read_text() == "one\n"
        places.remove(place, None)
        if not cut:
            return number
    raise AssertionError("it never ended")


def end(place: Place, name: str) -> None:
    places.remove(place, salvage.save(place, name))


def cut_ending(kind: PlaceKind, project: Project, root: Path) -> int:
    for number in range(1, MOST):
        name = f"ended-{number}"
        place = make(kind, project, root, name)
        (place.path / "a.txt").write_text(f"changed {number}\n")
        (place.path / "new").write_text(f"new {number}\n")
        cut = killed(lambda place=place, name=name: end(place, name), number)  # type: ignore[misc]
        if cut:
            end(place, name)
        assert not place.path.exists(), number
        (kept,) = [one for one in salvage.all(project) if one.name.startswith(name)]
        back = root / "back"
        salvage.restore(project, kept.name, back)
        assert (back / "a.txt").read_text() == f"changed {number}\n"
        assert (back / "new").read_text() == f"new {number}\n"
        places.worktree.forget(project.common, back)
        places.salvage.drop(project, kept.name)
        back.rename(root.parent / f"gone-{kind}-{number}")
        if not cut:
            return number
    raise AssertionError("it never ended")


if __name__ == "__main__":
    found = places.project(Path(sys.argv[1]))
    assert found is not None
    which, where = PlaceKind(sys.argv[2]), Path(sys.argv[1]).parent / "cut places"
    made = [cut_making(which, found, where, used=used) for used in (False, True)]
    print("making", min(made), "ending", cut_ending(which, found, where))
