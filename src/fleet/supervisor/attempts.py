"""The four steps of an attempt, as the engine calls them. Each bears being done twice."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from fleet import keeper
from fleet.core import FleetError, NotFound
from fleet.core.work import Attempt, Ending, Verdict
from fleet.engine.base import Work
from fleet.evidence.receipt import Process, Receipt, load_receipt, save
from fleet.supervisor.aside import Aside, aside, at_leisure, looking
from fleet.supervisor.base_run import BaseRuns
from fleet.supervisor.environment import marks
from fleet.supervisor.follow import follow
from fleet.supervisor.handover import hand_over
from fleet.supervisor.house import House
from fleet.supervisor.notes import note, note_moved, note_unfenced, note_unkept
from fleet.supervisor.place import Slow
from fleet.supervisor.prepare import prepare
from fleet.supervisor.provider import conclude
from fleet.supervisor.refused import hear_refused
from fleet.supervisor.result import add_checks, bring_back, look_at, nothing, write_receipt
from fleet.supervisor.scope_watch import ScopeWatch, out_of_scope
from fleet.supervisor.settle import decide, has_more, name_branch, pin, publish, put_back, reopen, tell
from fleet.supervisor.start import start
from fleet.supervisor.verify import check
from fleet.supervisor.watch import Watch


class Attempts:
    """Carries attempts through their steps. What is known of each is kept here while it runs, and in the ledger."""

    def __init__(self, house: House, over: Callable[[str], None], cannot_go_on: Callable[[str], None]) -> None:
        self._house = house
        self._over = over
        self._cannot_go_on = cannot_go_on
        self._neighbours: dict[str, set[str]] = {}
        self._waiting: dict[str, str] = {}
        self._scope = ScopeWatch(house, lambda name: self.current.get(name))
        self._watch = Watch(house, self._scope.last_change)
        self._starts: dict[str, keeper.Start] = {}  # what prepare put together; made again after a restart
        self._base_runs = BaseRuns(house)
        self.current: dict[str, Attempt] = {}
        self.settling: set[str] = set()  # in a short step, which a graceful stop waits for

    async def prepare(self, name: str) -> None:
        self.settling.add(name)
        if (await self._load(name)).started is not None:
            return  # its agent was started: its place must be left alone
        try:
            await self._change(name, self._prepare)
        except Slow:
            self.settling.discard(name)  # nobody waits for that who wants to stop: it is begun anew
            await self._change(name, partial(self._prepare, at_leisure=True), at_leisure)
            self.settling.add(name)

    async def run(self, name: str) -> None:
        if await self._is_over_before_its_start(name):
            return
        attempt = self.current[name]
        self._meet(attempt)
        hold = await aside(self._hold, attempt)
        self.settling.discard(name)
        try:
            await self._scope.meet(self.current[name], hold.abort)
            await follow(self._house, self.current[name], hold, self._know, self._watch)
            await hand_over(self._house, self.current[name], self._keep)
            await self._change(name, self._afterwards)
        finally:
            hold.close()
            self.settling.add(name)
            await self._scope.let_go(name)
        if hold.exit is None:
            swept = await aside(keeper.sweep, marks(self._house, attempt))
            self._house.log.say("keeper lost", task=attempt.task, level="warning", attempt=name, swept=swept)
        elif hold.exit.unfenced:
            note_unfenced(self._house, attempt, hold.exit.unfenced)

    async def verify(self, name: str) -> None:
        await self._change(name, self._base_runs.seen)  # what was still running when its agent began
        attempt = await self._load(name)
        await self._change(name, self._look, looking if attempt.base_tree else aside)
        attempt = await self._load(name)
        if attempt.ending is Ending.HELD:
            return
        checked = await check(self._house, attempt, self._keep)
        if checked:
            await aside(add_checks, self._house, attempt, checked)

    async def broke(self, name: str, problem: str) -> None:
        """A bug of ours, or a machine that failed us: the attempt is over, the task is not."""
        self.settling.add(name)
        await self._change(name, lambda attempt: self._give_in(attempt, f"fleet itself failed: {problem}"[:500]))

    async def settle(self, name: str) -> None:
        self.settling.add(name)
        await self._change(name, self._settle)

    def over(self, name: str) -> None:
        """Forget the attempt. After a crash this may be the first that is heard of it: every step was done before."""
        self.settling.discard(name)
        self.current.pop(name, None)
        self._neighbours.pop(name, None)
        self._waiting.pop(name, None)
        self._starts.pop(name, None)
        self._base_runs.forget(name)
        self._over(name)

    def leave(self) -> None:
        """End what nobody would wait for once this supervisor is gone."""
        self._base_runs.end()

    def waits(self, name: str, problem: str) -> None:
        if self._waiting.get(name) != problem:
            self._waiting[name] = problem
            self._house.log.say("step waits", level="warning", attempt=name, text=problem)

    def cannot_go_on(self, problem: str) -> None:
        self._cannot_go_on(problem)

    def _meet(self, attempt: Attempt) -> None:
        """Remember who works in the same directory at the same time: what is found there may be theirs. Who is not
        prepared yet has no place, and meets the others itself when it has one.
        """
        for other in self.current.values():
            is_there = other.limits is not None and other.ended is None
            if other.cwd == attempt.cwd and other.id != attempt.id and is_there:
                self._neighbours.setdefault(other.id, set()).add(attempt.id)
                self._neighbours.setdefault(attempt.id, set()).add(other.id)

    def _prepare(self, attempt: Attempt, *, at_leisure: bool = False) -> Attempt:
        prepared, begun = prepare(self._house, attempt, at_leisure=at_leisure)
        if begun is not None:
            self._starts[attempt.id] = begun
        return prepared

    async def _is_over_before_its_start(self, name: str) -> bool:
        """Run the checks on what an attempt begins with; whether it ends here, because nothing can come of it."""
        attempt = await self._load(name)
        if attempt.ending is None and attempt.started is None:
            self.settling.discard(name)  # nobody waits for that who wants to stop: it is begun anew
            is_wanted = await self._base_runs.wait(attempt)
            self.settling.add(name)
            await self._change(name, self._base_runs.seen if is_wanted else _unwanted)
            attempt = self.current[name]
            if attempt.red_before:
                self._starts.pop(name, None)  # put together anew: its agent is told
        return attempt.ending is not None and attempt.started is None

    def _hold(self, attempt: Attempt) -> keeper.Hold:
        """Find the keeper that an earlier supervisor started, or start the agent under a new one."""
        directory = self._house.attempt_directory(attempt)
        hold = keeper.adopt(directory)
        event = "agent adopted"
        if hold is None:
            event = "agent started"
            begun = self._starts.get(attempt.id) or self._start(attempt)
            hold = keeper.hold(directory, begun)
            note_unkept(self._house, attempt)
        self._house.log.say(event, task=attempt.task, attempt=attempt.id, coder=attempt.coder)
        try:
            self._keep(replace(attempt, started=attempt.started or self._house.now()))
        except BaseException:
            hold.close()
            raise
        return hold

    def _start(self, attempt: Attempt) -> keeper.Start:
        return start(self._house, attempt, self._house.tracker.get(attempt.task))[1]

    def _afterwards(self, attempt: Attempt) -> Attempt:
        """What was written down beside its output while it ran: that it was ended for what it touched, or refused."""
        return hear_refused(self._house, out_of_scope(self._house, attempt))

    def _look(self, attempt: Attempt) -> Attempt:
        """Write down what the agent left, before a check leaves things of its own; once, however often it is asked."""
        if attempt.ended is not None:
            return attempt
        result = nothing(attempt)
        if attempt.started is not None:
            result = look_at(self._house, attempt, sorted(self._neighbours.get(attempt.id, ())))
            note_moved(self._house, attempt, result.moved or ())
            bring_back(self._house, attempt)
        return write_receipt(self._house, attempt, result, self._base_runs.checks(attempt.id))

    def _give_in(self, attempt: Attempt, said: str) -> Attempt:
        self._house.log.say("step failed", task=attempt.task, level="error", attempt=attempt.id, text=said)
        directory = self._house.attempt_directory(attempt)
        _end_all(directory, marks(self._house, attempt))
        keeper.forget(directory)
        ended = replace(attempt, ended=attempt.ended or self._house.now())
        with suppress(OSError):  # without a receipt it is settled as lost
            save(directory / "receipt.json", Receipt(ended, Process("broke", error=said), nothing(attempt)))
        return ended

    def _settle(self, attempt: Attempt) -> Attempt:
        """Tell the ledger, then the tracker: in this order nobody can start the task anew while it is unsettled."""
        receipt = load_receipt(self._house.attempt_directory(attempt) / "receipt.json")
        pin(self._house, attempt, receipt)
        if attempt.verdict is None:
            attempt = self._decided(attempt, receipt)
        name_branch(self._house, attempt, receipt)
        conclude(self._house, attempt, receipt.process if receipt else None)
        if not self._house.ledger.get(attempt.id).forgiven:  # a person has opened the task again meanwhile
            with suppress(NotFound):  # somebody removed the task: nobody is left to be told
                tell(self._house, attempt)
        gone = Receipt(attempt, Process("lost", error="what was found is gone"), nothing(attempt))
        said = attempt.reason or attempt.cause
        publish(self._house, replace(receipt or gone, attempt=attempt, verdict=attempt.proof, reason=said))
        facts: dict[str, Any] = {"ending": attempt.ending, "verdict": attempt.verdict, "cause": attempt.cause}
        facts |= {"proof": attempt.proof} if attempt.proof else {}
        note(self._house, attempt, "settled", **facts)
        again = attempt.retry_after or None
        self._house.log.say("settled", task=attempt.task, attempt=attempt.id, retry_after=again, **facts)
        return attempt

    def _decided(self, attempt: Attempt, receipt: Receipt | None) -> Attempt:
        """The attempt with its verdict, written down. Whoever says something to an agent writes it down before they ask
        the ledger: so after the verdict stands there, what was said is looked at once more.
        """
        decided = decide(self._house, attempt, receipt)
        reopen(self._house, decided)
        put_back(self._house, decided)
        self._keep(decided)
        if decided.verdict is Verdict.ACCEPTED and has_more(self._house, decided):
            decided = decide(self._house, attempt, receipt)
            self._keep(decided)
        return decided

    async def _load(self, name: str) -> Attempt:
        """What is known of an attempt: from here while it runs, from the ledger after a restart."""
        if name not in self.current:
            self.current[name] = await aside(self._house.ledger.get, name)
        return self.current[name]

    async def _change(self, name: str, change: Callable[[Attempt], Attempt], how: Aside = aside) -> None:
        """Do something slow with an attempt, and keep what came of it."""
        attempt = await self._load(name)
        await how(lambda: self._keep(change(attempt)))

    def _keep(self, attempt: Attempt) -> None:
        """Know this of an attempt from now on; the ledger is told when it is something new."""
        if attempt != self.current.get(attempt.id):
            self._house.ledger.save(attempt)
            self._know(attempt)

    def _know(self, attempt: Attempt) -> None:
        self.current[attempt.id] = attempt


def _unwanted(attempt: Attempt) -> Attempt:
    return replace(attempt, ending=Ending.CANCELLED, cause="closed before it began")


def _end_all(directory: Path, marked: dict[str, str]) -> None:
    """Leave nothing of an attempt running."""
    for one in (directory, directory / "handover", *directory.glob("check*")):
        with suppress(OSError, FleetError):
            keeper.abort(one)
    keeper.sweep(marked)


_promise: type[Work] = Attempts
