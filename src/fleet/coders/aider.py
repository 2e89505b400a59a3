"""Aider: one message on its standard input, its words and figures as plain text.

It has no stream of events: what it says about itself stands between what the model says, so a model that writes such
a line is taken at its word. Nothing that matters hangs on it: whether a task is done is seen in its repository.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from fleet.coders.base import Can, Command, Job, Talker, checked, option
from fleet.coders.quiet import Quiet
from fleet.coders.stream import strange
from fleet.core.work import Event, EventKind, Usage

# Aider's map of a repository keeps its cache inside that repository, where it would look like work: it is off. So are
# the files of its history, commits of what somebody else left uncommitted, and everything that it would fetch or open.
OPTIONS = (
    "--message-file=/dev/stdin", "--yes-always", "--no-pretty", "--no-fancy-input", "--no-check-update",
    "--no-analytics", "--no-show-release-notes", "--no-show-model-warnings", "--no-detect-urls",
    "--no-suggest-shell-commands", "--no-dirty-commits", "--no-gitignore", "--map-tokens=0",
    "--input-history-file=/dev/null", "--chat-history-file=/dev/null",
)  # fmt: skip
IN_TERMINAL = (
    "--no-check-update", "--no-analytics", "--no-show-release-notes", "--no-gitignore", "--map-tokens=0",
    "--input-history-file=/dev/null", "--chat-history-file=/dev/null",
)  # fmt: skip
FLAGS = ("--yes-always",)  # in a terminal, when the user gives none
ENVIRONMENT = {"BROWSER": "true", "COLUMNS": "1000"}  # pages are not opened, and lines are not broken
# A message that begins with `/` or `!` is a command or a shell's: so it begins with our words. Aider can write below
# the repository and nowhere else, and one file that it cannot write makes the whole answer fail.
BEFORE = "This is a task for Aider.\n\n"
AFTER = """

As Aider you edit files below the working directory. You run no commands, and what you edit is committed for you. Leave
out every file outside the working directory, the notes too; say in your answer what you would have noted or asked.
"""
MODEL = re.compile(r"(?:Main m|M)odel: (\S+) with \S+ edit format")
TOKENS = re.compile(r"Tokens: (\S+) sent,(?: (\S+) cache write,)?(?: (\S+) cache hit,)? (\S+) received\.")
COST = re.compile(r"Cost: \$\S+ message, \$(\S+) session\.")
EDITED = re.compile(r"Applied edit to (\S.*)")
COMMITTED = re.compile(r"Commit ([0-9a-f]{7,40}\b.*)")
PROVIDER = re.compile(r"litellm\.(?:\w+\.)*(\w+): ")
FAILURES = ("Only 3 reflections allowed", "The LLM did not conform", "Exception while updating files", "Unable to ")
STATUS = {
    "AuthenticationError": 401, "PermissionDeniedError": 403, "NotFoundError": 404, "RateLimitError": 429,
    "InternalServerError": 500, "BadGatewayError": 502, "ServiceUnavailableError": 503,
}  # fmt: skip
THOUSANDS = {"k": 1000, "M": 1_000_000}
LONGEST = 10**9  # tokens or dollars; more than this is neither
CAN = Can(usage=True, cost=True, talk=True)


@dataclass(frozen=True, slots=True)
class Aider(Quiet):
    """It cannot run commands, nor keep notes; and it keeps no session that is safe to go on with."""

    name: str = "aider"
    context_limit: int | None = None
    program: str = "aider"
    can: Can = CAN
    unproven: str = ""

    def command(self, job: Job) -> Command:
        job = checked(job)
        model = option("--model", job.model)
        argv = ("aider", *OPTIONS, *model, *job.args)
        return Command(argv, stdin=f"{BEFORE}{job.prompt}{AFTER}", env=ENVIRONMENT)

    def read(self, line: bytes) -> list[Event]:
        return read(line)

    def converse(self, job: Job, tell: tuple[str, ...]) -> Command:
        job = checked(job)
        model = option("--model", job.model)
        return Command(("aider", *IN_TERMINAL, *model, *(job.args or FLAGS)))


def read(line: bytes) -> list[Event]:
    """The events in one line of Aider's output: what is none of its own lines was said by the model."""
    return [event for told in strange(line) for event in _told(told.text or "")]


def _told(text: str) -> list[Event]:
    if found := TOKENS.match(text):
        return _used(text, found)
    if (found := COST.match(text)) and (cost := _amount(found[1])) is not None:  # of a long report, the second line
        return [Event(EventKind.RESULT, ok=True, cost=cost)]
    if found := MODEL.match(text):
        return [Event(EventKind.SESSION, model=found[1])]
    if found := EDITED.match(text):
        return _did("edit", found[1])
    if found := COMMITTED.match(text):
        return [*_did("commit", found[1]), Event(EventKind.RESULT, ok=True)]
    if found := PROVIDER.match(text):
        return [Event(EventKind.ERROR, text=text, status=STATUS.get(found[1]))]
    return [Event(EventKind.ERROR if text.startswith(FAILURES) else EventKind.SAID, text=text)]


def _did(tool: str, what: str) -> list[Event]:
    return [Event(EventKind.TOOL_CALLED, text=what, tool=tool), Event(EventKind.TOOL_ENDED, tool=tool, ok=True)]


def _used(text: str, found: re.Match[str]) -> list[Event]:
    """The model has answered. What failed before was tried again; what fails now is said after this line."""
    sent, received, cost = _amount(found[1]), _amount(found[4]), COST.search(text)
    if sent is None or received is None:
        return [Event(EventKind.SAID, text=text)]
    wrote, hit = (None if part is None else round(_amount(part) or 0) for part in found.group(2, 3))
    used = Event(EventKind.USAGE, usage=Usage(round(sent), round(received), hit, wrote))
    return [used, Event(EventKind.RESULT, ok=True, cost=_amount(cost[1]) if cost else None)]


def _amount(text: str) -> float | None:
    """A number as Aider writes it: 940, 1.2k, 0.0031."""
    factor = THOUSANDS.get(text[-1:], 1)
    digits = text[:-1] if factor > 1 else text
    if not re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,12})?", digits):
        return None
    amount = float(digits) * factor
    return amount if amount < LONGEST else None


_promise: type[Talker] = Aider
