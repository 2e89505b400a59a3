"""The program at a real terminal, under a real shell with job control: when it draws, and what it completes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from standins.coders.scratch import Scratch, alive, scratch
from standins.shell import PROMPT, Shell, interactive_bash

OWN_SCREEN, SCREEN_LEFT = "\x1b[?1049h", "\x1b[?1049l"
CLEARED = "\x1b[H\x1b[J"
FLEET = f"{sys.executable} -m fleet"
CTRL_Z, CTRL_C = "\x1a", "\x03"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Scratch]:
    with scratch(tmp_path) as made:
        made.settle("coder=ok", coders={"ok": {}})
        yield made


@pytest.fixture
def shell(home: Scratch) -> Iterator[Shell]:
    with interactive_bash(home.env, home.root) as made:
        yield made


def end_supervisor(home: Scratch, shell: Shell) -> None:
    """Stop it from the same shell, which then says that the job is done."""
    shell.type(f"{FLEET} run stop\n")
    shell.wait_for("stopped the supervisor")
    shell.type("wait; echo all''ended\n")
    shell.wait_for("allended")


def test_a_supervisor_in_the_background_of_a_shell_prints_lines_and_draws_nothing(home: Scratch, shell: Shell) -> None:
    shell.type(f"{FLEET} run &\n")
    shell.wait_for("supervisor started")
    task = home.add("one", "--cwd", home.place("p"))
    shell.wait_for(f"{task}.1  settled")
    shown = shell.call(f"{FLEET} tasks --all")
    assert "one" in shown, "what another command prints stays there to be read"
    end_supervisor(home, shell)
    assert OWN_SCREEN not in shell.shown
    assert CLEARED not in shell.shown
    assert shell.shown.count("fleet tasks shows the tasks, fleet run stop ends it") == 1


def test_a_supervisor_draws_only_while_it_is_in_front(home: Scratch, shell: Shell) -> None:
    shell.type(f"{FLEET} run\n")
    shell.wait_for(OWN_SCREEN)
    shell.type(CTRL_Z)
    shell.wait_for(SCREEN_LEFT)
    assert OWN_SCREEN not in shell.wait_for(PROMPT), "what it had drawn is gone before the shell asks for more"
    shell.type("bg\n")
    said = shell.wait_for("fleet run stop ends it")
    task = home.add("one", "--cwd", home.place("p"))
    said += shell.wait_for(f"{task}.1  settled")
    assert OWN_SCREEN not in said
    assert CLEARED not in said
    shell.type("fg\n")
    shell.wait_for(OWN_SCREEN)
    shell.wait_for("p: 1 done")
    shell.type(CTRL_C)
    shell.wait_for(SCREEN_LEFT)
    assert "stopped. p: 1 done" in shell.wait_for(PROMPT)


STOPPED_WHILE_IT_DRAWS = """
import os, signal
from fleet.cli.screen import Screen

with Screen(True) as screen:
    screen.draw(lambda: os.kill(os.getpid(), signal.SIGTSTP))
    screen.draw(lambda: print("drawn again"))
"""


def test_what_is_being_drawn_at_ctrl_z_is_finished_first(home: Scratch, shell: Shell) -> None:
    script = home.root / "draws.py"
    script.write_text(STOPPED_WHILE_IT_DRAWS)
    shell.type(f"{sys.executable} {script}\n")
    shell.wait_for(OWN_SCREEN)
    shell.wait_for(SCREEN_LEFT)
    assert OWN_SCREEN not in shell.wait_for(PROMPT)
    shell.type("fg\n")
    shell.wait_for(OWN_SCREEN)
    shell.wait_for("drawn again")
    shell.wait_for(SCREEN_LEFT)


@pytest.mark.parametrize("command", ["tasks --watch", "list --watch"])
def test_a_watch_in_the_background_waits_until_it_is_in_front(home: Scratch, shell: Shell, command: str) -> None:
    shell.type(f"{FLEET} {command} & job=$!\n")
    shell.wait_for("fg brings it to the front")
    pid = int(shell.call("echo pid $job").rpartition("pid ")[2].split()[0])
    assert alive(pid)
    assert OWN_SCREEN not in shell.shown
    shell.type("fg\n")
    shell.wait_for(OWN_SCREEN)
    shell.type(CTRL_C)
    shell.wait_for(SCREEN_LEFT)
    shell.wait_for(PROMPT)
    assert not alive(pid)


def test_a_demonstration_in_the_background_prints_what_came_of_it_and_draws_nothing(shell: Shell) -> None:
    shell.type(f"{FLEET} demo &\n")
    shell.wait_for("What fleet makes of it:")
    shell.type("wait; echo all''ended\n")
    shell.wait_for("allended")
    assert OWN_SCREEN not in shell.shown
    assert CLEARED not in shell.shown


@pytest.fixture
def programs(home: Scratch) -> Path:
    """A directory with `fleet` in it, as an installation has one."""
    directory = home.root / "bin"
    directory.mkdir()
    (directory / "fleet").write_text(f'#!/bin/sh\nexec {FLEET} "$@"\n')
    (directory / "fleet").chmod(0o755)
    return directory


def test_bash_completes_commands_and_options(home: Scratch, programs: Path) -> None:
    with interactive_bash({**home.env, "PATH": f"{programs}:{home.env['PATH']}"}, home.root) as shell:
        shell.call('eval "$(_FLEET_COMPLETE=bash_source fleet)"')
        shell.type("fleet do\t")
        shell.wait_for("fleet doctor ")
        shell.type("--js\t")
        shell.wait_for("--json ")


@pytest.mark.parametrize("words", ["fleet ", "fleet do", "fleet --"])
def test_completing_a_command_loads_none(home: Scratch, words: str) -> None:
    asked = {"_FLEET_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": "1"}
    argv = [sys.executable, "-X", "importtime", "-m", "fleet"]
    done = subprocess.run(argv, env=home.env | asked, cwd=home.root, capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr[-2000:]
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    assert {one for one in loaded if one.partition(".")[0] == "fleet"} == {"fleet", "fleet.cli"}
    assert loaded & {"asyncio", "dbos", "msgspec", "sqlite3", "yaml"} == set()


@pytest.mark.parametrize("kind", ["bash", "zsh", "fish"])
@pytest.mark.parametrize("name", ["fleet", "flt", "subagent-fleet"])
def test_there_is_a_completion_for_every_shell_and_name(home: Scratch, kind: str, name: str) -> None:
    program = Path(sys.executable).with_name(name)
    variable = f"_{name.upper().replace('-', '_')}_COMPLETE"
    done = subprocess.run(
        [program], env=home.env | {variable: f"{kind}_source"}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert name in done.stdout
