"""Sessions in a real tmux: what is typed there, by whom, what is seen of it, and that nothing outlives it."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from fleet import keeper
from fleet.core.talk import Delivery, Signal, SignalKind
from fleet.keeper import Cause, Start
from fleet.sessions import Seen, Server, deliver

AGENTS = Path(__file__).parent.parent / "standins" / "agents"
SOON = 60.0
pytestmark = pytest.mark.tmux
ATTEMPT = "t1.1"


def until(true: Callable[[], object]) -> None:
    deadline = time.monotonic() + SOON
    while not true():
        assert time.monotonic() < deadline, true
        select.select([], [], [], 0.01)


def is_running(pid: int) -> bool:
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    return False


@dataclass
class Desk:
    """One server and one attempt in it."""

    root: Path
    server: Server = field(init=False)
    directory: Path = field(init=False)
    marks: dict[str, str] = field(default_factory=lambda: {"FLEET_ATTEMPT": uuid.uuid4().hex, "FLEET_HOME": "/nowhere"})

    def __post_init__(self) -> None:
        self.server = Server(self.root / "home", self.root)
        self.directory = self.root / "attempt"

    def start(self, *argv: str, **changes: object) -> Start:
        order: dict[str, object] = {
            "env": {"PATH": os.environ["PATH"], **self.marks},
            "cwd": self.root,
            "stdin": "",
            "timeout": float("inf"),
            "output": 0,
            "dead_man": float("inf"),
            "supervisor_lock": self.root / "supervisor",
            "interrupt": 0.2,
            "terminate": 0.3,
        }
        return Start(argv=argv, **(order | changes))  # type: ignore[arg-type]

    def open(self, *argv: str, **changes: object) -> Seen:
        """The agent in a session, as a keeper has it."""
        command = keeper.in_terminal(self.directory, self.start(*argv, **changes))
        return self.server.open("ai_one", ATTEMPT, self.root, command)

    def talk(self, *words: str, **changes: object) -> Seen:
        return self.open(sys.executable, "-I", "-S", str(AGENTS / "talks.py"), str(self.root), *words, **changes)

    def hear(self) -> Sequence[Signal]:
        lines = self.read("signals").decode().splitlines()
        return [Signal(SignalKind(one["kind"]), one["at"], one["text"]) for one in map(json.loads, lines)]

    def give(
        self, text: str, *, tells: bool = True, ready_within: float = 60.0, taken_within: float = 20.0
    ) -> Delivery:
        return deliver(
            self.server,
            ATTEMPT,
            text,
            self.hear,
            directory=self.directory,
            tells=tells,
            ready_within=ready_within,
            taken_within=taken_within,
        )

    def took(self) -> list[str]:
        return self.read("took").decode().split("\0")[:-1]

    def read(self, name: str) -> bytes:
        path = self.root / name
        return path.read_bytes() if path.exists() else b""

    def over(self) -> keeper.Exit:
        until(lambda: not keeper.is_alive(self.directory) and (self.directory / "exit.json").exists())
        hold = keeper.adopt(self.directory)
        assert hold is not None
        assert hold.exit is not None
        return hold.exit

    def tmux(self, *words: str) -> str:
        """What a person types who knows the socket."""
        argv = ["tmux", "-L", self.server.socket, *words]
        env = {"PATH": os.environ["PATH"], "LC_CTYPE": "C.UTF-8"}
        return subprocess.run(argv, env=env, capture_output=True, text=True, check=False).stdout

    def server_pid(self) -> int:
        return int(self.tmux("display-message", "-p", "#{pid}"))


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    it = Desk(tmp_path)
    yield it
    keeper.abort(it.directory)
    until(lambda: not keeper.is_alive(it.directory))
    it.tmux("kill-server")
    Path(f"/tmp/tmux-{os.getuid()}", it.server.socket).unlink(missing_ok=True)  # tmux leaves it there
    assert keeper.sweep(it.marks) == 0, "the test left processes behind"


# --- a server of our own ---


def test_where_no_server_runs_there_is_nothing(desk: Desk) -> None:
    assert desk.server.seen() == []
    assert desk.server.picture(ATTEMPT) is None
    assert desk.server.attach_argv(ATTEMPT) is None
    assert not desk.server.close(ATTEMPT)


def test_a_session_is_opened_once_and_found_by_its_attempt(desk: Desk) -> None:
    first = desk.server.open("ai_x", ATTEMPT, desk.root, ["cat", "-"])
    assert (first.name, first.attempt, first.dead, first.attached) == ("ai_x", ATTEMPT, False, 0)
    assert desk.server.open("ai_x", ATTEMPT, desk.root, ["cat", "-"]) == first
    desk.tmux("rename-session", "-t", first.id, "mine now")
    assert [(one.id, one.name) for one in desk.server.seen()] == [(first.id, "mine now")]
    assert desk.server.open("ai_x", ATTEMPT, desk.root, ["cat", "-"]).id == first.id
    assert desk.server.close(ATTEMPT)
    assert not desk.server.close(ATTEMPT)
    assert desk.server.seen() == []


def test_a_name_that_another_attempt_has_gets_a_number(desk: Desk) -> None:
    names = [desk.server.open("ai_x", attempt, desk.root, ["cat", "-"]).name for attempt in ("t1.1", "t2.1", "t3.1")]
    assert names == ["ai_x", "ai_x-2", "ai_x-3"]
    assert [one.attempt for one in desk.server.seen()] == ["t1.1", "t2.1", "t3.1"]


def test_many_at_once_start_one_server_and_one_session_for_each_attempt(desk: Desk) -> None:
    def open_one(number: int) -> Seen:
        return Server(desk.root / "home", desk.root).open("ai_x", f"t{number % 5}.1", desk.root, ["cat", "-"])

    with ThreadPoolExecutor(15) as pool:
        opened = list(pool.map(open_one, range(15)))
    assert {one.attempt: one.id for one in desk.server.seen()} == {one.attempt: one.id for one in opened}
    assert len(desk.server.seen()) == 5


def test_words_reach_the_program_as_they_are(desk: Desk) -> None:
    words = ["it's", 'a "b"', "$(id)", "`id`", "a;", ";", "\\;", "#{pid}", "#(id)", "-x", "", "ä\n\t*"]
    where = desk.root / "a #{pid} #(id) ü;"
    where.mkdir()
    script = "import json, os, sys; print(json.dumps([os.getcwd(), *sys.argv[1:]])); sys.stdin.read()"
    desk.server.open("ai_#(id)", ATTEMPT, where, [sys.executable, "-I", "-S", "-c", script, *words], size=(400, 20))
    until(lambda: desk.server.picture(ATTEMPT))
    assert json.loads(desk.server.picture(ATTEMPT) or "") == [str(where), *words]
    assert desk.server.seen()[0].name == "ai_#(id)"


def test_a_single_word_is_a_program_and_not_a_line_of_shell(desk: Desk) -> None:
    program = desk.root / "a program; echo ä"
    program.write_text("#!/bin/sh\necho it ran\ncat\n")
    program.chmod(0o755)
    desk.server.open("ai_x", ATTEMPT, desk.root, [str(program)])
    until(lambda: desk.server.picture(ATTEMPT) == "it ran")


def test_a_server_has_nothing_of_who_started_it(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_CALLER", "x")
    monkeypatch.setenv("TMUX_TMPDIR", str(desk.root))
    (desk.root / ".tmux.conf").write_text("set -g status-left surprise\n")
    monkeypatch.setenv("HOME", str(desk.root))
    desk.server.open("ai_x", ATTEMPT, desk.root, ["cat", "-"])
    pid = desk.server_pid()
    assert b"SECRET_OF_THE_CALLER" not in Path(f"/proc/{pid}/environ").read_bytes()
    assert os.getsid(pid) == pid, "it ends with the terminal it was started in"
    assert "SECRET" not in desk.tmux("show-environment", "-g")
    assert "surprise" not in desk.tmux("show-options", "-g")
    monkeypatch.delenv("TMUX_TMPDIR")
    assert len(desk.server.seen()) == 1, "cron and a shell see different servers"


def test_two_repositories_and_two_homes_have_servers_of_their_own(tmp_path: Path) -> None:
    sockets = {Server(tmp_path / home, tmp_path / place).socket for home in "ab" for place in "cd"}
    assert len(sockets) == 4
    assert all(len(socket) < 40 for socket in sockets)


def test_a_pane_that_a_person_adds_is_not_taken_for_the_agents(desk: Desk) -> None:
    first = desk.server.open("ai_x", ATTEMPT, desk.root, ["cat", "-"])
    desk.tmux("split-window", "-b", "-t", first.id, "cat")
    assert [(one.pid, one.pane) for one in desk.server.seen()] == [(first.pid, first.pane)]
    desk.tmux("kill-pane", "-t", first.pane or "")
    assert [(one.attempt, one.pid, one.dead) for one in desk.server.seen()] == [(ATTEMPT, None, True)]


def test_the_last_picture_of_what_has_ended_stays(desk: Desk) -> None:
    seen = desk.server.open("ai_x", ATTEMPT, desk.root, ["sh", "-c", "seq 100; echo last words; read x"])
    until(lambda: "last words" in (desk.server.picture(ATTEMPT) or ""))
    desk.server.enter(seen.pane or "")
    until(lambda: desk.server.seen()[0].dead)
    assert (desk.server.picture(ATTEMPT) or "").endswith("100\nlast words")
    assert (desk.server.picture(ATTEMPT, history=1000) or "").startswith("1\n2\n3\n")


def test_a_session_is_attached_to_from_inside_another_tmux(desk: Desk) -> None:
    desk.server.open("ai_x", ATTEMPT, desk.root, ["sh", "-c", "echo here it is; cat"])
    argv = desk.server.attach_argv(ATTEMPT)
    assert argv is not None
    desk.server.open("outer", "outer", desk.root, argv)
    until(lambda: "here it is" in (desk.server.picture("outer") or ""))
    assert next(one for one in desk.server.seen() if one.attempt == ATTEMPT).attached == 1
    until(lambda: "leave: C-b d" in (desk.server.picture("outer") or ""))
    around = f"/tmp/tmux-{os.getuid()}/{desk.server.socket},1,0"  # as if that one were the user's own
    assert desk.server.attach_argv(ATTEMPT, around)
    until(lambda: "leave: C-b C-b d" in (desk.server.picture("outer") or ""))
    desk.tmux("set-option", "-g", "prefix", "C-a")
    assert desk.server.attach_argv(ATTEMPT, around)
    until(lambda: "leave: C-b d" in (desk.server.picture("outer") or ""))


# --- prompts ---

HARD = [
    'it\'s a "test"; echo $(id) `id` && rm -rf ~ | $HOME \\n',
    "one\ntwo\n\nfour",
    "-n --help",
    "C-c",
    "Ünïcödé \N{SNOWMAN} \N{GRINNING FACE} e\u0301",
    "#{pid} #(id) ;",
    "x" * 50_000,
    "".join(f"line {number}: $(id) 'quoted'\n" for number in range(1500)) + "end",
]


def test_every_prompt_arrives_byte_for_byte(desk: Desk) -> None:
    desk.talk()
    for text in HARD:
        given = desk.give(text)
        assert given == Delivery(True, "it said that it took the prompt")
    assert desk.took() == HARD


def test_the_last_word_does_not_make_enter_a_new_line_or_a_choice(desk: Desk) -> None:
    desk.talk("continues")
    assert desk.give("one \\").taken
    assert desk.give("look at @here").taken
    assert desk.took() == ["one \\ ", "look at @here "]


def test_an_agent_that_took_another_text_did_not_take_ours(desk: Desk) -> None:
    desk.talk("garbles")
    given = desk.give("hello", taken_within=0.5)
    assert (given.taken, given.cause) == (False, "it took another text: olleh")


def test_an_agent_that_tells_nothing_is_given_a_prompt_by_its_screen(desk: Desk) -> None:
    desk.talk("mute")
    given = desk.give("hello there", tells=False)
    assert (given.taken, given.cause) == (True, "the prompt left its input line")
    assert desk.took() == ["hello there"]


def test_one_that_draws_its_own_cursor_too(desk: Desk) -> None:
    desk.talk("mute", "hides")
    assert desk.give("hello there", tells=False).taken
    assert desk.took() == ["hello there"]


READS_LINES = """
printf '%s' "$1"
while IFS= read -r line; do printf '%s\\0' "$line" >> took; done
"""


@pytest.mark.parametrize("shown", ["ready\n> ", ""])
def test_a_program_that_reads_lines_is_given_its_prompt_when_it_waits_for_one(desk: Desk, shown: str) -> None:
    desk.open("bash", "-c", READS_LINES, "reader", shown)
    for text in ("go", "the second one, which is longer"):
        assert desk.give(text, tells=False).taken, text
    until(lambda: len(desk.took()) >= 2)
    assert desk.took() == ["go", "the second one, which is longer"]


def test_a_program_that_reads_lines_and_is_at_work_is_given_nothing(desk: Desk) -> None:
    desk.open("bash", "-c", "echo busy; sleep 600; read -r line")
    until(lambda: desk.server.picture(ATTEMPT) == "busy")
    given = desk.give("go", tells=False, ready_within=1.0)
    assert given == Delivery(False, "the agent did not show an input prompt within 1 s", "busy")


@pytest.mark.parametrize(("text", "why"), [("one\ntwo", "one line at a time"), ("x" * 5000, "up to 4095 bytes")])
def test_what_a_program_that_reads_lines_would_take_in_pieces_is_refused(desk: Desk, text: str, why: str) -> None:
    desk.open("bash", "-c", READS_LINES, "reader", "")
    given = desk.give(text, tells=False)
    assert (given.taken, why in given.cause) == (False, True)
    assert desk.took() == []


@pytest.mark.parametrize("text", ["a\x1b[201~\rrm", "bell\x07", "\x9b201~", " \n "])
def test_what_could_end_a_paste_is_refused_and_nothing_is_typed(desk: Desk, text: str) -> None:
    desk.talk()
    assert desk.give(text).taken is False
    assert desk.give("ok").taken
    assert desk.took() == ["ok"]


def test_a_late_agent_is_waited_for(desk: Desk) -> None:
    desk.talk("late")
    with ThreadPoolExecutor() as pool:
        given = pool.submit(desk.give, "hello")
        until(lambda: "An agent that talks." in (desk.server.picture(ATTEMPT) or ""))
        assert not given.done()
        (desk.root / "go").touch()
        assert given.result().taken
    assert desk.took() == ["hello"]


def test_one_that_never_comes_to_its_prompt_is_told_with_a_picture(desk: Desk) -> None:
    desk.talk("late")
    until(lambda: desk.server.picture(ATTEMPT))
    given = desk.give("hello", ready_within=0.2)
    assert given == Delivery(False, "it has not come to its prompt yet, in 0 s", "An agent that talks.")
    assert desk.took() == []


def test_nothing_is_typed_into_a_question(desk: Desk) -> None:
    desk.talk("asks-later")
    assert desk.give("first").taken
    given = desk.give("second")
    assert given.taken is False
    assert given.cause == "it asks, and a prompt would be the answer: May I?"
    assert "May I? 1. yes  2. no" in given.picture
    assert (desk.took(), desk.read("strays")) == (["first"], b"")


def test_one_that_asks_before_it_is_ready_is_left_alone(desk: Desk) -> None:
    desk.talk("asks-first")
    until(desk.hear)
    assert desk.give("hello").taken is False
    assert desk.read("strays") == b""


def test_a_question_that_comes_with_the_paste_gets_no_enter(desk: Desk) -> None:
    desk.talk("asks-at-paste")
    given = desk.give("hello")
    assert given.taken is False
    assert given.cause == "it began to ask while the prompt was pasted: May I?"
    assert b"\r" not in desk.read("strays")


def test_enter_is_pressed_again_and_the_prompt_is_not_pasted_again(desk: Desk) -> None:
    desk.talk("deaf")
    assert desk.give("hello").taken
    assert desk.took() == ["hello"]


def test_an_enter_that_made_another_line_is_followed_by_another_enter(desk: Desk) -> None:
    desk.talk("breaks")
    assert desk.give("hello").taken
    assert desk.took() == ["hello\n"]


def test_one_that_is_ready_before_it_has_drawn_anything_is_waited_for(desk: Desk) -> None:
    desk.talk("hasty")
    assert desk.give("hello", taken_within=5.0).taken
    assert desk.took() == ["hello"]


def test_a_prompt_that_stays_in_the_input_line_is_not_taken(desk: Desk) -> None:
    desk.talk("numb")
    given = desk.give("hello", taken_within=1.0)
    assert given.taken is False
    assert given.cause == "not taken in 1 s: the prompt stands in its input line"
    assert given.picture.endswith("> hello")


def test_one_at_work_takes_a_prompt_too(desk: Desk) -> None:
    desk.talk("rambles")
    until(desk.hear)
    assert desk.give("hello").taken
    assert desk.took() == ["hello"]


def test_a_queued_prompt_is_neither_taken_nor_lost(desk: Desk) -> None:
    desk.talk("queues")
    until(lambda: len(desk.hear()) == 2)
    given = desk.give("hello", taken_within=1.0)
    assert given.taken is None
    assert "at work" in given.cause
    assert desk.took() == ["hello"]


def test_one_that_dies_of_a_prompt_did_not_take_it(desk: Desk) -> None:
    desk.talk("dies")
    given = desk.give("hello")
    assert (given.taken, given.cause) == (False, "it ended before it took the prompt")
    assert "fleet: it ended: exited with 3" in given.picture
    assert desk.give("hello").cause == "it has ended"


@pytest.mark.parametrize("mode", ["copy-mode", "clock-mode", "choose-tree"])
def test_somebody_who_looks_at_something_else_does_not_swallow_the_prompt(desk: Desk, mode: str) -> None:
    seen = desk.talk()
    until(desk.hear)
    desk.tmux(mode, "-t", seen.pane or "")
    assert desk.tmux("display-message", "-p", "-t", seen.pane or "", "#{pane_in_mode}").strip() == "1"
    assert desk.give("hello").taken
    assert desk.took() == ["hello"]


def test_two_prompts_at_once_are_taken_one_after_the_other(desk: Desk) -> None:
    desk.talk()
    texts = [f"prompt {number}\nof several" for number in range(4)]
    with ThreadPoolExecutor() as pool:
        assert all(given.taken for given in pool.map(desk.give, texts))
    assert sorted(desk.took()) == texts


def test_without_a_terminal_there_is_nobody_to_talk_to(desk: Desk) -> None:
    assert desk.give("hello") == Delivery(False, "it has no terminal")


# --- the keeper in a terminal ---


def test_an_agent_has_the_terminal_and_how_it_ended_is_recorded_and_shown(desk: Desk) -> None:
    script = "tty; stty size; stty raw; ps -o pgid=,tpgid=,sid= -p $$; env | grep -c TMUX; echo $TERM; exit 3"
    seen = desk.open("sh", "-c", script)
    exit = desk.over()
    assert (exit.cause, exit.code, exit.stdout, exit.stderr, exit.leftovers) == (Cause.EXITED, 3, 0, 0, 0)
    until(lambda: desk.server.seen()[0].dead)
    lines = (desk.server.picture(ATTEMPT) or "").split()
    assert lines[0].startswith("/dev/pts/")
    assert lines[1:3] == ["50", "200"]
    assert lines[3] == lines[4] == str(exit.pid), "it leads the group in front"
    assert lines[5] == str(seen.pid), "in the keeper's session"
    assert lines[6:8] == ["0", "screen-256color"]
    assert " ".join(lines[8:]) == "fleet: it ended: exited with 3"


def test_what_cannot_be_started_is_said_in_the_terminal(desk: Desk) -> None:
    desk.open("no-such-program")
    exit = desk.over()
    assert exit.cause is Cause.NOT_STARTED
    until(lambda: desk.server.seen()[0].dead)
    said = "fleet: it was not started: ENOENT: No such file or directory: no-such-program"
    assert desk.server.picture(ATTEMPT) == "\n" + said


def test_it_is_adopted_aborted_and_heard_like_any_other(desk: Desk) -> None:
    desk.talk("stubborn", "litters")
    until(lambda: desk.hear() and desk.read("child"))
    assert keeper.is_alive(desk.directory)
    hold = keeper.adopt(desk.directory)
    assert hold is not None
    assert hold.alive
    hold.close()
    assert keeper.abort(desk.directory)
    exit = desk.over()
    assert (exit.cause, exit.survivors) == (Cause.CANCELLED, 0)
    assert not is_running(int(desk.read("child")))
    assert sorted(path.name for path in desk.directory.iterdir()) == ["agent.json", "exit.json"]


def test_the_deadline_holds_in_a_terminal(desk: Desk) -> None:
    desk.talk(timeout=0.3)
    assert desk.over().cause is Cause.TIMED_OUT


@pytest.mark.parametrize("how", ["server killed", "server ended", "session closed", "keeper told"])
def test_nothing_outlives_its_terminal(desk: Desk, how: str) -> None:
    seen = desk.talk("stubborn", "litters")
    until(lambda: desk.hear() and desk.read("child"))
    facts = json.loads((desk.directory / "agent.json").read_text())
    match how:
        case "server killed":
            os.kill(desk.server_pid(), signal.SIGKILL)
        case "server ended":
            desk.tmux("kill-server")
        case "session closed":
            assert desk.server.close(ATTEMPT)
        case _:
            assert seen.pid is not None
            os.kill(seen.pid, signal.SIGHUP)
    exit = desk.over()
    assert (exit.cause, exit.signal, exit.survivors) == (Cause.HUNG_UP, signal.SIGKILL, 0)
    until(lambda: not any(is_running(pid) for pid in (facts["pid"], facts["keeper"], int(desk.read("child")))))


def test_a_polite_agent_whose_terminal_is_closed_ends_by_itself(desk: Desk) -> None:
    desk.talk()
    until(desk.hear)
    os.kill(desk.server_pid(), signal.SIGKILL)
    exit = desk.over()
    assert exit.cause is Cause.HUNG_UP
    assert exit.signal != signal.SIGKILL


def test_what_passes_over_one_signal_ends_at_the_one_that_terminals_send(desk: Desk) -> None:
    desk.open("sh", "-c", "trap '' TERM INT; echo up; while :; do sleep 0.05; done")
    until(lambda: desk.server.picture(ATTEMPT) == "up")
    keeper.abort(desk.directory)
    exit = desk.over()
    assert (exit.cause, exit.signal) == (Cause.CANCELLED, signal.SIGHUP)


def test_of_several_keepers_for_one_attempt_one_starts_the_agent(desk: Desk) -> None:
    desk.talk()
    until(desk.hear)
    again = keeper.in_terminal(desk.directory, desk.start("false"))
    desk.server.open("ai_two", "other", desk.root, again)
    until(lambda: any(one.dead for one in desk.server.seen() if one.attempt == "other"))
    assert "another keeper has this attempt" in (desk.server.picture("other") or "")
    assert not (desk.directory / "spec").exists()
    assert desk.give("hello").taken
    keeper.abort(desk.directory)
    desk.over()
    desk.server.close("other")
    desk.server.open("ai_two", "other", desk.root, again)
    until(lambda: any(one.dead for one in desk.server.seen() if one.attempt == "other"))
    assert "this attempt is over" in (desk.server.picture("other") or "")


def test_one_that_stops_itself_goes_on_because_no_shell_is_there_to_continue_it(desk: Desk) -> None:
    desk.talk("suspends")
    assert desk.give("hello").taken
    until(lambda: desk.took() == ["hello", "and went on"])
    assert desk.give("again").taken


def test_a_terminal_is_left_sane_by_one_that_was_cut_off(desk: Desk) -> None:
    start = desk.start(sys.executable, "-I", "-S", str(AGENTS / "talks.py"), str(desk.root), "stubborn", "hides")
    argv = keeper.in_terminal(desk.directory, start)
    terminal, other_end = pty.openpty()
    found = termios.tcgetattr(terminal)
    pid = os.fork()
    if pid == 0:
        os.login_tty(other_end)
        os.execv(argv[0], argv)
    os.close(other_end)
    until(desk.hear)
    assert termios.tcgetattr(terminal) != found
    keeper.abort(desk.directory)
    desk.over()
    assert os.waitpid(pid, 0)[1] == 0
    assert termios.tcgetattr(terminal) == found
    said = os.read(terminal, 65536)
    os.close(terminal)
    assert b"\x1b[?2004l" in said, "pastes come in brackets for ever"
    assert b"\x1b[?25h" in said, "the cursor stays hidden"


def test_the_keeper_of_a_terminal_is_small_too(desk: Desk) -> None:
    seen = desk.talk()
    until(desk.hear)
    status = Path(f"/proc/{seen.pid}/status").read_text().splitlines()
    resident = next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
    assert resident < 12 * 1024
