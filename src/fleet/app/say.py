"""Talk to agents: in their terminals, or at the next turn of a queued task's."""

from __future__ import annotations

from functools import partial

from fleet.app.sites import find, find_any
from fleet.batches.prompt import give
from fleet.batches.site import Site
from fleet.batches.together import together
from fleet.coders.base import Job, checked
from fleet.core import BadConfig, NotFound
from fleet.core.frozen import dataclass
from fleet.core.task import Status
from fleet.core.work import Ending
from fleet.questions import remarks


@dataclass(frozen=True, slots=True)
class Said:
    """What came of a prompt to one agent."""

    branch: str
    attempt: str
    taken: bool | None
    cause: str
    picture: str = ""
    kept: bool = False  # for its next turn


def say(site: Site, whom: str, text: str, *, batch: bool) -> list[Said]:
    """Say something to an agent, or to several at once: in their terminals, or at the next turn of a queued task's."""
    if not text.strip():
        raise BadConfig("the prompt is empty", hint='fleet prompt BRANCH "what to do"')
    checked(Job(text, site.project.top))
    try:
        attempts = find(site, whom, batch=batch)
    except NotFound:
        if batch:
            raise
        return [remark(site, whom, text)]
    given = together(partial(give, site, text=text), attempts)
    return [
        Said(one.branch or "", one.id, said.taken, said.cause, said.picture)
        for one, said in zip(attempts, given, strict=True)
    ]


def remark(site: Site, name: str, text: str) -> Said:
    """Say something to the agent of a queued task: it is told at its next turn, where its coder can be taken up again.

    It is written down first, and only then the ledger is asked whether anybody is left to hear it.
    """
    try:
        attempt = find_any(site, name)
    except NotFound as nobody:
        return _remark_early(site, name, text, nobody)
    house, who = site.house, f"{attempt.branch or attempt.task}"
    coder = house.find_coder(attempt.coder, house.runtime)
    if attempt.interactive:
        return Said(who, attempt.id, False, f"its agent has ended; begin another: fleet create {who}")
    if house.tracker.get(attempt.task).status is Status.CLOSED:
        return Said(who, attempt.id, False, f"its agent has ended; open the task again: fleet retry {attempt.task}")
    if attempt.verdict is None and not coder.can.resume:
        return Said(who, attempt.id, False, f"{attempt.coder} cannot be told anything while it works")
    number = remarks.add(house.home, attempt.task, text)
    now = house.ledger.get(attempt.id)
    late = now.verdict is not None and attempt.verdict is None and now.ending is not Ending.TOLD
    if late and remarks.drop(house.home, attempt.task, number):
        return Said(who, attempt.id, False, f"its agent has just ended: {now.cause}")
    return Said(who, attempt.id, None, "it is told at its next turn", kept=True)


def _remark_early(site: Site, name: str, text: str, nobody: NotFound) -> Said:
    """Say something to the agent of a task that nobody has begun: it is told with its first prompt."""
    house = site.house
    try:
        task = house.tracker.get(name)
    except NotFound:
        raise nobody from None
    if task.status is Status.CLOSED:
        return Said(task.id, "", False, f"it is closed; open it again: fleet retry {task.id}")
    number = remarks.add(house.home, task.id, text)
    begun = house.ledger.of(task.id)
    deaf = bool(begun) and not house.find_coder(begun[-1].coder, house.runtime).can.resume
    if deaf and remarks.drop(house.home, task.id, number):
        return Said(task.id, begun[-1].id, False, f"{begun[-1].coder} has just begun, and cannot be told anything now")
    return Said(task.id, "", None, "it is told when it begins", kept=True)
