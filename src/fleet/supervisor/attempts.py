"""The four steps of an attempt: prepare, run, verify, settle. Each bears being done twice."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import msgspec

from fleet import keeper, places, tracker
from fleet.coders import Job, instructions
from fleet.config.limits import project_limits, resolve_limits
from fleet.core import FleetError, Unavailable
from fleet.core.work import Attempt, Ending, Event, Status, Task, Verdict
from fleet.engine.base import Work
from fleet.evidence import ledger
from fleet.evidence.journal import Journal
from fleet.evidence.receipt import (
    QUESTIONS,
    Check,
    Process,
    Receipt,
    Result,
    examine,
    load_receipt,
    load_snapshot,
    save,
)
from fleet.evidence.snapshot import Snapshot, look
from fleet.host import files
from fleet.keeper import Cause
from fleet.supervisor.choice import LOCK
from fleet.supervisor.environment import agent_environment
from fleet.supervisor.house import House
from fleet.supervisor.settle import Facts, Settled, last_question, settle
from fleet.supervisor.transcript import Transcript, fold

SAVE_EVERY = 1.0
# What a machine says that has run out of something for now: disk, processes, files, memory.
PASSING = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOMEM}
CHECK_SECONDS = 600.0
CHECK_OUTPUT = 16 * 1024 * 1024
TAIL = 2000
CHECKED_AGAIN = 3
STDERR = 1024 * 1024
LONGEST_QUESTIONS = 1024 * 1024


class Attempts:
    """Carries attempts through their steps. What is known of each is kept here while it runs, and in the ledger."""

    def __init__(self, house: House, over: Callable[[str], None], cannot_go_on: Callable[[str], None]) -> None:
        self._house = house
        self._over = over
        self._cannot_go_on = cannot_go_on
        self.current: dict[str, Attempt] = {}
        self._neighbours: dict[str, set[str]] = {}
        self.settling: set[str] = set()  # in a short step, which a graceful stop waits for

    # ---- the steps

    async def prepare(self, name: str) -> None:
        self.settling.add(name)
        await self._aside(name, self._prepare_or_explain)

    def _prepare_or_explain(self, attempt: Attempt) -> Attempt:
        try:
            return self._prepare(attempt)
        except Unavailable:
            raise
        except FleetError as problem:
            cause = "; ".join(line.strip() for line in problem.message.splitlines())
        except OSError as problem:
            if problem.errno in PASSING:
                raise
            cause = f"{problem.filename}: {problem.strerror}"
        return replace(attempt, ending=Ending.NOT_STARTED, cause=cause)

    def _prepare(self, attempt: Attempt) -> Attempt:
        spec = tracker.spec.read(self._house.home, attempt.task)
        task = self._house.tracker.get(attempt.task)
        if task.status is Status.CLOSED:
            return replace(attempt, ending=Ending.CANCELLED, cause=task.reason or "closed before it began")
        coder = self._house.find_coder(attempt.coder, self._house.runtime)  # an unknown one is an error now, not later
        resolved = resolve_limits(spec, project_limits(Path(spec.cwd)), self._house.runtime)
        place = places.prepare(Path(spec.cwd))
        directory = self._house.attempt_directory(attempt)
        files.private_dir(directory.parent)
        files.private_dir(directory)
        artifacts = files.private_dir(self._house.task_directory(attempt.task) / "artifacts")
        if load_snapshot(directory / "before.json") is None:
            save(directory / "before.json", look(place.path, artifacts))
        origins = {name: origin.value for name, origin in resolved.origins.items()}
        return replace(
            attempt, cwd=str(place.path), branch=place.branch, base=place.base, limits=resolved.limits,
            origins=origins, context_limit=coder.context_limit,
        )  # fmt: skip

    async def run(self, name: str) -> None:
        attempt = await self._load(name)
        if attempt.ending is not None and attempt.started is None:
            return
        directory = self._house.attempt_directory(attempt)
        self._meet(attempt)
        hold = await asyncio.to_thread(self._hold, attempt, directory)
        self.settling.discard(name)
        try:
            await self._follow(name, hold, directory)
        finally:
            hold.close()
            self.settling.add(name)
        if hold.exit is None:
            swept = await asyncio.to_thread(keeper.sweep, self._marks(attempt))
            self._house.log.say("keeper lost", task=attempt.task, level="warning", attempt=name, swept=swept)

    def _meet(self, attempt: Attempt) -> None:
        """Remember who works in the same directory at the same time: what is found there may be theirs."""
        for other in self.current.values():
            if other.cwd == attempt.cwd and other.id != attempt.id and other.started is not None:
                self._neighbours.setdefault(other.id, set()).add(attempt.id)
                self._neighbours.setdefault(attempt.id, set()).add(other.id)

    def _hold(self, attempt: Attempt, directory: Path) -> keeper.Hold:
        """Find the keeper that an earlier supervisor started, or start the agent under a new one."""
        hold = keeper.adopt(directory)
        event = "agent adopted"
        if hold is None:
            event = "agent started"
            attempt, start = self._start(attempt)
            self._keep(attempt)
            hold = keeper.hold(directory, start)
        self._house.log.say(event, task=attempt.task, attempt=attempt.id, coder=attempt.coder)
        self._keep(replace(attempt, started=attempt.started or self._house.now()))
        return hold

    async def verify(self, name: str) -> None:
        attempt = await self._load(name)
        if attempt.started is None:
            await self._aside(name, lambda attempt: self._receipt(attempt, _nothing(attempt), None))
            return
        result = await asyncio.to_thread(self._examine, attempt, sorted(self._neighbours.get(name, ())))
        check = await self._check(attempt, result)
        await self._aside(name, lambda attempt: self._receipt(attempt, result, check))

    def _receipt(self, attempt: Attempt, result: Result, check: Check | None) -> Attempt:
        directory = self._house.attempt_directory(attempt)
        ended = replace(attempt, ended=attempt.ended or self._house.now())
        save(directory / "receipt.json", Receipt(ended, _process(attempt, directory), result, check))
        return ended

    async def broke(self, name: str, problem: str) -> None:
        """A bug of ours, or a machine that failed us: the attempt is over, the task is not."""
        self.settling.add(name)
        said = f"fleet itself failed: {problem}"
        await self._aside(name, lambda attempt: self._give_in(attempt, said[:500]))

    def _give_in(self, attempt: Attempt, said: str) -> Attempt:
        self._house.log.say("step failed", task=attempt.task, level="error", attempt=attempt.id, text=said)
        directory = self._house.attempt_directory(attempt)
        _end_all(directory, self._marks(attempt))
        ended = replace(attempt, ended=attempt.ended or self._house.now())
        with suppress(OSError):  # without a receipt it is settled as lost
            save(directory / "receipt.json", Receipt(ended, Process("broke", error=said), _nothing(attempt)))
        return ended

    async def settle(self, name: str) -> None:
        self.settling.add(name)
        await self._aside(name, self._settle)

    def _settle(self, attempt: Attempt) -> Attempt:
        """Tell the ledger, then the tracker: in this order nobody can start the task anew while it is unsettled."""
        if attempt.verdict is None:
            attempt = self._decide(attempt)
            self._keep(attempt)
        self._tell(attempt)
        self._publish(attempt)
        self._event(attempt, "settled", verdict=attempt.verdict, ending=attempt.ending, cause=attempt.cause)
        self._house.log.say(
            "settled", task=attempt.task, attempt=attempt.id, ending=attempt.ending, verdict=attempt.verdict,
            cause=attempt.cause, retry_after=attempt.retry_after or None,
        )  # fmt: skip
        return attempt

    def over(self, name: str) -> None:
        """Forget the attempt. After a crash this may be the first that is heard of it: every step was done before."""
        self.settling.discard(name)
        self.current.pop(name, None)
        self._neighbours.pop(name, None)
        self._over(name)

    def cannot_go_on(self, problem: str) -> None:
        self._cannot_go_on(problem)

    # ---- running

    def _start(self, attempt: Attempt) -> tuple[Attempt, keeper.Start]:
        """How the agent is to be started, whole; with the session that it goes on with, if there is one."""
        task = self._house.tracker.get(attempt.task)
        coder = self._house.find_coder(attempt.coder, self._house.runtime)
        declared = self._house.runtime.coders.get(attempt.coder)
        earlier = [one for one in self._house.ledger.of(attempt.task) if one.number < attempt.number]
        session = session_of(attempt, earlier) if coder.can_resume else None
        prompt = self._prompt(task, attempt, earlier, session)
        command = coder.command(
            Job(prompt, Path(attempt.cwd), attempt.model, session, tuple(declared.args) if declared else ())
        )
        limits = attempt.limits or self._house.runtime.limits
        environment = agent_environment(
            self._house.environment,
            declared.pass_env if declared else (),
            dict(command.env) | (dict(declared.env) if declared else {}),
            self._told(attempt),
        )
        start = keeper.Start(
            argv=command.argv, env=environment, cwd=Path(attempt.cwd), stdin=command.stdin, timeout=limits.timeout,
            output=limits.output, dead_man=self._house.runtime.dead_man,
            supervisor_lock=self._house.home / LOCK,
        )  # fmt: skip
        return resuming(attempt, earlier, session), start

    def _prompt(self, task: Task, attempt: Attempt, earlier: list[Attempt], session: str | None) -> str:
        previous = earlier[-1].cause if earlier and earlier[-1].verdict is Verdict.RETRY else None
        if session is not None:
            reason = previous or "a person opened the task again"
            return instructions.again(reason, attempt=attempt.id)
        artifacts = self._house.task_directory(task.id) / "artifacts"
        return instructions.prompt(
            task=task, spec_cwd=Path(attempt.cwd), artifacts=artifacts, attempt=attempt.id, previous=previous
        )

    def _told(self, attempt: Attempt) -> dict[str, str]:
        directory = self._house.task_directory(attempt.task)
        return {
            "FLEET_TASK_ID": attempt.task,
            "FLEET_TASK_DIR": str(directory),
            "FLEET_ARTIFACT_DIR": str(directory / "artifacts"),
            "FLEET_ATTEMPT": attempt.id,
        }

    def _marks(self, attempt: Attempt) -> dict[str, str]:
        """What every process of an attempt has in its environment, in this home and no other."""
        told = self._told(attempt)
        return {name: told[name] for name in ("FLEET_ATTEMPT", "FLEET_TASK_DIR")}

    async def _follow(self, name: str, hold: keeper.Hold, directory: Path) -> None:
        """Read the agent's output as it comes, until its keeper is gone."""
        attempt = self.current[name]
        coder = self._house.find_coder(attempt.coder, self._house.runtime)
        transcript = Transcript(directory / "stdout", attempt.offset)
        journal = self._journal(attempt.task)
        known = _offset(journal, name)
        clock = asyncio.get_running_loop().time
        saved, unsaved, over = 0.0, False, False
        try:
            while not over:
                over = await _is_over(hold, max(0.0, saved + SAVE_EVERY - clock()) if unsaved else None)
                for piece in transcript.lines(last=over):
                    events = [(event, offset) for line, offset in piece if line for event in coder.read(line)]
                    attempt = self._relieve(self._hear(attempt, events, transcript.offset), hold)
                    self.current[name] = attempt
                    self._record(journal, attempt, [pair for pair in events if pair[1] > known])
                    unsaved = True
                    await asyncio.sleep(0)  # an agent that shouts must not hold up the others
                if unsaved and (over or clock() - saved >= SAVE_EVERY):
                    saved, unsaved = clock(), False
                    with suppress(Unavailable):  # figures only: they are saved again, and the transcript has them
                        await asyncio.to_thread(self._house.ledger.save, attempt)
        finally:
            transcript.close()
            if journal is not None:
                journal.close()

    def _hear(self, attempt: Attempt, events: Iterable[tuple[Event, int]], offset: int) -> Attempt:
        now = self._house.now()
        for event, _ in events:
            attempt = fold(attempt, event, now)
        return replace(attempt, offset=offset)

    def _relieve(self, attempt: Attempt, hold: keeper.Hold) -> Attempt:
        """End an agent whose context is nearly full, before it begins to forget; a fresh session goes on."""
        share = attempt.context_share
        if share is None or share <= self._house.runtime.context_pressure_threshold_pct:
            return attempt
        hold.abort()
        return replace(attempt, ending=Ending.CONTEXT, cause=f"its context was {share} % full")

    def _record(self, journal: Journal | None, attempt: Attempt, events: list[tuple[Event, int]]) -> None:
        shared: dict[str, object] = {"at": round(self._house.now(), 3), "attempt": attempt.id}
        self._append(journal, [shared | {"offset": at} | _plain(event) for event, at in events])

    def _append(self, journal: Journal | None, records: list[dict[str, object]]) -> None:
        if journal is None or not records:
            return
        last = journal.last.get("id")
        first = last + 1 if isinstance(last, int) else 1
        with suppress(OSError):  # the disk is full: the transcript and the ledger still have it
            journal.append([{"id": first + n} | record for n, record in enumerate(records)])

    def _event(self, attempt: Attempt, kind: str, **facts: object) -> None:
        """Note one fact of the supervisor's own among the task's events."""
        journal = self._journal(attempt.task)
        if journal is None:
            return
        try:
            self._append(journal, [{"at": round(self._house.now(), 3), "attempt": attempt.id, "kind": kind} | facts])
        finally:
            journal.close()

    def _journal(self, task: str) -> Journal | None:
        """The task's events; None when the file is not one we can write to, since an agent can put anything there."""
        try:
            return Journal(self._house.task_directory(task) / "events.jsonl")
        except (OSError, FleetError) as problem:
            self._house.log.say("events not kept", task=task, level="warning", text=str(problem))
            return None

    # ---- looking at the result

    def _examine(self, attempt: Attempt, neighbours: list[str]) -> Result:
        directory = self._house.attempt_directory(attempt)
        artifacts = self._house.task_directory(attempt.task) / "artifacts"
        before = load_snapshot(directory / "before.json") or Snapshot(attempt.base, None, None)
        cwd = Path(attempt.cwd)
        found = examine(cwd, before, look(cwd, artifacts))
        return replace(found, shared=neighbours)

    async def _check(self, attempt: Attempt, result: Result) -> Check | None:
        """Run the task's check, under a keeper of its own, once the agent says that it is done."""
        process = _process(attempt, self._house.attempt_directory(attempt))
        if process.code != 0 or attempt.error is not None or result.effect is False:
            return None
        spec = await asyncio.to_thread(tracker.spec.read, self._house.home, attempt.task)
        if spec.check is None:
            return None
        for number in range(1, CHECKED_AGAIN + 1):
            directory = self._house.attempt_directory(attempt) / ("check" if number == 1 else f"check.{number}")
            seen = await self._run_check(attempt, spec.check, directory)
            if seen is not None and seen.cause not in (Cause.CANCELLED, Cause.ABANDONED):
                return _checked(spec.check, seen, directory)
            await asyncio.to_thread(keeper.sweep, self._marks(attempt))
        return Check(spec.check, False, "it was cut off, and says nothing", None, None, "", lost=True)

    async def _run_check(self, attempt: Attempt, command: str, directory: Path) -> keeper.Exit | None:
        start = keeper.Start(
            argv=("/bin/sh", "-c", command),
            env=agent_environment(self._house.environment, (), {}, self._told(attempt)),
            cwd=Path(attempt.cwd),
            stdin="",
            timeout=CHECK_SECONDS,
            output=CHECK_OUTPUT,
            dead_man=CHECK_SECONDS,
            supervisor_lock=self._house.home / LOCK,
        )
        hold = await asyncio.to_thread(keeper.hold, directory, start)
        try:
            while await hold.changed():
                pass
        finally:
            hold.close()
        return hold.exit

    # ---- settling

    def _decide(self, attempt: Attempt) -> Attempt:
        receipt = load_receipt(self._house.attempt_directory(attempt) / "receipt.json")
        earlier = [one for one in self._house.ledger.of(attempt.task) if one.number < attempt.number]
        facts = Facts(
            process=self._believed(attempt, receipt),
            result=receipt.result if receipt else None,
            check=receipt.check if receipt else None,
            error=attempt.error,
            question=self._question(attempt, receipt),
            failures=ledger.failures(earlier),
            lost=ledger.lost(earlier),
            attempts=(attempt.limits or self._house.runtime.limits).attempts,
            backoff=self._house.runtime.backoff,
        )
        settled: Settled = settle(facts)
        return replace(
            attempt, ending=settled.ending, verdict=settled.verdict, cause=settled.cause,
            retry_after=settled.retry_after, ended=attempt.ended or self._house.now(),
        )  # fmt: skip

    def _question(self, attempt: Attempt, receipt: Receipt | None) -> str | None:
        """What the agent asked in this attempt: the last question in its Q&A.md."""
        if receipt is None or QUESTIONS not in (receipt.result.artifacts or ()):
            return None
        path = self._house.task_directory(attempt.task) / "artifacts" / QUESTIONS
        return last_question((files.read_end(path, LONGEST_QUESTIONS) or b"").decode(errors="replace"))

    def _believed(self, attempt: Attempt, receipt: Receipt | None) -> Process:
        """How the process ended. "Cancelled" counts only when a person did it, who closes the task first: a keeper is
        also told to stop when a machine shuts down, and nobody's task may be closed by that.
        """
        task = self._house.tracker.get(attempt.task)
        process = receipt.process if receipt else Process("lost", error="its receipt is gone")
        if task.status is Status.CLOSED and task.reason.startswith(tracker.CANCELLED):
            return replace(process, cause=Ending.CANCELLED.value, error="by hand")
        if process.cause != Ending.CANCELLED:
            return process
        return replace(process, cause=Ending.LOST.value, error="its keeper was told to stop, and not by fleet abort")

    def _tell(self, attempt: Attempt) -> None:
        desk, task = self._house.tracker, attempt.task
        match attempt.verdict:
            case Verdict.ACCEPTED:
                desk.close(task, attempt.cause)
            case Verdict.CANCELLED:
                desk.close(task, f"{tracker.CANCELLED}: {attempt.cause}")
            case Verdict.ASKED:
                desk.block(task, f"QUESTION: {attempt.cause}")
            case Verdict.RETRY:
                desk.release(task, f"attempt {attempt.number}: {attempt.cause}")
            case _:
                desk.block(task, f"{attempt.verdict}: {attempt.cause}")

    def _publish(self, attempt: Attempt) -> None:
        """The receipt as it stays: with the verdict in it, and for the task as a whole."""
        path = self._house.attempt_directory(attempt) / "receipt.json"
        receipt = load_receipt(path)
        if receipt is None:
            return
        final = replace(receipt, attempt=attempt)
        task = self._house.task_directory(attempt.task)
        with suppress(OSError):
            save(path, final)
            save(task / "receipt.json", final)
            files.write(task / "log.stderr", files.read_end(path.with_name("stderr"), STDERR) or b"", files.PRIVATE)

    # ---- books

    async def _load(self, name: str) -> Attempt:
        """What is known of an attempt: from here while it runs, from the ledger after a restart."""
        if name not in self.current:
            self.current[name] = await asyncio.to_thread(self._house.ledger.get, name)
        return self.current[name]

    async def _aside(self, name: str, change: Callable[[Attempt], Attempt]) -> None:
        """Do something slow with an attempt beside the event loop, and keep what came of it."""
        attempt = await self._load(name)
        try:
            await asyncio.to_thread(lambda: self._keep(change(attempt)))
        except OSError as problem:
            if problem.errno in PASSING:
                raise Unavailable(f"{problem.filename or 'this machine'}: {problem.strerror}") from problem
            raise

    def _keep(self, attempt: Attempt) -> None:
        """Know this of an attempt from now on; the ledger is told when it is something new."""
        if attempt != self.current.get(attempt.id):
            self._house.ledger.save(attempt)
            self.current[attempt.id] = attempt


