"""Results on top of each other on one branch: merged, checked apart, and landed by one move of the branch."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fleet.core import FleetError
from fleet.core.proof import CheckSpec
from fleet.core.text import clean
from fleet.evidence.check_runs import CheckRuns
from fleet.evidence.receipt import Check, Process, Receipt, Result
from fleet.host import repository
from fleet.host.git import Repository
from fleet.host.repository.finish import LANDED_REFS
from fleet.host.repository.merge import Merges, committer
from fleet.host.repository.move import CutOff, Moved, check_move, move_branch
from fleet.landing.chain import Chain, Step, Strategy, build_chain
from fleet.landing.choose import PROVEN, Candidate, PutAside, Standing, order_results
from fleet.landing.record import LandedResult, Landings, LandingState
from fleet.landing.train import Answer, Found, find_guilty
from fleet.supervisor.house import House
from fleet.supervisor.trees import demands_of
from fleet.supervisor.verify import check_again, key_of, where_of

MAX_RACES = 5  # times that a branch may move while we work
OWN_CHECK = "task"  # the source of a check that one task alone has


@dataclass(frozen=True, slots=True)
class Report:
    """What came of it on one branch. `new` is what the branch is now, or with a dry run would be."""

    repository: str
    branch: str
    old: str
    new: str
    landed: tuple[LandedResult, ...] = ()
    aside: tuple[PutAside, ...] = ()
    already: tuple[str, ...] = ()
    checks_run: int = 0
    number: int | None = None  # of the landing
    base_is_red: str = ""  # what the branch's own check says, when that holds everything
    is_new: bool = False  # the branch was not there before
    problem: str = ""  # why nothing could be landed on it
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Way:
    """How results are landed."""

    strategy: Strategy = Strategy.MERGE
    anyway: str = ""  # why something lands that is not proven, or on a red branch
    dry_run: bool = False


class Train:
    """Lands results on one branch of one repository."""

    def __init__(
        self,
        house: House,
        common: Path,
        branch: str,
        receipts: Mapping[str, Receipt],
        way: Way,
        say: Callable[[str], None],
    ) -> None:
        self._house, self._common, self._branch = house, common, branch
        self._receipts, self._way, self._say = receipts, way, say
        self._runs = CheckRuns(house.home)
        self._checks_run = 0
        self._last_red: Check | None = None
        self._verdicts: dict[str, bool] = {}  # by the key of a run

    def run(self, candidates: Sequence[Candidate]) -> Report:
        for _ in range(MAX_RACES):
            old = repository.ref(self._common, f"refs/heads/{self._branch}")
            try:
                return self._land(old, old or self._start(candidates), candidates)
            except Moved:
                self._say(f"{self._branch} has moved meanwhile: once more")
        raise FleetError(f"{self._branch} moves again and again", hint="fleet merge, when nobody else works on it")

    def _start(self, candidates: Sequence[Candidate]) -> str:
        """Where a branch begins that is not there yet: at the one that the results are meant for, or else at
        the one that is checked out.
        """
        meant = [*(one.onto for one in candidates if one.onto), repository.branch_of(self._common)]
        found = next(filter(None, (repository.ref(self._common, f"refs/heads/{name}") for name in meant if name)), None)
        if found is None:
            raise FleetError(f"there is no branch {clean(self._branch)}, nor one that it could begin at")
        return found

    def _land(self, old: str | None, start: str, candidates: Sequence[Candidate]) -> Report:
        aside: list[PutAside] = []
        waiting = order_results(candidates)
        nowhere = Repository(self._common, self._common / "fleet-has-no-index", self._common)
        with repository.workshop(nowhere, write_to=self._common / "objects") as shop:
            merges, who = Merges(shop, self._common), committer(self._common, time.time())
            while True:
                chain = build_chain(
                    merges, start, self._branch, waiting, self._way.strategy, who, aside, self._way.anyway
                )
                if chain.steps:
                    check_move(self._common, self._branch, old, chain.new)  # before anything is checked for long
                answer = self._find_guilty(chain)
                if answer.found is not Found.GUILTY:
                    break
                guilty = chain.steps[answer.number - 1].candidate
                aside.append(self._put_aside(guilty))
                if not self._way.dry_run:
                    Landings(self._house.home).refuse(guilty.attempt, self._common, self._branch, aside[-1].reason)
                waiting = [one for one in waiting if one.task != guilty.task]
        report = Report(
            str(self._common), self._branch, start, start, is_new=old is None, aside=chain.aside,
            already=tuple(one.task for one in chain.already), checks_run=self._checks_run,
        )  # fmt: skip
        if answer.found is Found.BASE_RED and self._last_red is not None:
            red = self._last_red
            report = replace(report, base_is_red=f"{_named(red)}: {red.failure or red.cause}")
            if not self._way.anyway:
                return report
        return self._move(old, chain, report, is_base_red=answer.found is Found.BASE_RED)

    def _find_guilty(self, chain: Chain) -> Answer:
        if not chain.steps:
            return Answer(Found.GREEN)
        looking = find_guilty(len(chain.steps))
        probe = next(looking)
        while True:
            try:
                probe = looking.send(self._is_green(chain, probe.count, again=probe.again))
            except StopIteration as end:
                answer: Answer = end.value
                return answer

    def _is_green(self, chain: Chain, count: int, *, again: bool) -> bool:
        """Whether the checks of the results so far hold on the tree with them; on the branch itself, the project's own:
        a task's own check is red there, because its work is not there yet.
        """
        tree = chain.tree_after(count)
        runs = {self._key(tree, spec, step): (spec, step) for step in chain.steps[: count or None]
                for spec in self._checks_of(step)}  # fmt: skip
        if not count:
            runs = {key: run for key, run in runs.items() if run[0].source != OWN_CHECK}
        if again:
            runs = {key: run for key, run in runs.items() if not self._verdicts.get(key, False)}
        return all(self._holds(key, tree, *run, again=again) for key, run in runs.items())

    def _key(self, tree: str, spec: CheckSpec, step: Step) -> str:
        return key_of(self._house, *where_of(self._receipts[step.candidate.task].attempt), tree, spec)

    def _checks_of(self, step: Step) -> Sequence[CheckSpec]:
        """What a result must hold; of one that lands though it was refused, what it did hold."""
        receipt = self._receipts[step.candidate.task]
        asked = demands_of(receipt.attempt).checks
        if step.candidate.standing not in (Standing.REFUSED, Standing.CANCELLED, Standing.ACCEPTED):
            return asked
        failed = {one.command for one in receipt.checks if not one.passed}
        return [one for one in asked if one.run not in failed]

    def _holds(self, key: str, tree: str, spec: CheckSpec, step: Step, *, again: bool) -> bool:
        if not again and key not in self._verdicts and (known := self._runs.find(key)) is not None:
            self._note(key, known)
        if again or key not in self._verdicts:
            more = " once more" if again else ""
            self._say(f"checking{more}, with the results up to {step.candidate.task}: {spec.run}")
            done = self._run(tree, spec, step.candidate.task)
            if not done.leads:
                self._runs.keep(key, done)
            self._note(key, done)
        return self._verdicts[key]

    def _note(self, key: str, done: Check) -> None:
        self._verdicts[key] = done.passed
        self._last_red = self._last_red if done.passed else done

    def _run(self, tree: str, spec: CheckSpec, task: str) -> Check:
        """Run one check in a clean checkout of a tree, as it would be run for a result with that tree."""
        receipt = self._receipts[task]
        attempt = replace(receipt.attempt, demands=replace(demands_of(receipt.attempt), checks=(spec,)), error=None)
        result = Result(None, None, [], [], [], [], tree=tree, base_tree="")
        self._checks_run += 1
        done = check_again(self._house, replace(receipt, attempt=attempt, process=Process("exited", 0), result=result))
        if not done or done[0].lost:
            why = f": {done[0].cause}" if done else ""
            raise FleetError(f"`{spec.run}` could not be run for {task}{why}", hint=f"fleet show {task}")
        return done[0]

    def _put_aside(self, guilty: Candidate) -> PutAside:
        red = self._last_red
        said = (
            f"{_named(red)} fails with it on {self._branch}: {red.failure or red.cause}" if red else "its check fails"
        )
        return PutAside(guilty.task, guilty.attempt, said, f"fleet retry {guilty.task}", output=red.tail if red else "")

    def _move(self, old: str | None, chain: Chain, report: Report, *, is_base_red: bool) -> Report:
        results = tuple(
            LandedResult(
                one.candidate.task, one.candidate.attempt, one.candidate.commit, one.commit, self._why(one, is_base_red)
            )
            for one in chain.steps
        )
        report = replace(report, landed=results, new=chain.new)
        if not results or self._way.dry_run:
            return report
        book, names = Landings(self._house.home), ", ".join(one.task for one in results)
        number = book.begin(time.time(), self._common, self._branch, old or "", chain.new, results)
        try:
            move_branch(
                self._common, self._branch, old, chain.new, why=f"fleet: landed {names}",
                more=[keep_line(chain.new)],
            )  # fmt: skip
        except CutOff:
            raise  # its row stays, and the next one goes on with it
        except FleetError:
            book.settle(number, LandingState.NOT_MOVED)
            raise
        book.settle(number, LandingState.LANDED)
        return replace(report, number=number)

    def _why(self, step: Step, is_base_red: bool) -> str:
        """Why it landed without proof: a person named it, or said why."""
        if is_base_red or step.candidate.standing not in PROVEN:
            return self._way.anyway or f"named by a person; {step.candidate.standing}"
        return ""


def keep_line(commit: str) -> str:
    """What has git keep a landed commit, whatever becomes of the branch."""
    return f"update {LANDED_REFS}/{commit} {commit}"


def _named(check: Check) -> str:
    return f'check "{check.command}"'
