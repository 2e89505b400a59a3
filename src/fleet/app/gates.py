"""What holds tasks back, for people: pause and resume, and what is known of providers' windows."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from fleet.app.home import SETTINGS, ensure_home, wake
from fleet.config import runtime as settings
from fleet.core import BadConfig, NotFound
from fleet.core.text import clean, has_controls, nearest
from fleet.gates import Book, Pause, Pauses, Scope, Standing, accounts


@dataclass(frozen=True, slots=True)
class Quota:
    """One window of one account, as the agents last told of it. What they did not tell is None."""

    coder: str
    account: str
    window: str | None
    used_pct: float | None
    resets: float | None
    told: float | None
    closed_until: float | None
    cause: str


def pause(coder: str | None, project: Path | None, reason: str) -> Pause:
    """Start nothing more of what is named, or nothing at all; what runs goes on."""
    home = ensure_home()
    if has_controls(reason) or len(reason) > 500:
        raise BadConfig("the reason must be one short line")
    scope, name = _named(home, coder, project)
    made = Pause(scope, name, time.time(), reason)
    Pauses(home).pause(made)
    wake(home)
    return made


@dataclass(frozen=True, slots=True)
class Resumed:
    """What goes on: its name, empty for everything; how many pauses were ended; which logins are tried again."""

    name: str
    pauses: int
    logins: tuple[str, ...] = ()


def resume(coder: str | None, project: Path | None) -> Resumed:
    """Let what is named go on, or everything; and then those, too, whose login or set-up kept them from working."""
    home = ensure_home()
    scope = _scope(coder, project)
    name = coder or (str(project.resolve()) if project else "")
    ended = Pauses(home).resume(scope, name)
    barred = [one for one in Book(home).all() if one.cure and scope is Scope.ALL]
    for one in barred:
        Book(home).change(one.coder, one.account, partial(accounts.reopen, now=time.time()))
    wake(home)
    return Resumed(name, ended, tuple(one.who for one in barred))


def reopen(name: str) -> str:
    """Let an account be tried again that a provider closed: by its name, or a coder's own login by the coder's."""
    home = ensure_home()
    known = [one for one in Book(home).all() if name in (one.account, one.coder if not one.account else None)]
    if not known:
        raise NotFound(f"nothing is known of an account {clean(name)!r}", hint="fleet quota")
    for one in known:
        Book(home).change(one.coder, one.account, partial(accounts.reopen, now=time.time()))
    wake(home)
    return known[0].who


def paused() -> list[Pause]:
    return Pauses(ensure_home()).all()


def quota() -> list[Quota]:
    """Every window that was ever heard of, and every account that is declared."""
    home, now = ensure_home(), time.time()
    known = {(one.coder, one.account): one for one in Book(home).all()}
    for name, account in settings.read(home / SETTINGS).accounts.items():
        known.setdefault((account.coder, name), Standing(account.coder, name))
    return [quota for standing in known.values() for quota in _windows(standing, now)]


def _windows(standing: Standing, now: float) -> list[Quota]:
    closed = standing.closed(now)
    until, cause = (closed.until, standing.cause) if closed else (None, "")
    who = (standing.coder, standing.account)
    windows = [
        Quota(*who, one.name, _current(one.used, one.resets, now), one.resets, standing.told, until, cause)
        for one in standing.windows.values()
    ]
    return windows or [Quota(*who, None, None, None, standing.told, until, cause)]


def _current(used: float | None, resets: float | None, now: float) -> float | None:
    """What is used of a window; unknown once it has reset and nobody has told since."""
    return None if resets is not None and resets <= now else used


def _named(home: Path, coder: str | None, project: Path | None) -> tuple[Scope, str]:
    scope = _scope(coder, project)
    if coder is not None:
        runtime = settings.read(home / SETTINGS)
        if not runtime.knows(coder):
            known = runtime.known_coders
            raise BadConfig(f"there is no coder {clean(coder)!r}{nearest(coder, known)}", hint="fleet config show")
        return scope, coder
    if project is not None:
        if not project.is_dir():
            raise BadConfig(f"the directory {clean(str(project))} does not exist", hint="fleet tasks")
        return scope, str(project.resolve())
    return scope, ""


def _scope(coder: str | None, project: Path | None) -> Scope:
    if coder is not None and project is not None:
        raise BadConfig("--coder and --project are two pauses", hint="call it twice")
    return Scope.CODER if coder is not None else Scope.PROJECT if project is not None else Scope.ALL
