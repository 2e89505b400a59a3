"""Talk to an agent in its terminal: what is said is proven to be taken, or said not to be."""

from __future__ import annotations

from fleet import keeper
from fleet.batches.site import Site
from fleet.core import FleetError
from fleet.core.errors import of_system
from fleet.core.talk import Delivery
from fleet.core.work import Attempt
from fleet.sessions import deliver
from fleet.supervisor.heard import Hearing, talker
from fleet.supervisor.notes import note


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


def _give(site: Site, attempt: Attempt, text: str) -> Delivery:
    house, directory = site.house, site.directory(attempt)
    how = talker(house.find_coder, house.runtime, attempt)
    if keeper.Hold(directory).exit is not None:
        return Delivery(False, "its agent has ended", site.server.picture(attempt.id) or "")
    given = deliver(
        site.server, attempt.id, how.pasted(text) if how else text, Hearing(directory, how),
        directory=directory, tells=how is not None and how.tells,
    )  # fmt: skip
    kind = "prompt_not_taken" if given.taken is False else "prompt_taken" if given.taken else "prompt_sent"
    note(house, attempt, kind, text=text[:2000], cause=given.cause)
    said = {False: "prompt not taken", True: "prompt taken", None: "prompt sent"}[given.taken]
    house.log.say(said, task=attempt.task, attempt=attempt.id, cause=given.cause)
    return given