async def _is_over(hold: keeper.Hold, within: float | None) -> bool:
    """Wait for news of an agent, for a while or for ever; whether its keeper is gone."""
    try:
        return not await asyncio.wait_for(hold.changed(), within)
    except TimeoutError:
        return False


def session_of(attempt: Attempt, earlier: list[Attempt]) -> str | None:
    """The session to go on with: of the last attempt, when it was the same coder's in the same place.

    One whose context was full is not resumed, and neither is one that was resumed and failed again.
    """
    if not earlier:
        return None
    last = earlier[-1]
    same = (last.coder, last.cwd) == (attempt.coder, attempt.cwd)
    useless = last.ending is Ending.CONTEXT or (last.resumed and last.error is not None)
    return last.session if same and last.events > 0 and not useless else None


def resuming(attempt: Attempt, earlier: list[Attempt], session: str | None) -> Attempt:
    """The attempt with what is known of the session it goes on with."""
    if session is None:
        return attempt
    same = [one for one in earlier if one.session == session]
    return replace(
        attempt,
        resumed=True,
        tokens_before=max((one.session_tokens or 0 for one in same), default=0),
        cost_before=max((one.session_cost or 0.0 for one in same), default=0.0),
    )


def _process(attempt: Attempt, directory: Path) -> Process:
    """How the agent's process went, from its keeper's record; without one it is lost, and that is what is said."""
    if attempt.ending is not None and attempt.started is None:
        return Process(attempt.ending.value, error=attempt.cause)
    seen = keeper.Hold(directory).exit
    if seen is None:
        return Process("lost", error="its keeper was killed; what it left running was ended")
    return Process(
        cause=attempt.ending.value if attempt.ending else seen.cause.value,
        code=seen.code,
        signal=seen.signal,
        error=attempt.cause if attempt.ending else _why(seen, attempt),
        wall=seen.wall,
        cpu=seen.cpu,
        memory=seen.memory,
        output=seen.stdout,
        dropped=seen.dropped,
        leftovers=seen.leftovers,
    )


