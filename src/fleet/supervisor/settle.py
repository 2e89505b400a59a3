"""Step four: the verdict is written down, and the tracker is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fleet import places, tracker
from fleet.core import FleetError, NotFound, Unavailable
from fleet.core.errors import is_passing
from fleet.core.task import Status, is_cancelled
from fleet.core.text import clean
from fleet.core.work import Attempt, Ending, Verdict
from fleet.evidence import ledger
from fleet.evidence.chain import Key, make_key, seal
from fleet.evidence.claims import claims
from fleet.evidence.receipt import Process, Receipt, load_receipt, save
from fleet.evidence.tree import LANDING, point
from fleet.host import files, repository
from fleet.places import ports
from fleet.questions import remarks
from fleet.supervisor import asked
from fleet.supervisor.barred import barred
from fleet.supervisor.house import House
from fleet.supervisor.result_branch import name_result
from fleet.supervisor.trees import demands_of, here_before, place_now
from fleet.supervisor.verdict import Facts, calls_of, judge

STDERR = 1024 * 1024


def decide(house: House, attempt: Attempt, receipt: Receipt | None) -> Attempt:
    """The attempt with its verdict."""
    earlier = house.earlier(attempt)
    left = asked.look(house, attempt, receipt)
    process = _believed(house, attempt, receipt)
    judged = judge(
        Facts(
            process=process,
            barred=barred(house, attempt, process),
            result=receipt.result if receipt else None,
            checks=tuple(receipt.checks) if receipt else (),
            error=attempt.error,
            limited=attempt.limited,
            status=attempt.status,
            question=left.question,
            answered=left.answered,
            more=has_more(house, attempt),
            failures=ledger.failures(earlier),
            lost=ledger.lost(earlier),
            robbed=ledger.robbed(earlier, house.actor) if attempt.actor == house.actor else 0,
            limited_before=ledger.limited(earlier),
            attempts=(attempt.limits or house.runtime.limits).attempts,
            backoff=house.runtime.backoff,
            demands=demands_of(attempt),
            held=attempt.cause if attempt.ending is Ending.HELD and attempt.started is not None else "",
            calls=_calls(house, attempt, receipt, earlier) if attempt.finished else None,
        )
    )
    return replace(
        attempt,
        ending=judged.ending,
        verdict=judged.verdict,
        cause=judged.cause,
        retry_after=judged.retry_after,
        ended=attempt.ended or house.now(),
        proof=judged.proof,
        reason=judged.reason,
    )


def _calls(house: House, attempt: Attempt, receipt: Receipt | None, earlier: Sequence[Attempt]) -> int | None:
    """How many tools were called for what stands in the place: by this attempt, and by those whose work it found."""
    counts = [receipt.heard.calls if receipt else None]
    for one in here_before(attempt, earlier):
        same = one.started is not None and one.cwd == attempt.cwd and one.base_tree == attempt.base_tree
        if same and attempt.base_tree is not None:
            found = load_receipt(house.attempt_directory(one) / "receipt.json")
            counts.append(sum(one.tools.values()) or (found.heard.calls if found else None))
    return calls_of(counts)


def has_more(house: House, attempt: Attempt) -> bool:
    """Whether a person has said something to the agent that it was not told yet."""
    return remarks.last(house.home, attempt.task) > attempt.remarks


def _believed(house: House, attempt: Attempt, receipt: Receipt | None) -> Process:
    """How the process ended. "Cancelled" counts only when a person did it, who closes the task first: a keeper is also
    told to stop when a machine shuts down, and nobody's task may be closed by that.
    """
    process = receipt.process if receipt else Process("lost", error="its receipt is gone")
    try:
        task = house.tracker.get(attempt.task)
    except NotFound:
        return replace(process, cause=Ending.CANCELLED.value, error="its task was removed")
    if is_cancelled(task):
        return replace(process, cause=Ending.CANCELLED.value, error="by hand")
    if process.cause != Ending.CANCELLED or attempt.started is None:
        return process
    return replace(process, cause=Ending.LOST.value, error="its keeper was told to stop, and not by fleet abort")


def pin(house: House, attempt: Attempt, receipt: Receipt | None) -> None:
    """Let the ref name what was checked: the code under test may have moved it while its check ran."""
    landing, ref = receipt.result.landing if receipt else None, f"{LANDING}{attempt.id}"
    if landing is None:
        return
    try:
        ground = places.ground(place_now(attempt), attempt.stores)
        if ground is None:
            return
        found = repository.ref(ground.main, ref)
        point(ground.main, ref, landing)
    except (FleetError, OSError) as problem:
        said = clean(str(problem), 500)
        house.log.say("landing not put back", task=attempt.task, level="warning", attempt=attempt.id, text=said)
        return
    if found != landing:
        house.log.say("landing put back", task=attempt.task, level="warning", attempt=attempt.id, found=found)


def name_branch(house: House, attempt: Attempt, receipt: Receipt | None) -> None:
    """Let the branch of an accepted attempt name exactly what was judged."""
    if attempt.verdict is not Verdict.ACCEPTED or receipt is None:
        return
    try:
        name_result(attempt, receipt.result.landing)
    except (FleetError, OSError) as problem:
        if isinstance(problem, Unavailable) or (isinstance(problem, OSError) and is_passing(problem)):
            raise
        said = clean(str(problem), 500)
        house.log.say("branch not moved", task=attempt.task, level="warning", attempt=attempt.id, text=said)


def put_back(house: House, attempt: Attempt) -> None:
    """Undo what was changed in task.json while the agent ran, but for the coder and the model, and for what a person
    changed with `fleet edit`: the agent could write there, and what it has chosen for itself is no check and no limit.
    """
    if attempt.spec is None or attempt.started is None:
        return
    spec = house.ledger.edited_spec(attempt.id) or attempt.spec
    try:
        now = tracker.spec.read(house.home, attempt.task)
        wanted = replace(spec, coder=now.coder, model=now.model)
    except FleetError:
        now, wanted = None, spec
    if now == wanted:
        return
    try:
        files.put_aside(tracker.spec.path(house.home, attempt.task))
        tracker.spec.write(house.home, attempt.task, wanted)
    except PermissionError as problem:  # an agent may have locked us out: the ledger has what counts
        house.log.say("task.json not put back", task=attempt.task, level="warning", text=str(problem))
        return
    house.log.say("task.json put back", task=attempt.task, level="warning", attempt=attempt.id)


def reopen(house: House, attempt: Attempt) -> None:
    """Only the supervisor closes a task: one that was closed while its agent ran is not believed."""
    if attempt.started is None or attempt.verdict in (Verdict.ACCEPTED, Verdict.CANCELLED):
        return
    found = house.tracker.get(attempt.task)
    if found.status is Status.CLOSED:
        house.tracker.open(attempt.task)
        house.log.say("task opened again", task=attempt.task, level="warning", closed_with=found.reason)


def tell(house: House, attempt: Attempt) -> None:
    """Let the tracker know what became of the task."""
    desk, task = house.tracker, attempt.task
    match attempt.verdict:
        case Verdict.ACCEPTED:
            desk.close(task, attempt.cause)
        case Verdict.CANCELLED:
            pass  # whoever cancelled it has closed it
        case Verdict.ASKED if attempt.ending is Ending.NO_BASE:
            desk.block(task, attempt.cause)
        case Verdict.ASKED:
            desk.block(task, f"QUESTION: {attempt.cause}")
            if asked.is_answered(house, attempt):  # since we looked, by somebody who took the agent for alive
                _unblock(house, task)
        case Verdict.RETRY:
            desk.release(task, f"attempt {attempt.number}: {attempt.cause}")
            if attempt.ending is Ending.QUESTION:
                _unblock(house, task)
        case _:
            desk.block(task, f"{attempt.verdict}: {attempt.cause}")


def _unblock(house: House, task: str) -> None:
    """Open a task that waited for an answer, whoever blocked it: an agent may have done so itself, through bd."""
    if house.tracker.get(task).status is Status.BLOCKED:
        house.tracker.open(task)


def release(house: House, attempt: Attempt) -> None:
    """Let go of what was set aside for the attempt, whether or not it came as far as to use it."""
    ports.free(house.home, attempt.id)


def publish(house: House, found: Receipt) -> None:
    """The receipt as it stays: with the verdict in it, and what the agent claimed, the next in the chain of this home;
    for the attempt, and for the task as a whole. The attempt notes its hash.
    """
    attempt = replace(found.attempt, receipt="")
    release(house, attempt)
    final = seal(house.home, replace(found, attempt=attempt, claims=claims(found)), _key(house, attempt))
    directory, task = house.attempt_directory(final.attempt), house.task_directory(final.attempt.task)
    try:
        save(directory / "receipt.json", final)
        save(task / "receipt.json", final)
        files.write(task / "log.stderr", files.read_end(directory / "stderr", STDERR) or b"", files.PRIVATE)
    except OSError as problem:
        if is_passing(problem):  # a full disk is waited for; an agent may have locked us out for good
            raise
    house.ledger.note_receipt(attempt.id, final.hash)


def _key(house: House, attempt: Attempt) -> Key | None:
    """The key of this home. One that cannot be trusted stops no work: the receipt has no mac then, and that is said."""
    try:
        return make_key(house.home)
    except (FleetError, OSError) as problem:
        text = problem.message if isinstance(problem, FleetError) else str(problem)
        house.log.say("receipt not signed", task=attempt.task, level="warning", attempt=attempt.id, text=text)
        return None
