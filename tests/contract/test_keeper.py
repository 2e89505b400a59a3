"""The keeper: whatever an agent does, it is ended with all that it started, and how it ended is written down."""

from __future__ import annotations

import asyncio
import json
import os
import py_compile
import resource
import select
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Barrier
from typing import cast

import pytest

from fleet.host import locks
from fleet.keeper import Cause, Exit, Hold, Start, abort, adopt, hold, in_terminal, rouse, strays, sweep
from fleet.keeper.joined import PARTS, PROGRAM, WHERE, program

AGENTS = Path(__file__).parent.parent / "standins" / "agents"
MIB = 1024 * 1024
SOON = 60.0


@dataclass
class Attempt:
    """One attempt with its own marks, by which everything it starts can be found."""

    root: Path
    directory: Path = field(init=False)
    marks: dict[str, str] = field(default_factory=lambda: {"FLEET_ATTEMPT": uuid.uuid4().hex, "FLEET_HOME": "/nowhere"})
    holds: list[Hold] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.directory = self.root / "attempt"

    def order(self, *argv: str) -> Start:
        return Start(
            argv=argv,
            env={"PATH": os.environ["PATH"], **self.marks},
            cwd=self.root,
            stdin="",
            timeout=SOON,
            output=64 * MIB,
            dead_man=600.0,
            supervisor_lock=self.root / "supervisor",
            interrupt=0.2,
            terminate=0.3,
        )

    def agent(self, name: str, *words: str) -> Start:
        return self.order(sys.executable, "-I", "-S", str(AGENTS / f"{name}.py"), *words)

    def hold(self, start: Start) -> Hold:
        self.holds.append(hold(self.directory, start))
        return self.holds[-1]

    def run(self, start: Start) -> Exit:
        return over(self.hold(start))

    def text(self, name: str = "stdout") -> bytes:
        path = self.directory / name
        return path.read_bytes() if path.exists() else b""

    def facts(self) -> dict[str, int]:
        return cast("dict[str, int]", json.loads(self.text("agent.json")))


@pytest.fixture
def attempt(tmp_path: Path) -> Iterator[Attempt]:
    it = Attempt(tmp_path)
    yield it
    abort(it.directory)
    if last := adopt(it.directory):
        asyncio.run(end(last))
    for held in it.holds:
        asyncio.run(end(held))
    left = sweep(it.marks)
    assert left == 0, "the test left processes behind"


async def end(held: Hold) -> int:
    """Hear it to its end; how often there was news."""
    news = 0
    async with asyncio.timeout(SOON):
        while await held.changed():
            news += 1
    return news


def over(held: Hold) -> Exit:
    asyncio.run(end(held))
    found = held.exit
    assert found is not None, (held.directory / "keeper.err").read_text()
    assert not held.alive
    return found


def until(held: Hold, true: Callable[[], bool]) -> None:
    """Hear it until something is true, which is looked at whenever there is news."""

    async def wait() -> None:
        async with asyncio.timeout(SOON):
            while not true():
                assert await held.changed(), (true, held.exit)

    asyncio.run(wait())


def ready(attempt: Attempt, start: Start) -> Hold:
    held = attempt.hold(start)
    until(held, lambda: b"ready\n" in attempt.text())
    return held


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except (FileNotFoundError, ProcessLookupError):
        return False


