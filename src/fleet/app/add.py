"""Putting a task in the queue. People script this, so it loads next to nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from fleet import tracker
from fleet.app.home import SETTINGS, ensure_home, wake
from fleet.config import peek
from fleet.core import BadConfig
from fleet.core.task import NewTask, Spec, Task

if TYPE_CHECKING:
    from fleet.config.runtime import Runtime


def add(new: NewTask, spec: Spec, home: Path | None = None) -> tuple[Task, bool]:
    """Put a task in the queue, and wake the supervisor; whether there is one."""
    from fleet.host.checked_out import branch_of

    home = home or ensure_home()
    if not Path(spec.cwd).is_dir():
        raise BadConfig(f"the directory {spec.cwd} does not exist", hint="fleet add --cwd DIRECTORY …")
    if spec.coder is not None or spec.account is not None:
        from fleet.config import runtime

        must_be_known(runtime.read(home / SETTINGS), spec)
    if spec.onto is not None:
        must_be_a_branch(spec)
    spec = replace(spec, checked_out=branch_of(Path(spec.cwd)))
    desk = tracker.open(home, peek.tracker(home / SETTINGS))
    made = desk.add(new, lambda task: tracker.spec.write(home, task, spec))
    return made, wake(home)


def must_be_a_branch(spec: Spec) -> None:
    """Refuse a branch for the result that the repository does not have."""
    from fleet import places  # what nobody pays for who names none
    from fleet.core import NotFound
    from fleet.core.text import clean
    from fleet.host import repository

    onto = clean(spec.onto or "")
    project = places.project(Path(spec.cwd))
    if project is None:
        raise BadConfig(f"--onto {onto}: {clean(spec.cwd)} is in no git repository", hint="leave --onto out")
    places.check_branch(spec.onto or "")
    if repository.ref(project.common, f"refs/heads/{spec.onto}") is None:
        raise NotFound(f"there is no branch {onto} in {clean(str(project.top))}", hint="git branch --all")


def must_be_known(settings: Runtime, spec: Spec) -> None:
    """Refuse a coder or an account that nobody has declared."""
    from fleet.core.text import clean, nearest

    coder = spec.coder
    if coder is not None and not settings.knows(coder):
        known = settings.known_coders
        raise BadConfig(
            f"there is no coder {clean(coder)!r}{nearest(coder, known)}; there are {', '.join(known)}",
            hint="a coder of your own: fleet config set 'coders.NAME.argv=[\"my-agent\"]'",
        )
    account = settings.accounts.get(spec.account or "")
    if spec.account is not None and account is None:
        near = nearest(spec.account, settings.accounts)
        raise BadConfig(f"there is no account {clean(spec.account)!r}{near}", hint="[accounts.NAME]: fleet config edit")
    if account is not None and coder not in (None, account.coder):
        raise BadConfig(f"the account {spec.account} is one of {account.coder}, not of {coder}")
