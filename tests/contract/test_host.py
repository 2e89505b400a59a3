"""The hands: processes are seen to be gone, locks die with their holder, files are whole or not there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fleet.core import FleetError
from fleet.host import files, locks, machine, process, program, run
from standins.coders.scratch import until

STUBBORN = "import signal, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); signal.pause()"


def test_a_process_that_ignores_the_request_to_end_is_made_to(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", STUBBORN], stdout=subprocess.PIPE, start_new_session=True)
    assert child.stdout is not None
    child.stdout.readline()
    assert process.end(child.pid, lambda: not Path(f"/proc/{child.pid}").exists(), grace=0.3)
    child.stdout.close()
    child.returncode = -9  # it was collected by `end`


WAITS = """
import sys
from pathlib import Path
from fleet.host import run

run.unwind_when_told()
run.run(["sh", "-c", "echo $$ >pid.new; mv pid.new pid; exec sleep 1000"], cwd=Path(sys.argv[1]), env={}, timeout=1000)
"""


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_who_is_stopped_while_a_program_runs_ends_it(tmp_path: Path, sign: signal.Signals) -> None:
    argv = [sys.executable, "-c", WAITS, str(tmp_path)]
    with subprocess.Popen(argv, stderr=subprocess.DEVNULL) as waits:
        until((tmp_path / "pid").exists)
        waits.send_signal(sign)
    assert waits.returncode != 0
    assert not Path("/proc", (tmp_path / "pid").read_text().strip()).exists()


@pytest.mark.parametrize("sign", ["INT", "TERM", "HUP"])
def test_who_is_stopped_while_a_program_is_being_started_ends_it(tmp_path: Path, sign: str) -> None:
    """The program itself tells us to stop, as its first deed: we may not have heard yet that it runs."""
    for number in range(5):
        place = tmp_path / str(number)
        place.mkdir()
        script = WAITS.replace("echo $$ >pid.new", f"kill -{sign} $PPID; echo $$ >pid.new")
        done = subprocess.run([sys.executable, "-c", script, str(place)], capture_output=True, timeout=60, check=False)
        assert done.returncode != 0
        left = (place / "pid").read_text().split() if (place / "pid").exists() else []
        assert not any(Path("/proc", pid).exists() for pid in left)


def test_a_signal_that_was_ignored_stays_ignored(tmp_path: Path) -> None:
    """As under nohup."""
    told = "import signal; from fleet.host import run; run.unwind_when_told(); print(signal.getsignal(1).name)"
    argv = ["sh", "-c", 'trap "" HUP; exec "$0" -c "$1"', sys.executable, told]
    assert "SIG_IGN" in subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def test_a_lock_is_held_for_as_long_as_the_child_that_inherits_it_lives(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    assert not locks.held(lock)
    fd = locks.take(lock)
    assert fd is not None
    env = {"PATH": os.defpath}
    child = process.detach([sys.executable, "-c", "import signal; signal.pause()"], env, tmp_path / "log", fd)
    locks.release(fd)
    assert locks.held(lock)
    assert locks.take(lock) is None
    assert process.end(child.pid, lambda: not locks.held(lock))
    assert not locks.held(lock)
    child.returncode = -15


def test_a_file_is_replaced_whole_and_never_through_a_link(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("precious")
    link.symlink_to(target)
    with open(target) as before:
        files.write(target, b"new")
        assert before.read() == "precious", "a reader that has it open keeps the old content"
    files.write(link, b"other")
    assert (target.read_text(), link.is_symlink()) == ("new", False)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "target"], "no draft is left"


def test_a_draft_stands_where_it_was_told_to(tmp_path: Path) -> None:
    """A draft may hold a key, and whoever is killed leaves it behind."""
    drafts = tmp_path / "drafts"
    with files._draft(tmp_path / "file", b"s", files.PRIVATE, drafts) as draft:
        assert draft.parent == drafts
        assert draft.stat().st_mode & 0o777 == 0o600
    files.write(tmp_path / "new" / "file", b"s", drafts=drafts)
    assert (tmp_path / "new" / "file").read_bytes() == b"s"
    assert list(drafts.iterdir()) == []


def test_what_is_private_is_private_from_the_first_byte(tmp_path: Path) -> None:
    files.write(tmp_path / "secret", b"s", files.PRIVATE)
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o600


def test_of_two_that_create_one_wins(tmp_path: Path) -> None:
    assert files.create(tmp_path / "a", b"1")
    assert not files.create(tmp_path / "a", b"2")
    assert (tmp_path / "a").read_bytes() == b"1"


def test_only_plain_files_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to(tmp_path / "plain")
    (tmp_path / "plain").write_bytes(b"x" * 10)
    before = len(os.listdir("/proc/self/fd"))
    for odd in (tmp_path, tmp_path / "fifo", tmp_path / "link", Path("/dev/zero")):
        with pytest.raises(OSError):  # noqa: PT011 - which one depends on what it is
            files.read(odd)
    with pytest.raises(OSError, match="larger"):
        files.read(tmp_path / "plain", limit=5)
    assert files.read(tmp_path / "missing") is None
    assert len(os.listdir("/proc/self/fd")) == before


def test_our_directory_is_never_a_link(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / files.OWN).symlink_to(tmp_path)
    with pytest.raises(FleetError):
        files.own_dir(tmp_path / "p")


@pytest.mark.parametrize(
    ("row", "loopback"),
    [
        ("0100007F", True),
        ("00000000", False),
        ("0" * 24 + "01000000", True),
        ("0" * 32, False),
        ("0" * 16 + "FFFF00000100007F", True),
    ],
)
def test_addresses_of_the_kernels_table(row: str, loopback: bool) -> None:
    assert machine._is_loopback(row) is loopback


TREE = """
import os, sys
kept = bytearray(30_000_000)
if os.fork() == 0:
    os.setsid()
    kept = bytearray(30_000_000)
    if os.fork() == 0:
        while os.times().user < 0.2:
            pass
        os._exit(0)
    os.wait()
