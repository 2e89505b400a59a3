"""Which tasks are meant by ids, patterns and a state."""

from __future__ import annotations

from typing import cast

import pytest

from fleet.app.several import CAN_BE_CANCELLED, CAN_BE_RETRIED, choose
from fleet.app.tasks import Row
from fleet.core import BadConfig, NotFound
from fleet.core.work import State


class Listed:
    """As much of a row as is looked at."""

    def __init__(self, id: str, state: State) -> None:
        self.id, self.state = id, state


STATES = {
    "t1": State.DONE, "t2": State.REFUSED, "t3": State.WORKING, "t10": State.FAILED, "t11": State.CANCELLED,
    "t12": State.OPEN,
}  # fmt: skip
ROWS = cast(list[Row], [Listed(id, state) for id, state in STATES.items()])


@pytest.mark.parametrize(
    ("names", "state", "fitting", "ids", "found"),
    [
        (("t1", "t9", "t1"), None, CAN_BE_RETRIED, ("t1", "t9"), ()),
        (("t1*",), None, CAN_BE_CANCELLED, ("t10", "t12"), ("t10", "t12")),
        (("t1*",), None, CAN_BE_RETRIED, ("t10",), ("t10",)),
        (("t10", "t*"), None, CAN_BE_RETRIED, ("t10", "t2"), ("t2",)),
        ((), "refused", CAN_BE_RETRIED, ("t2",), ("t2",)),
        (("t1*",), "done", CAN_BE_RETRIED, ("t1",), ("t1",)),
        (("t2",), "refused", CAN_BE_RETRIED, ("t2",), ("t2",)),
    ],
)
def test_what_is_meant(
    names: tuple[str, ...], state: str | None, fitting: frozenset[State], ids: tuple[str, ...], found: tuple[str, ...]
) -> None:
    chosen = choose(names, state, ROWS, fitting)
    assert (chosen.ids, tuple(row.id for row in chosen.found)) == (ids, found)


@pytest.mark.parametrize(
    ("names", "state", "why"),
    [
        (("x*",), None, r"no task x\* is blocked\|failed\|refused"),
        ((), "blocked", "no task is blocked"),
        (("t1",), "refused", "no task t1 is refused"),
    ],
)
def test_what_means_nothing_is_said(names: tuple[str, ...], state: str | None, why: str) -> None:
    with pytest.raises(NotFound, match=why):
        choose(names, state, ROWS, CAN_BE_RETRIED)


def test_what_is_no_id_is_refused() -> None:
    with pytest.raises(BadConfig, match="not the id of a task"):
        choose(("../x",), None, ROWS, CAN_BE_RETRIED)