@contextmanager
def exiting(pid: int) -> Iterator[None]:
    """Whatever is done here makes this process exit."""
    process = os.pidfd_open(pid)
    try:
        yield
        assert select.select([process], [], [], SOON)[0]
    finally:
        os.close(process)


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """The nearest thing to a full disk that needs no rights: a file cannot grow beyond this, in children neither."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


# --- how an agent ends by itself ---


def test_an_agent_runs_with_its_input_and_its_exit_is_recorded(attempt: Attempt) -> None:
    script = "cat; echo trouble >&2; pwd; exit 3"
    exit = attempt.run(replace(attempt.order("sh", "-c", script), stdin="a prompt, äöü\n"))
    assert (exit.cause, exit.code, exit.signal, exit.error) == (Cause.EXITED, 3, None, None)
    assert attempt.text() == f"a prompt, äöü\n{attempt.root}\n".encode()
    assert attempt.text("stderr") == b"trouble\n"
    assert (exit.stdout, exit.stderr, exit.dropped) == (len(attempt.text()), 8, 0)
    assert (exit.leftovers, exit.survivors) == (0, 0)
    assert exit.pid == attempt.facts()["pid"]
    assert exit.started is not None
    assert exit.started <= exit.ended
    assert exit.wall > 0
    assert exit.memory > 100_000


def test_a_signal_is_told_from_a_code(attempt: Attempt) -> None:
    exit = attempt.run(attempt.order("sh", "-c", "kill -SEGV $$"))
    assert (exit.cause, exit.code, exit.signal) == (Cause.EXITED, None, signal.SIGSEGV)


@pytest.mark.parametrize(
    ("argv", "error"),
    [
        (("no-such-program",), "ENOENT: No such file or directory: no-such-program"),
        (("/etc/passwd",), "EACCES: Permission denied: /etc/passwd"),
        (("true", "x" * 300_000), "E2BIG: Argument list too long: true"),
        (("true", "a\0b"), "ValueError: embedded null byte"),
        ((), "IndexError: list index out of range"),
    ],
)
def test_what_cannot_be_started_is_recorded_with_the_reason(
    attempt: Attempt, argv: tuple[str, ...], error: str
) -> None:
    exit = attempt.run(attempt.order(*argv))
    assert (exit.cause, exit.code, exit.signal, exit.pid) == (Cause.NOT_STARTED, None, None, None)
    assert exit.error == error


def test_a_directory_that_is_gone_is_a_reason_too(attempt: Attempt) -> None:
    exit = attempt.run(replace(attempt.order("true"), cwd=attempt.root / 'gone "ä\n'))
    assert exit.cause == Cause.NOT_STARTED
    assert exit.error == f'ENOENT: No such file or directory: {attempt.root}/gone "\\xe4\n'


# --- what an agent is given ---


def test_an_agent_gets_exactly_the_environment_it_was_given(attempt: Attempt, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_SUPERVISOR", "x")
    start = attempt.order("env", "-0")
    start = replace(start, env={**start.env, "EMPTY": "", "LINES": "a\nb=c", "BYTES": os.fsdecode(b"\xff")})
    attempt.run(start)
    assert set(attempt.text().strip(b"\0").split(b"\0")) == {os.fsencode(f"{k}={v}") for k, v in start.env.items()}


def test_an_agent_inherits_no_descriptor_but_its_three_streams(attempt: Attempt) -> None:
    with open(os.devnull) as other:
        os.set_inheritable(other.fileno(), True)
        attempt.run(attempt.order("ls", "/proc/self/fd"))
    assert attempt.text().split() == [b"0", b"1", b"2", b"3"], "the last is the listing's own"


def test_an_agent_starts_with_no_signal_ignored_or_blocked(attempt: Attempt) -> None:
    """A supervisor started in the background of a shell has SIGINT ignored, and would hand that on."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGTERM, signal.SIGCHLD])
    try:
        held = attempt.hold(attempt.order("cat", "/proc/self/status"))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGINT, before)
    over(held)
    status = dict(line.split(":\t", 1) for line in attempt.text().decode().splitlines())
    of_the_c_library = 0b11 << 31  # signals 32 and 33, which no program can set or be sent
    assert int(status["SigIgn"], 16) & ~of_the_c_library == 0
    assert int(status["SigBlk"], 16) == 0