print("up", flush=True)
sys.stdin.read()
"""


def test_what_a_tree_uses_is_all_of_it_in_one_look() -> None:
    """The child has a session of its own, and the grandchild, who did the work, has ended."""
    with subprocess.Popen([sys.executable, "-c", TREE], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        first = process.facts([child.pid])[child.pid]
        for _ in range(2):
            child.stdout.readline()
        found = process.facts([child.pid, os.getpid(), 2**22 + 1])
        tree = found[child.pid]
        assert (tree.processes, set(found)) == (2, {child.pid, os.getpid()})
        assert tree.memory > 60_000_000
        assert tree.cpu >= 0.2
        assert tree.share == tree.cpu / tree.age
        assert tree.share_since(first) > 0
        assert found[os.getpid()].memory > tree.memory, "what is below counts for those above"
        child.stdin.close()
    assert process.facts([child.pid]) == {}


def test_what_cannot_be_become_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shell").write_text("no program")
    for argv, cwd, said in (
        ([str(tmp_path / "shell")], tmp_path, "shell cannot be run"),
        (["no-such-program"], tmp_path, "no-such-program is not installed"),
        (["true"], tmp_path / "gone", "gone cannot be entered"),
    ):
        with pytest.raises(FleetError, match=said):
            run.become(argv, cwd=cwd, env={"PATH": os.environ["PATH"]})


def test_a_process_is_found_by_what_it_was_started_with_and_ended(tmp_path: Path) -> None:
    by_variable = subprocess.Popen([sys.executable, "-S", "-c", "input()"], env={"PLACE": str(tmp_path)}, stdin=-1)
    by_argument = subprocess.Popen([sys.executable, "-S", "-c", "input()", f"{tmp_path}/x"], env={}, stdin=-1)
    bystander = subprocess.Popen([sys.executable, "-S", "-c", "input()"], env={}, stdin=-1)
    try:
        assert {one.pid for one in process.mentioning(str(tmp_path))} == {by_variable.pid, by_argument.pid}
        assert process.variable(by_variable.pid, "PLACE") == str(tmp_path)
        assert process.variable(by_argument.pid, "PLACE") is None
        assert process.arguments(by_argument.pid)[4] == f"{tmp_path}/x"
        assert process.end_all(lambda: process.mentioning(str(tmp_path))) == 2
        assert (by_variable.wait(10), by_argument.wait(10)) == (-9, -9)
        assert bystander.poll() is None
    finally:
        for one in (by_variable, by_argument, bystander):
            one.kill()
            one.communicate()


class Late(subprocess.Popen[bytes]):
    """A process that, whenever we look whether it lives, comes to its end just before: as on a busy machine."""

    def poll(self) -> int | None:
        self.wait()
        return super().poll()


def test_what_a_program_prints_while_we_look_elsewhere_is_not_lost() -> None:
    pipe = subprocess.PIPE
    with Late(["sh", "-c", "sleep 0.3; echo its last words"], stdin=pipe, stdout=pipe, stderr=pipe) as process:
        pump = run._Pump(process, b"", 1000, wary=False)
        assert pump.until(time.monotonic() + 30)
        pump.close()
    assert bytes(pump.out) == b"its last words\n"


def test_how_a_program_begins_is_told_also_of_one_with_two_names(tmp_path: Path) -> None:
    (tmp_path / "tool").write_text("#!/usr/bin/env python3\nprint()\n")
    (tmp_path / "tool").chmod(0o755)
    (tmp_path / "other").hardlink_to(tmp_path / "tool")
    assert (program.opening("other", [tmp_path]) or "").startswith("#!/usr/bin/env python3")
    assert program.opening("neither", [tmp_path]) is None


def test_the_modules_of_every_python_that_may_be_found_are_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for prefix, name in (("first", "one.py"), ("lent", "two.cpython-311.so"), ("nobodys", "three.py")):
        at = tmp_path / prefix / "lib/python3.11/site-packages"
        (at / f"{name}-1.0.dist-info").mkdir(parents=True)
        (at / name).touch()
        (at / prefix).mkdir()
    (tmp_path / "first/bin").mkdir()
    (tmp_path / "first/bin/python3").symlink_to(sys.executable)
    monkeypatch.setenv("PATH", f"{tmp_path / 'first/bin'}:{tmp_path / 'nobodys/bin'}:/nowhere")
    found = program.modules([tmp_path / "lent", tmp_path / "missing"])
    assert {"one", "first", "two", "lent", "pip"} <= found
    assert found.isdisjoint({"three", "nobodys"})
