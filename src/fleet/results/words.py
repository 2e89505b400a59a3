"""What an attempt stands on, in words."""

from __future__ import annotations

from collections.abc import Sequence

from fleet.core.work import StandsOn

SHORT_COMMIT = 7  # characters


def stands_on_text(stands_on: Sequence[StandsOn]) -> str:
    """Such as "t1 (4f2c1d7), t4 (99ab02c, unverified) and main (527b10e), which has t2"; the branch comes last."""
    results = [one for one in stands_on if one.attempt]
    branches = [one for one in stands_on if not one.attempt]
    named = [named_commit(one) for one in results if not one.within]
    for branch in branches:
        has = [one.name for one in results if one.within == branch.name]
        named.append(named_commit(branch) + (f", which has {' and '.join(has)}" if has else ""))
    return join_names(named)


def named_commit(one: StandsOn) -> str:
    unverified = "" if one.verified else ", unverified"
    return f"{one.name} ({one.commit[:SHORT_COMMIT]}{unverified})"


def join_names(names: Sequence[str]) -> str:
    return " and ".join(part for part in (", ".join(names[:-1]), *names[-1:]) if part)