def test_an_agent_leads_its_own_session_apart_from_its_keeper(attempt: Attempt) -> None:
    attempt.run(attempt.order("cat", "/proc/self/stat"))
    _, parent, group, session, *_ = attempt.text().rpartition(b") ")[2].split()
    assert int(group) == int(session) == attempt.facts()["pid"]
    assert int(parent) == attempt.facts()["keeper"]


def test_files_are_private_and_the_order_is_gone_once_it_is_read(attempt: Attempt) -> None:
    before = os.umask(0)
    try:
        held = ready(attempt, attempt.order("sh", "-c", "echo ready; exec sleep 60"))
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in attempt.directory.iterdir()}
    running = {"lock", "events", "control", "keeper.err", ".exit.json"}
    lasting = {"stdin", "stdout", "stderr", "agent.json"}
    assert modes == dict.fromkeys(running | lasting, 0o600)
    assert attempt.directory.stat().st_mode & 0o777 == 0o700
    assert b"FLEET_ATTEMPT" not in Path(f"/proc/{attempt.facts()['keeper']}/environ").read_bytes()
    held.abort()
    over(held)
    modes = {path.name: path.stat().st_mode & 0o777 for path in attempt.directory.iterdir()}
    assert modes == dict.fromkeys({*lasting, "exit.json"}, 0o600), "what served the running is gone"


# --- what an agent says ---


def test_a_huge_line_costs_neither_disk_nor_memory_and_the_next_line_is_kept(attempt: Attempt) -> None:
    held = ready(attempt, replace(attempt.agent("shouts", "256", "stay"), line=MIB))
    status = Path(f"/proc/{attempt.facts()['keeper']}/status").read_text()
    peak = int(status.partition("VmHWM:")[2].split()[0])
    assert peak <= 12 * 1024
    held.abort()
    exit = over(held)
    assert attempt.text() == b"x" * MIB + b"\n" + b'{"kind": "good"}\n' + b"ready\n"
    assert (exit.dropped, exit.stdout) == (255 * MIB, len(attempt.text()))


def test_lines_are_cut_each_by_itself(attempt: Attempt) -> None:
    script = "printf '12345\\n123456\\n\\n1234567\\n12'; printf '34567\\nend'"
    exit = attempt.run(replace(attempt.order("sh", "-c", script), line=5))
    assert attempt.text() == b"12345\n12345\n\n12345\n12345\nend"
    assert exit.dropped == 5


def test_lines_are_cut_alike_wherever_the_pipe_divides_them(attempt: Attempt) -> None:
    attempt.run(replace(attempt.order("sh", "-c", "yes 12345678 | head -n 30000"), line=5))
    assert attempt.text() == b"12345\n" * 30000


def test_rubbish_passes_through_unchanged(attempt: Attempt) -> None:
    attempt.run(attempt.agent("rubbish"))
    assert attempt.text() == bytes(range(256)) * 64 + b"\n\xff\xfe\x00\n"
    assert attempt.text("stderr") == b'{"half": "js\x00\xff'


def test_a_flood_within_the_limit_is_kept_to_the_last_byte(attempt: Attempt) -> None:
    exit = attempt.run(replace(attempt.agent("pours", "200"), output=200 * MIB))
    assert (exit.cause, exit.code, exit.stdout, exit.dropped) == (Cause.EXITED, 0, 200 * MIB, 0)
    assert (attempt.directory / "stdout").stat().st_size == 200 * MIB
    (attempt.directory / "stdout").unlink()


def test_a_flood_without_end_is_ended_at_the_limit(attempt: Attempt) -> None:
    exit = attempt.run(replace(attempt.agent("pours"), output=MIB))
    assert exit.cause == Cause.OUTPUT
    assert exit.stdout == len(attempt.text()) == MIB
    assert exit.dropped > 0


