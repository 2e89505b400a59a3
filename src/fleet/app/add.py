"""Putting a task in the queue. People script this, so it loads next to nothing."""

from __future__ import annotations

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
    home = home or ensure_home()
    if not Path(spec.cwd).is_dir():
        raise BadConfig(f"the directory {spec.cwd} does not exist", hint="fleet add --cwd DIRECTORY …")
    if spec.coder is not None or spec.account is not None:
        from fleet.config import runtime

        must_be_known(runtime.read(home / SETTINGS), spec)
    desk = tracker.open(home, peek.tracker(home / SETTINGS))
    made = desk.add(new, lambda task: tracker.spec.write(home, task, spec))
    return made, wake(home)


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
