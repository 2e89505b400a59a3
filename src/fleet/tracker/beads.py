"""Tasks in beads: every call is one run of `bd`, which takes half a second and more, so there are few."""

from __future__ import annotations

import os
import re
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import count
from pathlib import Path

from fleet.core import BadConfig, FleetError, NotFound, ToolMissing, Unavailable
from fleet.core.task import TASK_ID, Comment, NewTask, NewWords, Status, Task, task_id
from fleet.core.text import clean
from fleet.host import files
from fleet.host import run as host
from fleet.tracker import envelope, reserve, words
from fleet.tracker.base import Tracker, circle, urgency

PROGRAM = "bd"
PREFIX = "fleet"
ACTOR = "fleet"
TIMEOUT = 30.0
INIT_TIMEOUT = 300.0
OLDEST, TOO_NEW = (1, 3, 0), (2,)
GET_BD = "brew install beads, or: npm install -g @beads/bd"
MAKE_HOME = "fleet init --home-only --tracker beads"
GUARD = 13  # bd's exit code when --if-status did not hold and nothing was written
TITLE_BYTES = 500
MANY = 500
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"

# bd must not send metrics, ask questions, or look for a git repository to write its settings into.
SETTINGS = {
    "BD_DISABLE_METRICS": "1",
    "BD_NON_INTERACTIVE": "1",
    "BD_JSON_ENVELOPE": "1",
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "beads.role",
    "GIT_CONFIG_VALUE_0": "maintainer",
}
PASSED_ON = (
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "TMPDIR",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_CACHE_HOME",
    "BEADS_DOLT_PASSWORD",
    "BEADS_CREDENTIALS_FILE",
)
REFUSING = Path(__file__).with_name("refusing_bd.py")
QUIETLY = ("--non-interactive", "--quiet", "--skip-agents", "--skip-hooks", "--role=maintainer")


def write_refusing(home: Path, directory: Path) -> None:
    """Put a `bd` into a directory that leaves this home alone, for agents to find."""
    words = (sys.executable, "-I", "-S", str(REFUSING), str(home))
    content = f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n'.encode(errors="surrogateescape")
    if files.read(directory / PROGRAM) != content:
        files.private_dir(directory)
        files.write(directory / PROGRAM, content, 0o755)


