"""The promise of an engine: an attempt that was begun is carried through its four steps, whatever dies on the way."""

from __future__ import annotations

from typing import Protocol


class Work(Protocol):
    """The four steps of an attempt. A step that was cut off is done again, so each must bear being done twice; one that
    was done is not done again, but for `run`.

    A step that raises Unavailable is tried again until it does not.
    """

    async def prepare(self, attempt: str) -> None: ...

    async def run(self, attempt: str) -> None:
        """Takes as long as the agent; after a restart it is asked again for an agent that may run, or have ended."""

    async def verify(self, attempt: str) -> None: ...

    async def settle(self, attempt: str) -> None:
        """Tried again until it succeeds."""

    async def broke(self, attempt: str, problem: str) -> None:
        """A step before settling failed in a way nobody foresaw."""

    def over(self, attempt: str) -> None:
        """The attempt needs nothing more."""

    def waits(self, attempt: str, problem: str) -> None:
        """A step cannot be done now, and is tried again."""

    def cannot_go_on(self, problem: str) -> None:
        """The engine cannot write what it must remember: this process is of no more use, and must end here."""


class Engine(Protocol):
    async def start(self, attempt: str) -> None:
        """Begin an attempt, or go on with it where an earlier process left it; one that is carried is left as it is."""

    async def interrupted(self) -> set[str]:
        """The attempts whose preparing or settling an earlier process began and did not finish; to be started again."""

    async def forget(self) -> None:
        """Drop what is remembered of attempts that were over a day ago; the ledger has what people ask for."""
