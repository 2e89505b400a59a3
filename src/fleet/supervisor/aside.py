"""Slow things are done beside the event loop, and what a machine has run out of for now is waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

from fleet.core import Unavailable
from fleet.core.errors import is_passing

P = ParamSpec("P")
T = TypeVar("T")
THREADS = 3  # more of them only fight over the interpreter: a sixth of what a task costs with six
PROGRAMS = 6  # where a tracker is a program that is waited for
LOOKS = 4
LONG = 50  # of those that mostly wait for a program
_pool, _slow = ThreadPoolExecutor(THREADS, "aside"), ThreadPoolExecutor(LONG, "at leisure")
_looks = ThreadPoolExecutor(LOOKS, "looks")
Aside = Callable[[Callable[[], None]], Awaitable[None]]


def widen() -> None:
    """Have more threads from now on, for a tracker that is a program."""
    global _pool
    _pool = ThreadPoolExecutor(PROGRAMS, "aside")


async def aside(act: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
    """Do something that may block; a full disk, or no process to be had, is Unavailable and not a failure."""
    return await _in(_pool, partial(act, *args, **named))


async def looking(act: Callable[[], T]) -> T:
    """The same for a look at what an agent left: however long git takes over it, only other looks have to wait."""
    return await _in(_looks, act)


async def at_leisure(act: Callable[[], T]) -> T:
    """The same for what may take minutes, so that it keeps nobody else waiting."""
    return await _in(_slow, act)


async def _in(pool: ThreadPoolExecutor, act: Callable[[], T]) -> T:
    try:
        return await asyncio.get_running_loop().run_in_executor(pool, act)
    except OSError as problem:
        if is_passing(problem):
            raise Unavailable(f"{problem.filename or 'this machine'}: {problem.strerror}") from problem
        raise


async def called_off(task: asyncio.Task[None]) -> None:
    """End a task of ours, and wait until it has ended."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
