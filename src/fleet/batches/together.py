"""Many things at once, and no more of them than a machine likes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import cache
from threading import Lock
from typing import ParamSpec, TypeVar

from fleet.host.run import stopping

AT_ONCE = 8
P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")


def together(
    act: Callable[[T], R],
    many: Sequence[T],
    done: Callable[[R], None] = lambda result: None,
    at_once: int = AT_ONCE,
) -> list[R]:
    """Do something with each of many, and say so as each is done; the results are in their order.

    Whoever is interrupted begins with no other one, and those that are at it give up what takes long.
    """
    with ThreadPoolExecutor(at_once) as hands:
        begun = [hands.submit(act, one) for one in many]
        try:
            for each in as_completed(begun):
                done(each.result())
        except BaseException:
            stopping.set()
            hands.shutdown(wait=False, cancel_futures=True)
            raise
        return [each.result() for each in begun]


def once(find: Callable[P, R]) -> Callable[P, R]:
    """The same, found out once for each question, however many ask it at the same time."""
    kept, lock = cache(find), Lock()

    def found(*args: P.args, **kwargs: P.kwargs) -> R:
        with lock:
            return kept(*args, **kwargs)  # type: ignore[arg-type]

    return found
