"""The fence around an agent: what it is kept from is not there for it, and no way leads back."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from fleet.keeper import Cause, Exit, Fence, Hold, Start, hold, label, strays, sweep

AGENTS = Path(__file__).parent.parent / "standins" / "agents"
SOON = 60.0
TALKS = """
import socket, sys
with socket.create_server(("127.0.0.1", 0)) as own, socket.create_connection(own.getsockname()):
    print("with-itself")
try:
    socket.create_connection(("127.0.0.1", int(sys.argv[1])), 5)
except OSError as problem:
    print(type(problem).__name__)
"""
TRIED = subprocess.run(["unshare", "-Um", "--map-current-user", "true"], capture_output=True, text=True, check=False)
fences = pytest.mark.skipif(TRIED.returncode != 0, reason=f"no namespaces here: {TRIED.stderr.strip()}")


@dataclass
class Yard:
    """A home with a secret in it and a directory that is shown, and the agents that look at them."""

    root: Path
    count: int = field(default=0)

    def __post_init__(self) -> None:
        self.home, self.shown = self.root / "home", self.root / "home" / "tasks" / "t1" / "artifacts"
        self.shown.mkdir(parents=True)
        (self.home / "key").write_text("secret")
        (self.shown / "notes").write_text("mine")

    @property
    def fence(self) -> Fence:
        return Fence(hidden=(self.home,), shown=(self.shown,), read_only=(self.home,))

    def start(self, script: str, fence: Fence | None, *, cwd: Path | None = None) -> Start:
        return Start(
            argv=("/bin/sh", "-c", script),
            env={"PATH": os.environ["PATH"], "HOME": str(self.root), "THERE": str(self.home), "MINE": str(self.shown)},
            cwd=cwd or self.root,
            stdin="",
            timeout=SOON,
            output=1 << 20,
            dead_man=600.0,
            supervisor_lock=self.root / "supervisor",
            interrupt=0.2,
            terminate=0.3,
            fence=fence,
        )

    def run(self, script: str, fence: Fence | None = None, *, cwd: Path | None = None) -> tuple[Exit, str]:
        """How it ended, and what it said."""
        self.count += 1
        directory = self.home / "attempts" / str(self.count)
        ended = over(hold(directory, self.start(script, fence or self.fence, cwd=cwd)))
        said = [(directory / name).read_text(errors="replace") for name in ("stdout", "stderr")]
        return ended, "".join(said)


def over(held: Hold) -> Exit:
    async def end() -> None:
        async with asyncio.timeout(SOON):
            while await held.changed():
                pass

    asyncio.run(end())
    assert held.exit is not None, (held.directory / "keeper.err").read_text()
    return held.exit


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    return Yard(tmp_path)


@fences
def test_what_is_hidden_is_not_there_and_what_is_shown_can_be_written(yard: Yard) -> None:
    ended, said = yard.run('ls -A "$THERE"; cat "$MINE/notes"; cat "$THERE/key"; echo more >>"$MINE/notes"')

    assert (ended.fenced, ended.unfenced, ended.code) == (True, None, 0), said
    assert said.startswith("tasks\nmine"), said
    assert "key: No such file" in said
    assert (yard.shown / "notes").read_text() == "minemore\n"
    assert (yard.home / "key").read_text() == "secret"


@fences
def test_no_way_leads_back(yard: Yard) -> None:
    """Not even for root, who is master of all that it makes itself. The same ways are open to one without a fence."""
    tries = f"{sys.executable} -I -S {AGENTS}/breaks_out.py '{yard.home}' {os.getpid()}"

    _, fenced = yard.run(tries)
    _, free = yard.run(tries, Fence())

    assert fenced == "got out: nowhere\n"
    assert "by its name, written" in free, "the ways are ways"


@fences
def test_who_keeps_the_agent_cannot_be_looked_into(yard: Yard) -> None:
    """The keeper has the home open: it is outside, and its parent."""
    _, said = yard.run(f"exec {sys.executable} -I -S {AGENTS}/breaks_out.py '{yard.home}' $PPID")

    assert said == "got out: nowhere\n"


@fences
def test_an_agent_without_a_network_has_a_loopback_of_its_own(yard: Yard) -> None:
    with socket.create_server(("127.0.0.1", 0)) as ours:
        port = ours.getsockname()[1]
        _, said = yard.run(f"{sys.executable} -c '{TALKS}' {port}", Fence(network=False))

    assert said.split() == ["with-itself", "ConnectionRefusedError"]


@fences
@pytest.mark.parametrize("where", ["inside", "link to it", "above"])
def test_an_agent_can_work_inside_of_what_is_hidden(yard: Yard, where: str) -> None:
    """The home has the places of agents in it, may be named by a link, and may be in the directory of the task."""
    place = yard.home / "places" / "one"
    place.mkdir(parents=True)
    linked = yard.root / "linked"
    linked.symlink_to(yard.home)
    cwd = {"inside": place, "link to it": linked / "places" / "one", "above": yard.root}[where]
    home = linked if where == "link to it" else yard.home

    ended, said = yard.run("pwd; echo x >made; ls -A ../..", Fence((home,), (cwd, yard.shown), (home,)), cwd=cwd)

    assert ended.fenced, ended.unfenced
    assert (cwd / "made").read_text() == "x\n"
    assert "key" not in said.split()


@fences
def test_a_link_that_an_agent_planted_shows_nothing_more(yard: Yard) -> None:
    (yard.home / "elsewhere").symlink_to(yard.home)
    (yard.home / "through").symlink_to(yard.home / "tasks")
    shown = (yard.home / "elsewhere", yard.home / "through")

    ended, said = yard.run('ls -A "$THERE"', replace(yard.fence, shown=shown))

    assert (ended.fenced, said) == (True, "")


@fences
def test_what_is_to_be_read_only_is(yard: Yard) -> None:
    tools = yard.root / "tools"
    tools.mkdir()
    (yard.root / "dangling").symlink_to("/nowhere")
    ended, said = yard.run("touch tools/x; touch x && echo done", Fence(read_only=(tools, yard.root / "dangling")))

    assert ended.fenced is True, "what is not there opens no fence"
    assert "Read-only" in said
    assert "done" in said
    assert not (tools / "x").exists()


@fences
def test_what_is_set_apart_has_nothing_of_ours_above_it(yard: Yard) -> None:
    """Programs look for their settings in all directories above the one that they work in."""
    (yard.root / "pytest.ini").touch()
    inner = yard.shown / "inner"
    inner.mkdir()
    fence = replace(yard.fence, apart=yard.shown)

    ended, said = yard.run("pwd; ls -A ../..; touch made ../made ../../made ../../../made", fence, cwd=inner)

    assert (ended.fenced, ended.unfenced) == (True, None)
    where, *above = said.splitlines()
    assert (Path(where).name, Path(where).parent.name) == ("inner", yard.shown.name)
    assert not Path(where).is_relative_to(yard.root)
    assert above[0] == yard.shown.name
    assert (inner / "made").exists()
    assert (yard.shown / "made").exists()
    assert "Read-only" in above[1], "nor can the one who is set apart leave something there"


@fences
def test_of_what_is_guarded_only_what_is_named_can_be_written_to(yard: Yard) -> None:
    """The home and a place stand inside it; of what is open in it, one file and one directory are closed again."""
    for name in (".git/hooks", "places/one", "src"):
        (yard.root / name).mkdir(parents=True)
    (yard.root / ".git/config").write_text("as it was")
    (yard.root / "file").write_text("open\n")
    fence = replace(
        yard.fence,
        guarded=(yard.root,),
        writable=tuple(yard.root / name for name in (".git", "places/one", "file", "missing")),
        read_only=tuple(yard.root / name for name in ("home", ".git/config", ".git/hooks", "missing")),
    )
    tried = (
        "src/x", "x", "places/x", ".git/config", ".git/hooks/x", "home/x",
        ".git/index", "places/one/x", "file", "home/tasks/t1/artifacts/x",
    )  # fmt: skip

    ended, said = yard.run("".join(f"(echo x >>{name}) 2>&- && echo {name}\n" for name in tried), fence)

    assert ended.fenced, ended.unfenced
    assert tuple(said.split()) == tried[-4:]
    assert (yard.root / ".git/config").read_text() == "as it was"


@pytest.mark.parametrize("required", [False, True])
def test_a_fence_that_cannot_be_is_said_and_may_be_required(yard: Yard, required: bool) -> None:
    """Such as that of a task which works in the home itself."""
    whole = Fence((yard.home,), (yard.home,), required=required)

    ended, said = yard.run('cat "$THERE/key"', whole)

    if required:
        assert (ended.cause, ended.fenced) == (Cause.NOT_STARTED, None)
        assert "is to be hidden, and to be shown" in (ended.error or "")
    else:
        assert (ended.cause, ended.fenced, said) == (Cause.EXITED, False, "secret")
        assert "is to be hidden, and to be shown" in (ended.unfenced or "")


@fences
def test_a_kernel_that_refuses_is_said(yard: Yard) -> None:
    script = f"""