class Beads:
    """The tracker that people share with `bd`. Its calls may be made from any thread, never from an event loop.

    bd lets an actor claim again what the same actor holds: each supervisor needs an actor name of its own.
    """

    name = "beads"

    def __init__(
        self, home: Path, *, program: str = PROGRAM, timeout: float = TIMEOUT, now: Callable[[], float] = time.time
    ) -> None:
        self._home = home
        self._program = program
        self._timeout = timeout
        self._now = now
        self._fits = False
        self._seen: set[str] = set()

    @classmethod
    def init(cls, home: Path, *, program: str = PROGRAM, timeout: float = INIT_TIMEOUT) -> None:
        """Make the home's .beads, unless it is there: nothing outside of it, no hooks, no questions.

        bd cannot mend what it left when it was ended half-way, so it works beside the place and is moved there whole.
        """
        from tempfile import TemporaryDirectory

        files.private_dir(home)
        if (home / ".beads").exists():
            return
        with TemporaryDirectory(prefix=".making-beads-", dir=home) as made:
            maker = cls(Path(made), program=program, timeout=timeout)
            maker._check_version()
            maker._say("init", f"--prefix={PREFIX}", *QUIETLY)
            try:
                os.rename(Path(made) / ".beads", home / ".beads")
            except OSError:
                check_home(home)  # somebody else was quicker

    def check(self, new: NewTask | NewWords) -> None:
        words.check(new)
        if new.title is not None and len(new.title.encode()) > TITLE_BYTES:
            raise BadConfig(f"beads keeps titles of {TITLE_BYTES} bytes; more fits in the description")

    def add(self, new: NewTask, record: Callable[[str], None]) -> Task:
        self.check(new)
        for needs in new.after:
            self._must_be(needs)
        task = reserve.reserve(self._home, new_ids(self._now()))
        try:
            record(task)
            return self._create(task, new)
        except Unsure:
            raise  # it may have been made all the same, and then needs its record
        except Exception:
            reserve.give_back(self._home, task)
            raise

    def get(self, task: str) -> Task:
        found = self._ask("show", task_id(task))
        # bd takes an id that is cut short for the whole one
        exact = [issue for issue in envelope.issues(found) if issue.task.id == task]
        if not exact:
            raise _missing(task)
        self._seen.add(task)
        return envelope.tasks(exact[:1])[0]

    def all(self) -> list[Task]:
        return sorted(self._list("--all"), key=_age)

    def unfinished(self) -> list[Task]:
        return [task for task in self.all() if task.status is not Status.CLOSED]

    def ready(self, limit: int | None = None, ageing: float | None = None) -> list[Task]:
        """What bd calls ready and nobody is assigned to, but for epics, and for what waits on a cancelled task."""
        found = self._issues("ready", "--limit=0", "--unassigned", "--exclude-type=epic")
        needed = {needs for issue in found for needs in issue.task.after if TASK_ID.match(needs)}
        others = {task.id: task for task in self._some(needed)} if needed else {}
        free = [task for task in envelope.tasks(found, others) if task.status is Status.OPEN and not task.waits_for]
        now = self._now()
        return sorted(free, key=lambda task: (urgency(task, ageing, now), *_age(task)))[:limit]

    def claim(self, task: str, actor: str) -> bool:
        self._must_be(task)
        ran = self._run("update", task, "--claim", actor=actor)
        if ran.code == 0:
            return any(issue.task.assignee == actor for issue in self._read("update", ran))
        held = self.get(task)
        if held.status is Status.OPEN and not held.assignee:
            raise _failed("update --claim", ran)
        return held.status is Status.IN_PROGRESS and held.assignee == actor

    def release(self, task: str, note: str) -> None:
        self._must_be(task)
        self._set(task, "open", f"--notes={words.note(note)}", only_from=Status.IN_PROGRESS)

    def block(self, task: str, note: str) -> None:
        self._must_be(task)
        was = "in_progress"
        for _ in range(4):
            if self._set(task, "blocked", f"--notes={words.note(note)}", only_from=was):
                return
            was = self._word(task)
            if was == Status.CLOSED:
                return
        raise Unavailable(f"{task} changes faster than bd can block it", hint="try again")

    def open(self, task: str) -> None:
        self._must_be(task)
        self._set(task, "open", "--defer=")

    def close(self, task: str, reason: str) -> None:
        self._must_be(task)
        self._say("close", task, "--force", f"--reason={words.note(reason)}")

    def depend(self, task: str, on: str) -> None:
        self._must_be(task)
        self._must_be(on)
        ran = self._run("dep", "add", task, on)
        if ran.code and re.search("cycle|self-dependency", envelope.complaint(ran.out, ran.err)):
            raise circle(task, on)
        _check("dep add", ran)

    def undepend(self, task: str, on: str) -> None:
        if on in self.get(task).after:  # bd fails when there is nothing to remove
            self._say("dep", "remove", task, on)

    def reword(self, task: str, words: NewWords) -> None:
        self.check(words)
        self._must_be(task)
        given = {"title": words.title, "priority": words.priority}
        options = [f"--{name}={value}" for name, value in given.items() if value is not None]
        body = () if words.description is None else ("--stdin", "--allow-empty-description")
        self._say("update", task, *options, *body, stdin=(words.description or "").encode())

    def comment(self, task: str, text: str, author: str) -> None:
        self._must_be(task)
        self._say("comment", task, "--stdin", actor=author, stdin=words.comment(text).encode())

    def comments(self, task: str) -> list[Comment]:
        self._must_be(task)
        return envelope.comments(self._ask("comments", task))

    def _create(self, task: str, new: NewTask) -> Task:
        facts = [f"--id={task}", "--force", f"--title={new.title}", f"--priority={new.priority}"]
        needs = [f"--deps={','.join(new.after)}"] if new.after else []
        body = ["--stdin", "--allow-empty-description"]
        made = self._read("create", self._run("create", *facts, *needs, *body, stdin=new.description.encode()))
        if not any(issue.task.id == task for issue in made):
            raise Unsure(f"bd create did not say that it made {task}", hint=f"fleet show {task}")
        self._seen.add(task)
        return self.get(task) if new.after else envelope.tasks(made)[0]

    def _set(self, task: str, status: str, *options: str, only_from: str = "") -> bool:
        """Give a task a status and take it from whoever holds it; False when its status was not the one expected."""
        guard = [f"--if-status={only_from}"] if only_from else []
        ran = self._run("update", task, f"--status={status}", "--assignee=", "--force", *options, *guard)
        if ran.code == GUARD:
            return False
        _check("update", ran)
        return True

    def _word(self, task: str) -> str:
        """The status in bd's own word."""
        return next((issue.word for issue in self._issues("show", task) if issue.task.id == task), "")

    def _some(self, needed: Iterable[str]) -> list[Task]:
        wanted = sorted(needed)
        return self._list("--all") if len(wanted) > MANY else self._list("--all", f"--id={','.join(wanted)}")

    def _list(self, *options: str) -> list[Task]:
        return envelope.tasks(self._issues("list", "--limit=0", *options))

    def _issues(self, *call: str) -> list[envelope.Issue]:
        found = envelope.issues(self._ask(*call))
        self._seen.update(issue.task.id for issue in found)
        return found

    def _must_be(self, task: str) -> None:
        """Refuse an id that is not a task's whole id: bd would change the task it is the beginning of."""
        if task not in self._seen:
            self.get(task)

    def _ask(self, *call: str) -> object:
        ran = self._run(*call)
        _check(call[0], ran)
        found = envelope.data(ran.out)
        if found is None and ran.out.strip():
            raise _garbled(call[0], ran)
        return found if found is not None else []

    def _say(self, *call: str, actor: str = ACTOR, stdin: bytes = b"") -> None:
        _check(call[0], self._run(*call, actor=actor, stdin=stdin))

    def _read(self, call: str, ran: host.Ran) -> list[envelope.Issue]:
        _check(call, ran)
        found = envelope.data(ran.out)
        if found is None:
            raise _garbled(call, ran)
        return envelope.issues(found)

    def _run(self, *call: str, actor: str = ACTOR, stdin: bytes = b"") -> host.Ran:
        if call[0] != "init":
            check_home(self._home)
            self._check_version()
        argv = [self._program, "--json", "--sandbox", f"--actor={actor or ACTOR}", *call]
        ran = self._call(argv, stdin)
        if ran.timed_out:
            raise Unsure(f"bd {call[0]} did not answer within {self._timeout:g} s", hint="fleet bd doctor")
        return ran

    def _call(self, argv: list[str], stdin: bytes = b"") -> host.Ran:
        host.unwind_when_told()  # a bd that hangs is not left behind
        try:
            return host.run(
                argv, cwd=self._home, env=environment(self._home, os.environ), timeout=self._timeout, stdin=stdin
            )
        except ToolMissing as problem:
            raise ToolMissing("bd (beads) is not installed", hint=GET_BD) from problem

    def _check_version(self) -> None:
        if self._fits:
            return
        ran = self._call([self._program, "--version"])
        if ran.code != 0:
            raise _failed("--version", ran)
        check_version(ran.out.decode(errors="replace"))
        self._fits = True


