"""Results on top of each other: a commit for each, made without a checkout; what conflicts is put aside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from enum import StrEnum

from fleet.core.frozen import dataclass
from fleet.core.text import clean, sayable
from fleet.host.repository.merge import Merged, Merges
from fleet.landing.choose import Candidate, PutAside

MAX_NAMED_FILES = 5
MAX_SUBJECT_CHARS = 72
MAX_REASON_CHARS = 500


class Strategy(StrEnum):
    MERGE = "merge"
    SQUASH = "squash"
    REBASE = "rebase"


@dataclass(frozen=True, slots=True)
class Step:
    """One result on top of those before it."""

    candidate: Candidate
    commit: str
    tree: str


@dataclass(frozen=True, slots=True)
class Chain:
    """What a branch would become."""

    tip: str
    tip_tree: str
    steps: tuple[Step, ...] = ()
    aside: tuple[PutAside, ...] = field(default=())
    already: tuple[Candidate, ...] = field(default=())  # everything of them is on the branch

    @property
    def new(self) -> str:
        return self.steps[-1].commit if self.steps else self.tip

    def tree_after(self, count: int) -> str:
        return self.steps[count - 1].tree if count else self.tip_tree


def build_chain(
    merges: Merges, tip: str, onto: str, candidates: Sequence[Candidate], strategy: Strategy, who: str,
    put_aside: Sequence[PutAside] = (), anyway: str = "",
) -> Chain:  # fmt: skip
    """Put results on top of a tip. What stands on one that is put aside, now or before, is put aside, too."""
    merges.heed_attributes(tip)
    current, tree = tip, merges.tree_of(tip)
    tip_tree = tree
    steps: list[Step] = []
    aside = list(put_aside)
    already: list[Candidate] = []
    for one in candidates:
        gone = {other.task for other in aside} & {*(one.stands_on or ())}
        if gone:
            aside.append(PutAside(one.task, one.attempt, f"it stands on {', '.join(sorted(gone))}, which is put aside"))
            continue
        if merges.has(current, one.commit):
            already.append(one)
            continue
        merged = _merged(merges, current, one, strategy)
        if merged.conflicts:
            aside.append(_conflict(one, merged, onto))
        elif merged.tree == tree:
            already.append(one)
        else:
            current, tree = _commit(merges, current, one, merged.tree, onto, strategy, who, anyway), merged.tree
            steps.append(Step(one, current, tree))
    return Chain(tip, tip_tree, tuple(steps), tuple(aside), tuple(already))


def _merged(merges: Merges, current: str, one: Candidate, strategy: Strategy) -> Merged:
    """Both together. Once something was landed by squash, histories do not say any more what a result brings."""
    natural = merges.merge(current, one.commit)
    if not one.base or not (natural.conflicts or strategy is not Strategy.MERGE):
        return natural
    from_base = merges.merge_from(one.base, current, one.commit)
    return natural if from_base.conflicts and not natural.conflicts else from_base


def _commit(
    merges: Merges, current: str, one: Candidate, tree: str, onto: str, strategy: Strategy, who: str, anyway: str
) -> str:
    trailers = [f"Fleet-Task: {one.task}", f"Fleet-Attempt: {one.attempt}", f"Fleet-Result: {one.commit}"]
    trailers += [f"Fleet-Anyway: {clean(anyway, MAX_REASON_CHARS)}"] if anyway else []
    subject = clean(sayable(one.title.strip()), MAX_SUBJECT_CHARS)
    if strategy is Strategy.MERGE:
        text = "\n".join([f"Land {one.task} on {onto}: {subject}", "", *trailers])
        return merges.commit_by(tree, (current, one.commit), text, author=who, committer=who)
    if strategy is Strategy.REBASE and one.base:
        replayed = merges.replay(one.base, one.commit, current, who)
        if replayed is not None and merges.tree_of(replayed) == tree:
            return replayed
    text = "\n".join([subject, "", *trailers])
    return merges.commit_by(tree, (current,), text, author=merges.author_of(one.commit), committer=who)


def _conflict(one: Candidate, merged: Merged, onto: str) -> PutAside:
    more = f" and {len(merged.conflicts) - MAX_NAMED_FILES} more" if len(merged.conflicts) > MAX_NAMED_FILES else ""
    files = f"{', '.join(merged.conflicts[:MAX_NAMED_FILES])}{more}"
    return PutAside(
        one.task,
        one.attempt,
        f"it conflicts with {onto} in {files}",
        f"fleet retry {one.task} makes it anew on {onto}; or merge it by hand: git merge {one.commit[:12]}",
    )