def say_and_exit_unheard(attempt: Attempt, size: int, output: int) -> Exit:
    """The keeper is stopped while the agent says something and exits, so that it hears of both at once."""
    go = attempt.root / "go"
    os.mkfifo(go)
    held = ready(attempt, replace(attempt.agent("hurries", str(go), str(size)), output=output))
    with exiting(attempt.facts()["pid"]):
        os.kill(attempt.facts()["keeper"], signal.SIGSTOP)
        go.write_text("go\n")
    os.kill(attempt.facts()["keeper"], signal.SIGCONT)
    return over(held)


def test_all_that_lies_in_the_pipe_is_kept_after_the_exit(attempt: Attempt) -> None:
    exit = say_and_exit_unheard(attempt, MIB, output=2 * MIB)
    assert (exit.cause, exit.code, exit.dropped) == (Cause.EXITED, 0, 0)
    assert attempt.text() == b"ready\n" + b"x" * MIB


def test_an_agent_whose_last_words_were_cut_did_not_just_exit(attempt: Attempt) -> None:
    exit = say_and_exit_unheard(attempt, 5, output=8)
    assert (exit.cause, exit.code, exit.stdout, exit.dropped) == (Cause.OUTPUT, 0, 8, 3)
    assert attempt.text() == b"ready\nxx"


def test_a_flood_of_errors_is_cut_and_harms_nobody(attempt: Attempt) -> None:
    exit = attempt.run(attempt.order("sh", "-c", "head -c 20M /dev/zero >&2; echo fine"))
    assert (exit.cause, exit.code, exit.stderr, exit.dropped) == (Cause.EXITED, 0, 16 * MIB, 4 * MIB)
    assert attempt.text() == b"fine\n"


def test_a_chatty_agent_makes_no_busy_supervisor(attempt: Attempt) -> None:
    held = attempt.hold(attempt.agent("chats", "5000"))
    news = asyncio.run(end(held))
    assert held.exit is not None
    assert len(attempt.text().splitlines()) == 5000
    assert 2 <= news <= held.exit.wall * 20 + 4


def test_news_comes_while_the_agent_runs_and_after_its_last_word(attempt: Attempt) -> None:
    held = attempt.hold(attempt.order("sh", "-c", "echo one; echo two; exec sleep 60"))
    until(held, lambda: attempt.text() == b"one\ntwo\n")
    assert held.alive
    assert (held.exit, held.lost) == (None, False)


def test_a_full_disk_loses_output_but_no_whole_line_after_it_and_no_record(attempt: Attempt) -> None:
    go = attempt.root / "go"
    os.mkfifo(go)
    with file_size_limit(8192):
        held = attempt.hold(attempt.agent("waits", str(go)))
        until(held, lambda: len(attempt.text()) == 8192 and attempt.text("stderr") == b"ready\n")
    resource.prlimit(attempt.facts()["keeper"], resource.RLIMIT_FSIZE, resource.getrlimit(resource.RLIMIT_FSIZE))
    go.write_text("go\n")
    exit = over(held)
    assert (exit.cause, exit.code) == (Cause.EXITED, 0)
    assert [len(line) for line in attempt.text().split(b"\n")] == [2999, 2999, 2192, 5, 6, 0]
    assert attempt.text().endswith(b"\nfirst\nsecond\n")
    assert exit.dropped == 4 * 3000 - 8192


def test_a_disk_that_is_full_from_the_start_is_a_reason_not_to(attempt: Attempt) -> None:
    with file_size_limit(2048):
        exit = attempt.run(attempt.order("touch", str(attempt.root / "started")))
    assert exit.cause == Cause.NOT_STARTED
    assert exit.error == "EFBIG: File too large: no room for the exit record"
    assert not (attempt.root / "started").exists()


# --- how an agent is ended ---


def test_the_deadline_ends_it(attempt: Attempt) -> None:
    exit = attempt.run(replace(attempt.order("sleep", "60"), timeout=0.2))
    assert (exit.cause, exit.code, exit.signal) == (Cause.TIMED_OUT, None, signal.SIGINT)