def _why(seen: keeper.Exit, attempt: Attempt) -> str | None:
    """The cause in words; a limit is named with whoever set it."""
    match seen.cause:
        case "timed out":
            return f"the time limit was reached after {seen.wall:.0f} s (set by: {attempt.origins.get('timeout')})"
        case "output limit":
            wrote = f"{seen.stdout / 1e6:.0f} MB"
            return f"the output limit was reached after {wrote} (set by: {attempt.origins.get('output')})"
        case "abandoned":
            return "no supervisor came back, so its keeper ended it"
        case "cancelled":
            return "by hand"
        case "not started" if seen.error and seen.error.startswith("ENOENT"):
            return f"{seen.error.rpartition(': ')[2]} is not installed, or not on the supervisor's PATH"
        case _:
            return seen.error


def _checked(command: str, seen: keeper.Exit, directory: Path) -> Check:
    output = b"".join(files.read_end(directory / name, TAIL) or b"" for name in ("stdout", "stderr"))
    tail = output.decode(errors="replace")[-TAIL:]
    passed = seen.cause == Cause.EXITED and seen.code == 0
    cause = f"exit {seen.code}" if seen.cause == Cause.EXITED else (seen.error or seen.cause)
    return Check(command, passed, cause, seen.code, seen.wall, tail)


def _nothing(attempt: Attempt) -> Result:
    """The result of an attempt that nobody could look at."""
    return Result(attempt.base, attempt.base, [], [], None, None)


def _end_all(directory: Path, marks: dict[str, str]) -> None:
    """Leave nothing of an attempt running."""
    for one in (directory, directory / "check"):
        with suppress(OSError, FleetError):
            keeper.abort(one)
    keeper.sweep(marks)


def _offset(journal: Journal | None, attempt: str) -> int:
    """How far into this attempt's output the task's events reach."""
    last = journal.last if journal is not None else {}
    offset = last.get("offset")
    return offset if last.get("attempt") == attempt and isinstance(offset, int) else -1


def _plain(event: Event) -> dict[str, object]:
    return {name: value for name, value in msgspec.to_builtins(event).items() if value is not None}


_promise: type[Work] = Attempts
