"""How an agent is started: its command, its prompt, its environment, and the session it goes on with."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from fleet import keeper
from fleet.coders import Job, instructions
from fleet.config.runtime_schema import AccountSettings
from fleet.core import BadConfig, NotFound
from fleet.core.task import Task
from fleet.core.work import Attempt, Ending, Verdict
from fleet.evidence.ledger import PROVIDERS, nudges
from fleet.evidence.receipt import load_receipt
from fleet.evidence.report import failed, report
from fleet.host import machine, program
from fleet.questions import remarks
from fleet.results.words import named_commit
from fleet.supervisor import asked
from fleet.supervisor.choice import LOCK
from fleet.supervisor.environment import agent_environment, marks, told
from fleet.supervisor.fence import fence, first_of_all
from fleet.supervisor.house import House
from fleet.supervisor.identity import EMAIL, SET_IDENTITY, UNKNOWN, git_identity
from fleet.supervisor.limits import NUDGED, left, lesser, spent
from fleet.supervisor.login import passed_on
from fleet.supervisor.spending import day_left
from fleet.supervisor.trees import demands_of

MOST_NUDGES = 1  # in a row: whom that did not help, a person is asked about


def start(
    house: House, attempt: Attempt, task: Task, earlier: Sequence[Attempt] | None = None
) -> tuple[Attempt, keeper.Start]:
    """How the agent is to be started, whole; and the attempt with the session that it goes on with, if there is one."""
    coder = house.find_coder(attempt.coder, house.runtime)
    declared = house.runtime.coders.get(attempt.coder)
    account = house.runtime.accounts.get(attempt.account)
    if attempt.account and account is None:
        raise BadConfig(f"the account {attempt.account} is not in runtime.toml any more", hint="fleet config edit")
    earlier = house.earlier(attempt) if earlier is None else earlier
    session = session_of(attempt, earlier) if coder.can.resume else None
    ask = asked.command(house, attempt) if coder.can.ask else ()
    prompt = _prompt(house, task, attempt, earlier, session, can_ask=bool(ask))
    args = tuple(declared.args) if declared else ()
    limits = attempt.limits or house.runtime.limits
    budget = lesser(left(limits, spent(earlier)), day_left(house, attempt)) if coder.can.budget else None
    job = Job(
        prompt, Path(attempt.cwd), attempt.model, session, args, ask, house.runtime.ask_wait,
        budget=budget, nonce=attempt.nonce,
    )  # fmt: skip
    command = coder.command(job)
    chosen = (dict(declared.env) if declared else {}) | attempt.variables | _chosen(account)
    passed = _passed_on(house, attempt, chosen, account)
    own = {name: value for name, value in command.env.items() if name not in passed or name not in house.environment}
    given = _identity(house, attempt) | own | chosen
    begun = keeper.Start(
        argv=limited(house, attempt, command.argv),
        env=first_of_all(house, agent_environment(house.environment, passed, given, told(house, attempt))),
        cwd=Path(attempt.cwd),
        stdin=command.stdin,
        timeout=limits.timeout,
        output=limits.output,
        dead_man=house.runtime.dead_man,
        supervisor_lock=house.home / LOCK,
        fence=fence(house, attempt, given, marks(house, attempt)),
    )
    found = program.find(coder.program, begun.env, begun.cwd)
    is_known = declared is None or not declared.argv  # what a user declared may take `--version` for work to do
    ran = program.identify(house.home, found, ask=is_known) if found else None
    return replace(resuming(attempt, earlier, session), program=ran), begun


def _identity(house: House, attempt: Attempt) -> dict[str, str]:
    """What lets the agent commit where git does not know its user; that nobody is known is said once."""
    found = git_identity(Path(attempt.cwd))
    if EMAIL in found.values():
        house.log.say_once("git identity", text=UNKNOWN, change=SET_IDENTITY)
    return found


def _passed_on(
    house: House, attempt: Attempt, chosen: Mapping[str, str], account: AccountSettings | None
) -> tuple[str, ...]:
    """The names of the variables that are passed on to the agent; what its user should know of them is said once."""
    found = passed_on(attempt.coder, house.runtime.coders.get(attempt.coder), house.environment, chosen, account)
    if found.note:
        house.log.say_once("login", text=found.note, change=found.change)
    for warning in found.warnings:
        house.log.say_once("variable not set", level="warning", text=warning)
    return found.names


def limited(house: House, attempt: Attempt, argv: tuple[str, ...]) -> tuple[str, ...]:
    """The command in a control group with a limit on its memory, if one is set; where there is none to be had, it is
    started without, and that is said.
    """
    most = house.runtime.agent_memory_max
    limited = machine.scoped(argv, most) if most else argv
    if limited is None:
        house.log.say("memory limit not kept", task=attempt.task, level="warning", attempt=attempt.id, limit=most)
    return limited or argv


def _chosen(account: AccountSettings | None) -> dict[str, str]:
    """The variables that choose an account."""
    given = account.env.items() if account else ()
    return {name: os.path.expanduser(value) if value.startswith("~/") else value for name, value in given}


def session_of(attempt: Attempt, earlier: Sequence[Attempt]) -> str | None:
    """The session to go on with: of the last attempt, when it was the same coder's and account's in the same place.

    One whose context was full is not resumed, and neither is one that was resumed and failed again, unless it was the
    provider that failed; nor one in which no new turn began.
    """
    if not earlier or attempt.fresh:
        return None
    last = earlier[-1]
    same = (last.coder, last.account, last.cwd) == (attempt.coder, attempt.account, attempt.cwd)
    failed = last.error is not None or not last.turned or last.ending in (Ending.SILENT, Ending.STUCK)
    broken = last.resumed and failed and last.ending not in PROVIDERS
    useless = last.ending is Ending.CONTEXT or broken
    return last.session if same and last.events > 0 and not useless else None


def beyond_nudging(attempt: Attempt, earlier: Sequence[Attempt], *, resume: bool) -> str:
    """Why an agent cannot be nudged now; empty when it can be. `resume`: its coder can go on with a session."""
    if nudges(earlier) >= MOST_NUDGES:
        return "it was nudged just before"
    if not resume:
        return f"{attempt.coder} cannot go on with a session"
    if session_of(replace(attempt, fresh=False), [*earlier, replace(attempt, ending=Ending.NUDGED)]) is None:
        return "it has named no session that could be gone on with"
    return ""


def nudge_of(earlier: Sequence[Attempt]) -> str | None:
    """What was seen of the agent that was nudged, for as long as no model has been told."""
    last = next((one for one in reversed(earlier) if one.turned or one.ending is Ending.NUDGED), None)
    return last.cause.removeprefix(NUDGED) if last is not None and last.ending is Ending.NUDGED else None


def resuming(attempt: Attempt, earlier: Sequence[Attempt], session: str | None) -> Attempt:
    """The attempt with what is known of the session it goes on with."""
    if session is None:
        return attempt
    same = [one for one in earlier if one.session == session]
    return replace(
        attempt,
        resumed=True,
        tokens_before=max((one.session_tokens or 0 for one in same), default=0),
        cost_before=max((one.session_cost or 0.0 for one in same), default=0.0),
        usage_before=next((one.session_usage for one in reversed(same) if one.session_usage), {}),
    )


def _prompt(
    house: House, task: Task, attempt: Attempt, earlier: Sequence[Attempt], session: str | None, *, can_ask: bool
) -> str:
    previous = _previous(house, earlier)
    answers = asked.answers(house, earlier)
    said = _said(house, attempt, earlier)
    nudge = nudge_of(earlier)
    if session is not None and nudge is not None:
        return instructions.nudge(nudge, attempt=attempt.id, answers=answers, said=said)
    if session is not None:
        reason = "a person has answered its question" if answers else "a person opened the task again"
        return instructions.again(previous or reason, attempt=attempt.id, answers=answers, said=said)
    return instructions.prompt(
        task=task,
        spec_cwd=Path(attempt.cwd),
        artifacts=house.artifacts(task.id),
        attempt=attempt.id,
        previous=previous,
        checks=[check.run for check in demands_of(attempt).checks],
        red_before=attempt.red_before,
        goes_on=bool(earlier) and earlier[-1].ending is Ending.CONTEXT and not attempt.fresh,
        stands_on=_work_it_stands_on(house, attempt),
        answers=answers,
        can_ask=can_ask,
        said=said,
    )


def _work_it_stands_on(house: House, attempt: Attempt) -> list[str]:
    """The results in an attempt's base, each with the title of its task."""
    found = []
    for one in attempt.stands_on:
        with suppress(NotFound):  # of a task that is gone there is no title
            title = f": {house.tracker.get(one.name).title}" if one.attempt else ", the branch your work is meant for"
            found.append(f"{named_commit(one)}{title}")
    return found if len(found) > 1 else []


def _previous(house: House, earlier: Sequence[Attempt]) -> str | None:
    """What became of the attempt before, with the evidence: the check that failed, and what it printed."""
    if not earlier or earlier[-1].verdict not in (Verdict.RETRY, Verdict.REFUSED):
        return None
    last = earlier[-1]
    receipt = load_receipt(house.attempt_directory(last) / "receipt.json") if last.ending is Ending.FINISHED else None
    check = failed(receipt.checks) if receipt is not None else None
    return last.cause if check is None else f"{last.cause}\n\n{report(check)}"


def _said(house: House, attempt: Attempt, earlier: Sequence[Attempt]) -> str | None:
    """What a person said that no model has been told yet."""
    known = next((one.remarks for one in reversed(earlier) if one.turned), 0)
    return "\n\n".join(remarks.read(house.home, attempt.task, after=known, to=attempt.remarks)) or None