def test_an_agent_that_ends_in_order_when_interrupted_is_believed_its_code(attempt: Attempt) -> None:
    script = "trap 'echo bye; exit 5' INT; echo ready; while :; do sleep 0.05; done"
    held = ready(attempt, replace(attempt.order("sh", "-c", script), interrupt=SOON))
    assert held.abort()
    exit = over(held)
    assert (exit.cause, exit.code) == (Cause.CANCELLED, 5)
    assert attempt.text() == b"ready\nbye\n"


@pytest.mark.parametrize(("name", "word"), [("stubborn", ""), ("stops", ""), ("litters", "stay"), ("bombs", "")])
def test_whatever_it_does_nothing_of_it_survives_the_ladder(attempt: Attempt, name: str, word: str) -> None:
    held = ready(attempt, attempt.agent(name, word))
    pid = attempt.facts()["pid"]
    assert pid in strays(attempt.marks)
    assert held.abort()
    exit = over(held)
    assert (exit.cause, exit.survivors) == (Cause.CANCELLED, 0)
    assert not is_running(pid)
    assert strays(attempt.marks) == []


def test_what_an_agent_leaves_behind_is_ended_with_it(attempt: Attempt) -> None:
    exit = attempt.run(attempt.agent("litters"))
    assert (exit.cause, exit.code, exit.leftovers, exit.survivors) == (Cause.EXITED, 7, 8, 0)
    assert strays(attempt.marks) == []


def test_a_child_that_holds_the_pipe_does_not_hold_the_exit(attempt: Attempt) -> None:
    exit = attempt.run(attempt.order("sh", "-c", "sleep 600 & echo done"))
    assert (exit.cause, exit.code, exit.leftovers) == (Cause.EXITED, 0, 1)
    assert attempt.text() == b"done\n"


def test_an_agent_that_closes_its_streams_is_still_waited_for(attempt: Attempt) -> None:
    exit = attempt.run(attempt.order("sh", "-c", "exec >&- 2>&- <&-; sleep 0.1; exit 4"))
    assert (exit.cause, exit.code) == (Cause.EXITED, 4)


def test_it_can_be_aborted_from_a_process_that_knows_only_the_directory(attempt: Attempt) -> None:
    held = ready(attempt, attempt.order("sh", "-c", "echo ready; exec sleep 60"))
    code = "import sys; from pathlib import Path; from fleet.keeper import abort; print(abort(Path(sys.argv[1])))"
    told = subprocess.run([sys.executable, "-c", code, attempt.directory], capture_output=True, text=True, check=True)
    assert told.stdout == "True\n"
    assert over(held).cause == Cause.CANCELLED
    assert not abort(attempt.directory), "nobody is there any more"
    assert not abort(attempt.root / "never")


def test_terminating_the_keeper_ends_the_agent_in_order(attempt: Attempt) -> None:
    held = ready(attempt, attempt.agent("stubborn"))
    os.kill(attempt.facts()["keeper"], signal.SIGHUP)
    os.kill(attempt.facts()["keeper"], signal.SIGINT)
    os.kill(attempt.facts()["keeper"], signal.SIGTERM)
    exit = over(held)
    assert (exit.cause, exit.signal) == (Cause.CANCELLED, signal.SIGKILL)


def test_an_agent_without_a_supervisor_is_ended_after_a_while(attempt: Attempt) -> None:
    assert attempt.run(replace(attempt.order("sleep", "60"), dead_man=0.2)).cause == Cause.ABANDONED


def test_an_agent_with_a_supervisor_is_left_alone(attempt: Attempt) -> None:
    start = replace(attempt.order("sleep", "1"), dead_man=0.2)
    lock = locks.take(start.supervisor_lock)
    assert lock is not None
    try:
        assert attempt.run(start).cause == Cause.EXITED
    finally:
        locks.release(lock)


# --- who holds it ---


