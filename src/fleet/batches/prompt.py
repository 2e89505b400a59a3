"""Talk to an agent in its terminal: what is said is proven to be taken, or said not to be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fleet import keeper
from fleet.batches.site import Site
from fleet.coders.logins import LOGINS
from fleet.core import FleetError
from fleet.core.errors import of_system
from fleet.core.talk import Delivery, Mood, Signal, SignalKind, feel
from fleet.core.work import Attempt, Hindrance
from fleet.sessions import deliver
from fleet.supervisor.heard import Hearing, alone, talker
from fleet.supervisor.login import is_login_seen
from fleet.supervisor.notes import note

LEDGER_WITHIN_S = 5.0


def give(site: Site, attempt: Attempt, text: str) -> Delivery:
    """Paste a prompt into the agent's terminal, send it, and find out whether it was taken. What goes wrong is said of
    this one alone: others are given theirs meanwhile.
    """
    try:
        return _give(site, attempt, text)
    except FleetError as problem:
        return Delivery(False, problem.message)
    except OSError as problem:
        return Delivery(False, of_system(problem).message)


def _is_doubtful(site: Site, attempt: Attempt, signals: Sequence[Signal]) -> bool:
    """Whether the agent may well not be logged in: it said so last, or it has said nothing and no login is seen."""
    if feel(signals).mood is Mood.LOGGED_OUT:
        return True
    declared = site.house.runtime.coders.get(attempt.coder)
    given = (dict(declared.env) if declared else {}) | attempt.variables
    is_first = not any(one.kind is SignalKind.TAKEN for one in signals)
    return is_first and not is_login_seen(attempt.coder, declared, site.house.environment, given)


def _logged_out(site: Site, attempt: Attempt, given: Delivery, command: str) -> Delivery:
    """The same with what mends it; what keeps the agent is noted, for who asks later what it does."""
    with alone(site.house, attempt, LEDGER_WITHIN_S) as now:
        if now is not None and now.ending is None:
            site.house.ledger.save(replace(now, hindrance=Hindrance.LOGIN))
    again = f'then: fleet prompt {attempt.branch} "…"'
    return replace(given, cause=f"{attempt.coder} is not logged in ({given.cause}). Log in: {command}; {again}")


def _give(site: Site, attempt: Attempt, text: str) -> Delivery:
    house, directory = site.house, site.directory(attempt)
    how = talker(house.find_coder, house.runtime, attempt)
    login = LOGINS.get(attempt.coder)
    if keeper.Hold(directory).exit is not None:
        return Delivery(False, "its agent has ended", site.server.picture(attempt.id) or "")
    hearing = Hearing(directory, how)
    given = deliver(
        site.server, attempt.id, how.pasted(text) if how else text, hearing,
        directory=directory, tells=how is not None and how.tells,
        login_screen=login.login_screen if login else "", is_doubtful=_is_doubtful(site, attempt, hearing()),
    )  # fmt: skip
    if given.logged_out:
        given = _logged_out(site, attempt, given, login.command if login else "")
    kind = "prompt_not_taken" if given.taken is False else "prompt_taken" if given.taken else "prompt_sent"
    note(house, attempt, kind, text=text[:2000], cause=given.cause)
    said = {False: "prompt not taken", True: "prompt taken", None: "prompt sent"}[given.taken]
    house.log.say(said, task=attempt.task, attempt=attempt.id, cause=given.cause)
    return given
