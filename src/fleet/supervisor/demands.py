"""What is asked of an attempt's result, looked up before its agent runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fleet.config.demands import Find, project_demands, resolve
from fleet.core.proof import Demands
from fleet.core.task import Spec
from fleet.core.work import Attempt, PlaceKind
from fleet.supervisor.house import House


def demands(house: House, earlier: Sequence[Attempt], spec: Spec, base: str | None, find: Find) -> Demands:
    """What task, project and machine ask. The project's word is that of the commit which the task's first agent found,
    or of the file outside git as it stood then: none of them has written it.
    """
    since = [one for one in earlier if one.demands is not None and not one.forgiven and one.started is not None]
    if since and since[0].demands is not None and since[0].spec == spec:
        return since[0].demands
    return resolve(spec, project_demands(Path(spec.cwd), base, find), house.runtime.unverified)


def trusted(earlier: Sequence[Attempt], kind: PlaceKind | None, head: str | None) -> str | None:
    """The commit whose fleet.yaml counts; None is the file that stands outside the place.

    A person who opens a task again may have mended it since: then it is the one that they have before them.
    """
    if kind is not PlaceKind.INPLACE and any(one.forgiven for one in earlier):
        return None
    return next((one.base for one in earlier if one.base and not one.forgiven), head)