def test_of_many_holds_at_once_one_starts_the_agent(attempt: Attempt) -> None:
    witness = attempt.root / "witness"
    start = attempt.order("sh", "-c", f"echo $$ >> {witness}; echo ready; exec sleep 60")
    barrier = Barrier(8)

    def one(_: int) -> Hold:
        barrier.wait(SOON)
        return hold(attempt.directory, start)

    with ThreadPoolExecutor(8) as pool:
        attempt.holds += pool.map(one, range(8))
    until(attempt.holds[0], witness.exists)
    assert all(held.alive for held in attempt.holds)
    abort(attempt.directory)
    assert [over(held).cause for held in attempt.holds] == [Cause.CANCELLED] * 8
    assert len(witness.read_text().splitlines()) == 1


def test_holding_again_finds_what_has_ended_and_starts_nothing(attempt: Attempt) -> None:
    start = attempt.order("sh", "-c", "echo once")
    first = attempt.run(start)
    again = attempt.hold(start)
    assert (again.exit, again.alive, again.lost) == (first, False, False)
    assert asyncio.run(again.changed()) is False
    assert attempt.text() == b"once\n"


def test_there_is_nothing_to_adopt_where_nothing_was(attempt: Attempt) -> None:
    assert adopt(attempt.directory) is None
    attempt.directory.mkdir()
    assert adopt(attempt.directory) is None


