"""A salvage as a worktree again: its last commit checked out, and what was not committed as it was."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from fleet.core import FleetError, Unavailable
from fleet.core.frozen import dataclass
from fleet.core.text import clean
from fleet.host import files, git, locks, repository
from fleet.places import worktree
from fleet.places.paths import Project, check_branch
from fleet.places.salvage.kept import Facts, Kept, facts_of, find

FILES, MODULES = b"files/", b"git/modules/"
SCOPES = ("local", "worktree")
ASIDE = ".restoring-"
LOCK = "fleet-restoring"
PATIENCE = 30.0
GITDIR = re.compile(r"gitdir: .*/modules/(.+)")


@dataclass(frozen=True, slots=True)
class _Item:
    mode: str
    blob: str
    path: bytes


def restore(project: Project, name: str, to: Path, branch: str | None = None) -> Kept:
    """Bring a salvage back in a new directory, on a new branch or on none; nothing that is there is written over.

    It is filled beside that, and has its name once it is whole. When that fails, nothing is left of it; who is killed
    leaves what `clear_up` finds.
    """
    kept = find(project, name)
    to = to.resolve()
    what = f"{kept.name} cannot be restored"
    _must_be_free(project, to, branch, what)
    with _alone(project, PATIENCE) as is_alone:
        if not is_alone:
            raise Unavailable(f"{what}: something else is being restored in this repository", hint="try again")
        _bring_back(project, kept, to, branch, what)
    return kept


def _must_be_free(project: Project, to: Path, branch: str | None, what: str) -> None:
    hint = "give another directory: --to PATH"
    if to.is_relative_to(project.common):
        raise FleetError(f"{clean(str(to))} is inside of what git keeps", hint=hint)
    if os.path.lexists(to) and (not to.is_dir() or any(to.iterdir())):
        raise FleetError(f"{clean(str(to))} is there already, and is not written over", hint=hint)
    if branch and repository.ref(project.common, f"refs/heads/{check_branch(branch)}") is not None:
        raise FleetError(f"{what}: there is a branch {clean(branch)} already", hint="choose another branch")


def _bring_back(project: Project, kept: Kept, to: Path, branch: str | None, what: str) -> None:
    head, there = kept.head or _nothing(project), to.is_dir()
    aside = at = to.with_name(f"{ASIDE}{to.name}")
    _forget(project, aside)  # what somebody left who was killed
    worktree.add_empty(project, aside, head, what)
    try:
        own = next(own for own, where, _ in repository.linked(project.common) if where.resolve() == aside)
        put = _fill(project, kept, aside, own, what)
        os.rename(aside, to)
        at = to
        _name(own, to)
        _reconnect(own, [to / one.relative_to(aside) for one in put if one.is_relative_to(aside)])
        if branch:
            repository.do(project.common, "branch", "--no-track", branch, head, what=what)
            repository.do(own, "symbolic-ref", "HEAD", f"refs/heads/{branch}", what=what)
    except BaseException as problem:
        _forget(project, at)
        worktree.forget(project.common, aside)
        if there:
            to.mkdir(exist_ok=True)
        if isinstance(problem, OSError):
            raise FleetError(f"{what}: {problem.strerror}: {clean(str(problem.filename))}") from problem
        raise


def clear_up(project: Project) -> list[Path]:
    """Put right what was left by whoever was killed while it restored something; where that was to be."""
    found = []
    with _alone(project, 0.0) as is_alone:
        for own, where, _ in list(repository.linked(project.common)) if is_alone else ():
            if not where.name.startswith(ASIDE):
                continue
            to = where.with_name(where.name.removeprefix(ASIDE))
            there = git.find(to)
            if not where.exists() and there is not None and there.own.resolve() == own.resolve():
                _name(own, to)  # it was whole
                continue
            _forget(project, where)
            found.append(to)
    return found


@contextmanager
def _alone(project: Project, patience: float) -> Iterator[bool]:
    lock = locks.take(project.common / LOCK, patience)
    try:
        if lock is None:
            yield False
        else:
            with repository.under(lock):
                yield True
    finally:
        if lock is not None:
            locks.release(lock)


def _forget(project: Project, at: Path) -> None:
    repository.remove_tree(at)
    worktree.forget(project.common, at)


def _name(own: Path, to: Path) -> None:
    """Let git know where a worktree stands."""
    files.write(own / "gitdir", f"{to}/.git\n".encode())


def _fill(project: Project, kept: Kept, to: Path, own: Path, what: str) -> list[Path]:
    facts = facts_of(project, kept)
    items = list(_items(project, kept.commit))
    _index(project, own, to, items, what)
    return _files(project, items, facts, to, own)


def _nothing(project: Project) -> str:
    """A commit without anything, for a place that had none."""
    tree = repository.do(project.common, "mktree", what="nothing can be committed")
    return repository.do(project.common, *AUTHOR, "commit-tree", tree, "-m", "Begin", what="nothing can be committed")


AUTHOR = ("-c", "user.name=fleet", "-c", "user.email=fleet@localhost")


def _items(project: Project, commit: str) -> Iterator[_Item]:
    done = repository.ask(project.common, "ls-tree", "-r", "-z", "--full-tree", commit)
    if done.code:
        raise repository.refused(done, f"{commit} cannot be read")
    for line in done.out.split(b"\0"):
        facts, _, path = line.partition(b"\t")
        if path:
            mode, _, blob = facts.decode().split()
            yield _Item(mode, blob, path)


def _index(project: Project, own: Path, to: Path, items: list[_Item], what: str) -> None:
    """The index as it was, and its files checked out; no filter runs that an agent could have set."""
    lines = []
    for item in items:
        folder, _, path = item.path.partition(b"/")
        if folder == b"staged" or folder.startswith(b"staged-"):
            stage = folder.removeprefix(b"staged").removeprefix(b"-") or b"0"
            lines.append(b"%s %s %s\t%s\0" % (item.mode.encode(), item.blob.encode(), stage, path))
    tree, unfiltered = f"--work-tree={to}", _unfiltered(own)
    for args, stdin in (
        (("update-index", "-z", "--index-info"), b"".join(lines)),
        (("checkout-index", "--all", "--quiet", "--force"), b""),
        (("update-index", "-q", "--refresh"), b""),
    ):
        done = repository.ask(own, *unfiltered, tree, *args, stdin=stdin, cwd=to)
        if done.code and args[0] != "checkout-index" and "--refresh" not in args:
            raise repository.refused(done, what)


def _unfiltered(own: Path) -> list[str]:
    """Options that put each filter of the repository's own config, which agents share, back to what the user's says."""
    done = repository.ask(own, "config", "--list", "--show-scope", "-z")
    words = done.out.decode(errors="surrogateescape").split("\0")
    users, planted = {}, []
    for scope, entry in zip(words[::2], words[1::2], strict=False):
        name, _, value = entry.partition("\n")
        if name.startswith("filter.") and scope in SCOPES:
            planted.append(name)
        elif name.startswith("filter."):
            users[name] = value
    return [word for name in planted for word in ("-c", f"{name}={users.get(name, '')}")]


def _files(project: Project, items: list[_Item], facts: Facts, to: Path, own: Path) -> list[Path]:
    """The files that differed from the index, byte for byte and with their modes; and the submodules' repositories."""
    odd = {b"odd/" + os.fsencode(number): os.fsencode(path) for number, path in facts.odd.items()}
    for path in facts.gone:
        _inside(to, os.fsencode(path)).unlink(missing_ok=True)
    put = []
    for item in items:
        name = odd.get(item.path, item.path)
        for folder, under in ((FILES, to), (MODULES, own / "modules")):
            if name.startswith(folder):
                at = _inside(under, name.removeprefix(folder))
                _put(project, item, at, facts.modes.get(os.fsdecode(name)))
                put.append(at)
    for path in facts.empty:
        _inside(to, os.fsencode(path)).mkdir(parents=True, exist_ok=True)
    return put


