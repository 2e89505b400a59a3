"""Whether every task of a coder would end now as this attempt did: then its queue is held, and no attempt counts."""

from __future__ import annotations

import shlex

from fleet.coders.logins import LOGINS
from fleet.core.work import Attempt, Ending, Hindrance
from fleet.evidence.receipt import Process
from fleet.gates import Book
from fleet.gates.accounts import MAX_EARLY, Standing
from fleet.supervisor.house import House

LOGIN_WITHIN_S = 60.0  # of one that tells nothing of itself: what it says later it may say of its work
EARLY_S = 10.0
LOGGED_OUT, ROOT, EARLY = "is not logged in", "refuses to run as root", "ends in seconds, without a word"
AS_ROOT = "run fleet as another user, or in a container: fleet config set coders.{coder}.env.IS_SANDBOX=1"


def barred(house: House, attempt: Attempt, process: Process) -> tuple[Ending, str] | None:
    """How an attempt ended that says nothing of its task, and why in one sentence."""
    if attempt.turned or attempt.tools or process.cause != "exited":
        return None
    who = f"{attempt.coder} ({attempt.account})" if attempt.account else attempt.coder
    if attempt.hindrance is Hindrance.ROOT:
        return Ending.CANNOT_WORK, f"{who} {ROOT}"
    is_sure = attempt.dispatched is not None or _ran(house, attempt) < LOGIN_WITHIN_S
    if attempt.hindrance is Hindrance.LOGIN and is_sure:
        said = f": the provider answered 401: {attempt.error}" if attempt.status == 401 and attempt.error else ""
        return Ending.LOGGED_OUT, f"{who} {LOGGED_OUT}{said}"
    if ended_early(house, attempt, process) and _is_the_coder(house, attempt):
        return Ending.CANNOT_WORK, f"{who} {EARLY}: exit {process.code}"
    return None


def ended_early(house: House, attempt: Attempt, process: Process) -> bool:
    """Whether an agent failed in seconds without telling anything."""
    failed = process.cause == "exited" and process.signal is None and process.code not in (0, None)
    return failed and attempt.events == 0 and attempt.error is None and _ran(house, attempt) < EARLY_S


def _ran(house: House, attempt: Attempt) -> float:
    return (attempt.ended or house.now()) - (attempt.started or attempt.created)


def _is_the_coder(house: House, attempt: Attempt) -> bool:
    """Whether it is not the task: agents of this coder ended so at several others, one after the other."""
    known = next((one for one in Book(house.home).all() if _is_of(one, attempt)), None)
    return known is not None and (bool(known.cure) or len({*known.early, attempt.task}) >= MAX_EARLY)


def _is_of(one: Standing, attempt: Attempt) -> bool:
    return (one.coder, one.account) == (attempt.coder, attempt.account)


def cure_of(house: House, attempt: Attempt) -> tuple[str, str]:
    """What keeps the coder of this attempt from working, and what a person does about it."""
    resume = f"then fleet resume --account {attempt.account or attempt.coder}"
    if attempt.ending is Ending.LOGGED_OUT:
        return LOGGED_OUT, f"Log in: {_login_command(house, attempt)}; {resume}"
    if attempt.hindrance is Hindrance.ROOT:
        return ROOT, f"Mend it: {AS_ROOT.format(coder=attempt.coder)}; {resume}"
    return EARLY, f"Look: fleet task {attempt.task} stderr; {resume}"


def _login_command(house: House, attempt: Attempt) -> str:
    """How its user logs in; with an account that is chosen by a directory, into that one."""
    login, account = LOGINS.get(attempt.coder), house.runtime.accounts.get(attempt.account)
    if login is None:
        return f"as {attempt.coder} wants it"
    where = account.env.get(login.directory) if account else None
    return f"{login.directory}={_quoted(where)} {login.command}" if where else login.command


def _quoted(path: str) -> str:
    """A path as a word of the shell, which still knows a home in front of it."""
    return f"~/{shlex.quote(path[2:])}" if path.startswith("~/") else shlex.quote(path)