def orphan(attempt: Attempt, timeout: float, *agent: str) -> Hold:
    """The keeper of a supervisor that was killed, adopted."""
    words = [str(attempt.directory), str(timeout), str(attempt.root / "supervisor"), *agent]
    env = {"PATH": os.environ["PATH"], **attempt.marks}
    with subprocess.Popen([sys.executable, AGENTS / "holds.py", *words], env=env, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        holder.kill()
    held = adopt(attempt.directory)
    assert held is not None
    attempt.holds.append(held)
    return held


def test_an_agent_outlives_its_supervisor_and_is_adopted(attempt: Attempt) -> None:
    witness = attempt.root / "witness"
    held = orphan(attempt, SOON, "sh", "-c", f"echo $$ >> {witness}; echo ready; read line; sleep 60; exit 5")
    until(held, lambda: attempt.text() == b"ready\n")
    assert held.alive
    again = attempt.hold(attempt.order("no-such-program"))
    assert again.alive, "holding is adopting"
    assert held.abort()
    assert over(held).cause == over(again).cause == Cause.CANCELLED
    assert witness.read_text() == f"{attempt.facts()['pid']}\n"


def test_the_deadline_holds_without_a_supervisor(attempt: Attempt) -> None:
    exit = over(orphan(attempt, 1.0, "sleep", "60"))
    assert (exit.cause, exit.signal) == (Cause.TIMED_OUT, signal.SIGINT)


def test_a_killed_keeper_takes_the_agent_along_and_its_strays_can_be_swept(attempt: Attempt) -> None:
    held = ready(attempt, attempt.agent("litters", "stay"))
    agent, keeper = attempt.facts()["pid"], attempt.facts()["keeper"]
    with exiting(agent):
        os.kill(keeper, signal.SIGKILL)
    asyncio.run(end(held))
    assert (held.alive, held.exit, held.lost) == (False, None, True)
    assert not Path(f"/proc/{keeper}").exists(), "it is no zombie"
    found = adopt(attempt.directory)
    assert found is not None
    assert found.lost
    assert hold(attempt.directory, attempt.order("true")).lost, "and nothing is started in its place"
    assert sweep({**attempt.marks, "FLEET_HOME": "/elsewhere"}) == 0
    assert sweep({"FLEET_ATTEMPT": attempt.marks["FLEET_ATTEMPT"][:-1]}) == 0
    assert strays({}) == [], "no marks are no licence to kill everything"
    assert sweep(attempt.marks) == 8
    assert strays(attempt.marks) == []


def test_whoever_else_was_started_with_the_directory_is_left_alone(attempt: Attempt) -> None:
    held = ready(attempt, attempt.agent("stubborn"))
    idle = [sys.executable, "-I", "-S", "-c", "import signal; signal.pause()", str(attempt.directory)]
    with subprocess.Popen(idle) as somebody:
        try:
            assert rouse(attempt.directory, finally_end=True) == 1
            asyncio.run(end(held))
            assert held.lost
            assert somebody.poll() is None
        finally:
            somebody.kill()
    sweep(attempt.marks)


def test_a_keeper_that_fails_ends_the_agent_and_says_why(attempt: Attempt) -> None:
    held = attempt.hold(replace(attempt.agent("litters", "stay"), output=cast("int", "much")))
    asyncio.run(end(held))
    assert held.lost
    assert "TypeError" in attempt.text("keeper.err").decode()
    assert strays(attempt.marks) == []


def test_ended_keepers_leave_no_zombies_and_no_descriptors(attempt: Attempt) -> None:
    def run(number: int) -> int:
        attempt.directory = attempt.root / str(number)
        attempt.run(attempt.order("true"))
        return len(os.listdir("/proc/self/fd"))

    counts = [run(number) for number in range(10)]
    assert counts[-1] == counts[0]
    assert not [pid for pid in os.listdir("/proc") if pid.isdigit() and is_zombie_of_ours(pid)]


def is_zombie_of_ours(pid: str) -> bool:
    try:
        state, parent = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[:2]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state == b"Z" and int(parent) == os.getpid()


@pytest.mark.parametrize("rubbish", [b"", b"{", b"[]", b'{"cause": "bored", "ended": 1}', b"\xff\x00", b'{"cause": 1}'])
def test_a_record_that_cannot_be_read_is_none(attempt: Attempt, rubbish: bytes) -> None:
    attempt.directory.mkdir()
    (attempt.directory / "exit.json").write_bytes(rubbish)
    found = adopt(attempt.directory)
    assert found is not None
    assert (found.exit, found.lost) == (None, True)


@pytest.mark.parametrize(
    "trick", ["cp forged .exit.json", "ln -sf forged .exit.json; ln -s forged exit.json", "rm -f .*.json"]
)
def test_an_agent_does_not_write_its_own_record(attempt: Attempt, trick: str) -> None:
    (attempt.root / "forged").write_text('{"cause": "exited", "ended": 1, "code": 0}')
    script = f"cd {attempt.directory}; cp ../forged .; rm -f .exit.json; {trick}; exit 9"
    exit = attempt.run(attempt.order("sh", "-c", script))
    assert (exit.cause, exit.code) == (Cause.EXITED, 9)
    assert not (attempt.directory / "exit.json").is_symlink()


@pytest.mark.parametrize("trick", ["ln -s /dev/zero", "touch", "mkdir"])
def test_what_is_put_in_the_place_of_a_pipe_holds_nobody_up(attempt: Attempt, trick: str) -> None:
    script = (
        f"cd {attempt.directory}; for pipe in events control; do rm $pipe; {trick} $pipe; done; echo ready; sleep 60"
    )
    held = ready(attempt, attempt.order("sh", "-c", script))
    assert not abort(attempt.directory)
    found = adopt(attempt.directory)
    assert found is not None
    assert asyncio.run(found.changed()) is False
    assert found.lost
    sweep(attempt.marks)
    assert over(held).signal == signal.SIGKILL


def test_a_process_without_descriptors_does_not_take_a_keeper_for_lost(attempt: Attempt) -> None:
    held = ready(attempt, attempt.order("sh", "-c", "echo ready; exec sleep 60"))
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, limit[1]))
    try:
        for look in (lambda: held.lost, lambda: held.exit, lambda: adopt(attempt.directory)):
            with pytest.raises(OSError, match="Too many open files"):
                look()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limit)
    assert held.alive