def _reconnect(own: Path, put: Iterable[Path]) -> None:
    """Let each submodule find its repository again, and the repository its files."""
    for marker in put:
        if marker.name == ".git" and marker.is_file() and not marker.is_symlink():
            _connect(own, marker)


def _connect(own: Path, marker: Path) -> None:
    said = GITDIR.match(marker.read_text(errors="surrogateescape"))
    module = Path(os.path.normpath(own / "modules" / said[1].strip())) if said else None
    if module is None or not module.is_relative_to(own / "modules") or not (module / "HEAD").exists():
        return
    for empty in ("objects", "refs"):
        (module / empty).mkdir(exist_ok=True)
    marker.write_text(f"gitdir: {module}\n")
    where = ("config", "--file", str(module / "config"), "core.worktree", str(marker.parent))
    repository.do(own, *where, what=f"{marker.parent} cannot be connected")


def _inside(to: Path, path: bytes) -> Path:
    """Where a file goes: never outside, whatever the salvage says, and never through a link."""
    if path.split(b"/")[0].lower() == b".git":
        path = b"agent" + path  # a repository that the agent put where the place's own was
    at = Path(os.path.normpath(to / os.fsdecode(path)))
    if not at.is_relative_to(to) or at == to or at == to / ".git":
        raise FleetError(f"the salvage has a file that would lie outside: {clean(os.fsdecode(path))}")
    for parent in reversed(at.relative_to(to).parents[:-1]):  # from the top on: below a link, others' files stand
        if (to / parent).is_symlink() or (to / parent).is_file():
            (to / parent).unlink()
    return at


def _put(project: Project, item: _Item, at: Path, mode: int | None) -> None:
    at.parent.mkdir(parents=True, exist_ok=True)
    if at.is_dir() and not at.is_symlink():
        repository.remove_tree(at)
    at.unlink(missing_ok=True)
    content = repository.blob(project.common, item.blob)
    if item.mode == "120000":
        os.symlink(b"".join(content), at)
        return
    usual = 0o755 if item.mode == "100755" else 0o644
    with open(os.open(at, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.writelines(content)
    os.chmod(at, usual if mode is None else mode & 0o777)