import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})
from pathlib import Path
from test_fence import Yard
ended, said = Yard(Path({str(yard.root / "inner")!r})).run('cat "$THERE/key"')
print(ended.fenced, ended.unfenced, said)
"""
    closed = 'echo 0 >/proc/sys/user/max_user_namespaces; exec "$@"'
    argv = ["unshare", "-Ur", "sh", "-c", closed, "sh", sys.executable, "-c", script]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)

    assert done.stdout == "False ENOSPC: No space left on device: unshare secret\n", done.stderr


@fences
def test_who_forgot_its_environment_is_found_by_its_fence(yard: Yard) -> None:
    """A daemon of its own session, whose keeper was killed: nothing but the fence tells whose it is."""
    marks = {"FLEET_ATTEMPT": f"{yard.root}.1"}
    script = "env -i setsid -f sleep 600; kill -9 $PPID"
    held = hold(yard.home / "lost", yard.start(script, replace(yard.fence, label=label(marks))))

    async def lose() -> None:
        async with asyncio.timeout(SOON):
            while await held.changed():
                pass

    asyncio.run(lose())
    assert held.lost
    found = strays(marks)
    assert [Path(f"/proc/{pid}/comm").read_text() for pid in found] in (["sleep\n"], ["setsid\n"]), "as far as it came"
    assert strays({"FLEET_ATTEMPT": f"{yard.root}.2"}) == []
    assert sweep(marks) == 1
    assert strays(marks) == []


@fences
def test_how_an_agent_ends_is_known_through_the_fence(yard: Yard) -> None:
    failed, _ = yard.run("exit 7")
    killed, _ = yard.run("kill -9 $$")
    missing = yard.run("true", cwd=yard.root / "nowhere")[0]

    assert (failed.cause, failed.code) == (Cause.EXITED, 7)
    assert (killed.cause, killed.signal) == (Cause.EXITED, 9)
    assert (missing.cause, missing.error) == (
        Cause.NOT_STARTED,
        f"ENOENT: No such file or directory: {yard.root}/nowhere",
    )