WAYS = ["joined", "script", "compiled"]  # as fleet starts it; where nothing can be written; as pip leaves the script


@pytest.fixture(params=WAYS)
def copied(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The file of a keeper in an installation of its own."""
    copy = tmp_path / "installed" / "keep.py"
    shutil.copytree(WHERE, copy.with_name("program"))
    shutil.copy(PROGRAM, copy)
    if request.param == "joined":
        shutil.copy(program(), copy.with_suffix(".pyc"))
    elif request.param == "compiled":
        py_compile.compile(str(copy), str(copy.with_suffix(".pyc")), doraise=True)
    return copy if request.param == "script" else copy.with_suffix(".pyc")


def test_the_keeper_imports_nothing_else_of_fleet_and_little_else(copied: Path) -> None:
    """Imports are what a keeper costs; there are hundreds of them."""
    argv = [sys.executable, "-I", "-S", "-X", "importtime", str(copied), "/nowhere"]
    told = subprocess.run(argv, capture_output=True, text=True, check=False).stderr
    assert "No such file or directory: '/nowhere'" in told
    imported = {line.rpartition("|")[2].strip() for line in told.splitlines() if line.startswith("import time:")}
    heavy = {"json", "re", "signal", "subprocess", "pathlib", "typing", "selectors", "tempfile", "logging"}
    assert "ctypes" in imported
    assert not heavy & imported
    assert {name for name in imported if name.startswith("fleet")} <= {f"fleet.keeper.program.{part}" for part in PARTS}


def test_a_keeper_is_whole_in_memory_before_its_agent_runs(attempt: Attempt, copied: Path) -> None:
    """An upgrade of fleet takes its files away while it runs."""
    argv = in_terminal(attempt.directory, attempt.order("sh", "-c", "echo ready; exec sleep 60"))
    lock = locks.take(attempt.directory / "lock")
    assert lock is not None
    ends = [lock, *[named_pipe(attempt.directory / name) for name in ("events", "control")]]
    with (attempt.directory / "keeper.err").open("wb") as said:
        words = [*argv[:3], str(copied), str(attempt.directory), *map(str, ends)]
        keeper = subprocess.Popen(words, pass_fds=ends, stderr=said)
    held = adopt(attempt.directory)
    for fd in ends:
        os.close(fd)
    assert held is not None
    until(held, lambda: b"ready\n" in attempt.text())
    shutil.rmtree(copied.parent)
    held.abort()
    assert over(held).cause is Cause.CANCELLED
    assert keeper.wait() == 0


def named_pipe(path: Path) -> int:
    os.mkfifo(path)
    return os.open(path, os.O_RDWR | os.O_NONBLOCK)


def test_every_part_of_the_keeper_is_joined() -> None:
    assert {path.stem for path in WHERE.glob("*.py")} == {"__init__", *PARTS}


def test_the_keeper_is_compiled_once_and_again_when_that_was_cut_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compiled(where: str) -> Path:
        monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path / where))
        return Path(in_terminal(tmp_path / "attempt", Attempt(tmp_path).order("true"))[3])

    first = compiled("first")
    made, whole = first.stat().st_ino, first.read_bytes()
    stale = whole[:8] + b"\0\0\0\0" + whole[12:]
    for number, before in enumerate((whole, whole[:-1], whole[:10], b"", stale)):
        other = tmp_path / str(number) / first.relative_to(tmp_path / "first")
        other.parent.mkdir(parents=True)
        other.write_bytes(before)
        found = other.stat().st_ino
        assert compiled(str(number)) == other
        assert other.read_bytes() == whole
        assert (other.stat().st_ino == found) == (before == whole)
    assert compiled("first").stat().st_ino == made


def test_a_keeper_that_cannot_be_compiled_is_started_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "full").write_text("no directory")
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path / "full"))
    assert in_terminal(tmp_path / "one", Attempt(tmp_path).order("true"))[3] == str(PROGRAM)