class Unsure(Unavailable):
    """A call of bd whose outcome is not known: it may have been done."""


def environment(home: Path, given: Mapping[str, str]) -> dict[str, str]:
    """What bd is told: where its database is, and of our environment only what it needs."""
    return {name: given[name] for name in PASSED_ON if name in given} | SETTINGS | {"BEADS_DIR": str(home / ".beads")}


def check_home(home: Path) -> None:
    if not (home / ".beads").is_dir():
        raise FleetError(f"there is no beads database in {home}", hint=MAKE_HOME)


def check_version(said: str) -> None:
    """Refuse a bd that we were not made for, and say which one was found."""
    found = re.search(r"(\d+)\.(\d+)\.(\d+)", said)
    version = tuple(map(int, found.groups())) if found else None
    if version is None or not OLDEST <= version < TOO_NEW:
        what = found.group() if found else repr(clean(said.strip(), 80))
        raise ToolMissing(f"bd 1.3.0 or newer is needed, below 2; found {what}", hint=GET_BD)


def new_ids(now: float) -> Iterator[str]:
    """Ids nobody has used, which sort by the tenth of a second they were made in: bd keeps whole seconds only."""
    return (f"{PREFIX}-{_base36(tenths)}" for tenths in count(int(now * 10)))


def _base36(number: int) -> str:
    digits = ""
    while number:
        number, digit = divmod(number, 36)
        digits = DIGITS[digit] + digits
    return digits or "0"


def _age(task: Task) -> tuple[int, str]:
    return int(task.created), task.id


def _check(call: str, ran: host.Ran) -> None:
    if ran.code:
        raise _failed(call, ran)


def _failed(call: str, ran: host.Ran) -> FleetError:
    said = clean(envelope.complaint(ran.out, ran.err), 500)
    kind = NotFound if "no issue" in said else Unavailable
    return kind(f"bd {call} failed ({ran.code}): {said}", hint="fleet bd doctor")


def _garbled(call: str, ran: host.Ran) -> FleetError:
    shown = clean(ran.out.decode(errors="replace"), 100)
    return Unsure(f"bd {call} answered something that is not JSON: {shown!r}", hint="fleet bd doctor")


def _missing(task: str) -> NotFound:
    return NotFound(f"there is no task {clean(task)}", hint="fleet tasks --all")


_promise: type[Tracker] = Beads
