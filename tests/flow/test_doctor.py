"""`fleet doctor` on set-ups of the work plane: a healthy one, and broken ones, each named with what mends it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from standins.broken_engine import LAUNCH, shadow
from standins.coders.scratch import Ran, Scratch, scratch, until

HOLD = "import fcntl,sys; f=open(sys.argv[1],'w'); fcntl.flock(f,fcntl.LOCK_EX); print(flush=True); sys.stdin.read()"
Found = dict[str, str]


@dataclass
class Setup:
    """A machine where all is well: git with an identity, tmux, an agent CLI that answers and is logged in."""

    home: Scratch
    bin: Path
    env: dict[str, str]

    def put(self, name: str, script: str) -> None:
        (self.bin / name).write_text(f"#!/bin/sh\n{script}\n")
        (self.bin / name).chmod(0o755)

    def doctor(self, *args: str, **env: str) -> Ran:
        return self.home.fleet("doctor", *args, env=self.env | env)

    def checks(self, **env: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.doctor("--json", **env).json()
        return found

    def faults(self, **env: str) -> Found:
        """What is wrong, and what mends it."""
        return {check["finding"]: check["remedy"] for check in self.checks(**env) if check["health"] == "wrong"}


@pytest.fixture
def setup(tmp_path: Path) -> Iterator[Setup]:
    with scratch(tmp_path) as home:
        programs = tmp_path / "bin"
        programs.mkdir()
        for name in ("git", "sh"):
            (programs / name).symlink_to(shutil.which(name) or name)
        (home.user / ".gitconfig").write_text("[user]\nname = Person\nemail = person@example.org\n")
        (home.user / ".claude").mkdir()
        (home.user / ".claude/.credentials.json").write_text('{"claudeAiOauth": {}}')
        made = Setup(home, programs, {"PATH": str(programs)})
        made.put("tmux", "echo tmux 3.3a")
        made.put("claude", "echo '2.1.0 (Claude Code)'")
        yield made


# ---- all is well


def test_a_healthy_machine_has_no_fault(setup: Setup) -> None:
    setup.home.ok("add", "one", env=setup.env)
    ran = setup.doctor()
    assert ran.code == 0, ran.out
    assert "models: not set up here (this project uses tasks only)\n" in ran.out
    assert ran.out.endswith(f"\nall well ({len(setup.checks())} checks)\n")
    checks = setup.checks()
    assert [check for check in checks if check["health"] not in ("ok", "note")] == []
    said = {f"{check['plane']} {check['name']}": check["finding"] for check in checks}
    assert said["work coder"].endswith("bin/claude, the default coder, version 2.1.0")
    assert said["work tmux"] == "tmux is 3.3a"
    assert said["work git"] == "commits are by Person <person@example.org>"
    assert said["work database"] == f"{setup.home.home}/fleet.db is whole and can be written"
    assert said["models models"] == "not set up here (this project uses tasks only)"


def test_a_look_makes_no_home_and_a_project_for_tasks_alone_is_no_fault(setup: Setup) -> None:
    (setup.home.root / "fleet.yaml").write_text("checks: ['true']\n")
    ran = setup.doctor()
    assert (ran.code, setup.home.home.exists()) == (0, False), ran.out
    assert "models: not set up here (this project uses tasks only)\n" in ran.out
    status = setup.home.fleet("status", env=setup.env)
    assert (status.code, status.out.splitlines()) == (
        0,
        [
            "tasks:      none yet: there is no home of fleet here", "",
            "models: not set up here (this project uses tasks only)",
        ],
    )  # fmt: skip
    assert not setup.home.home.exists(), "a look makes nothing"


def test_a_broken_fleet_yaml_is_one_fault_and_a_named_one_must_be_there(setup: Setup) -> None:
    (setup.home.root / "fleet.yaml").write_text("chekcs: [true]\n")
    ((finding, remedy),) = setup.faults().items()
    assert finding.startswith("fleet.yaml:1:1: ")
    assert remedy == "fleet validate --config fleet.yaml"
    assert f"models:\n  wrong   fleet.yaml   {finding}\n" in setup.doctor().out
    assert setup.doctor("--config", "nowhere.yaml").code == 3


def test_neither_the_engine_nor_the_web_is_loaded(setup: Setup) -> None:
    setup.home.ok("add", "one", env=setup.env)
    argv = [sys.executable, "-X", "importtime", "-m", "fleet", "doctor"]
    done = subprocess.run(argv, cwd=setup.home.root, env=setup.home.env | setup.env, capture_output=True, check=True)
    loaded = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.decode().splitlines()}
    assert "msgspec" in loaded
    assert not loaded & {"dbos", "sqlalchemy", "litellm", "h11"}


# ---- broken set-ups


def test_another_dbos_is_named_with_the_range_and_the_command(setup: Setup) -> None:
    site = shadow(setup.home.root, "3.5.0")
    ((finding, remedy),) = setup.faults(PYTHONPATH=str(site)).items()
    assert finding == "dbos 3.5.0 is installed; known to work: >=3.4,<3.5"
    assert remedy.endswith(" install 'dbos>=3.4,<3.5'")
    assert sys.executable in remedy


@pytest.mark.parametrize("how", [["--drain"], ["--drain", "--json"], ["--detach"]])
def test_an_engine_that_cannot_be_launched_says_which_package_may_be_the_cause(setup: Setup, how: list[str]) -> None:
    env = setup.env | {"PYTHONPATH": str(shadow(setup.home.root, "3.5.0"))}
    ran = setup.home.fleet("run", *how, env=env)
    assert ran.code == 1
    assert "dbos 3.5.0 is installed; known to work: >=3.4,<3.5: " in ran.err
    assert " install 'dbos>=3.4,<3.5' (what failed: RuntimeError: DBOS failed to launch: " in ran.err
    assert ran.err.endswith("\n  next: fleet doctor\n")
    sentence = ran.err.splitlines()[-2].removeprefix("fleet: ").removeprefix("the supervisor did not start: ")
    failed = next(finding for finding in setup.faults() if finding.startswith("the last one failed at "))
    assert failed.endswith(f": {sentence}")


def test_an_engine_newer_than_the_oldest_that_works_is_named_with_that_one(setup: Setup) -> None:
    env = setup.env | {"PYTHONPATH": str(shadow(setup.home.root, "3.4.9"))}
    ran = setup.home.fleet("run", "--drain", env=env)
    assert ran.code == 1
    suspect = "(it happened with dbos 3.4.9; 3.4 is known to work: "
    assert ran.err.startswith(f"fleet: RuntimeError: {LAUNCH} {suspect}")
    assert ran.err.endswith(" install dbos==3.4)\n  next: fleet doctor\n")


def test_the_oldest_engine_that_works_is_not_blamed_when_it_fails(setup: Setup) -> None:
    env = setup.env | {"PYTHONPATH": str(shadow(setup.home.root, "3.4"))}
    ran = setup.home.fleet("run", "--drain", env=env)
    assert (ran.code, ran.err) == (1, f"fleet: RuntimeError: {LAUNCH}\n  next: fleet doctor\n")


def test_no_tmux_and_no_agent_cli(setup: Setup) -> None:
    (setup.bin / "tmux").unlink()
    (setup.bin / "claude").unlink()
    assert setup.faults() == {
        "no agent CLI is installed, and claude is the default coder": "npm install -g @anthropic-ai/claude-code"
    }
    note = next(check for check in setup.checks() if check["name"] == "tmux")
    assert note["finding"] == "tmux is not installed: no agent can work in a terminal (fleet create)"
    assert note["remedy"] == "apt install tmux, or brew install tmux"
    ran = setup.doctor()
    assert ran.code == 1
    assert ran.out.endswith(
        "1 fault in 14 checks\n  now: npm install -g @anthropic-ai/claude-code\n  then: fleet doctor\n"
    )


def test_another_agent_cli_than_the_default_one(setup: Setup) -> None:
    (setup.bin / "claude").rename(setup.bin / "codex")
    assert setup.faults() == {
        "claude, the default coder, is not installed; codex can be used": (
            "npm install -g @anthropic-ai/claude-code  # or: fleet config set coder=codex"
        )
    }


def test_an_agent_cli_that_does_not_start(setup: Setup) -> None:
    setup.put("claude", "echo 'env: node: No such file or directory' >&2; exit 127")
    ((finding, remedy),) = setup.faults().items()
    assert "`claude --version` fails: env: node: No such file or directory" in finding
    assert remedy == "npm install -g @anthropic-ai/claude-code"


def test_which_login_an_agent_gets_is_said(setup: Setup) -> None:
    def login(**env: str) -> tuple[str, str, str | None]:
        found = next(check for check in setup.checks(**env) if check["name"] == "login")
        return found["health"], found["finding"], found["remedy"]

    own = setup.home.user / ".claude/.credentials.json"
    uses_own = f"claude uses its own login ({own}) and is not given ANTHROPIC_API_KEY"
    assert login(ANTHROPIC_API_KEY="sk-secret")[:2] == ("ok", f"{uses_own}; whether that is still good is not asked")
    own.unlink()
    assert login() == (
        "unknown", "claude: no login of its own is seen; whether it is logged in is unknown", "claude /login"
    )  # fmt: skip
    said = "claude is given ANTHROPIC_API_KEY; whether that is still good is not asked"
    assert login(ANTHROPIC_API_KEY="sk-secret")[:2] == ("ok", said)
    setup.home.settle("coders.claude.pass_login=false")
    health, finding, remedy = login(ANTHROPIC_API_KEY="sk-secret")
    assert (health, finding) == ("unknown", "claude: ANTHROPIC_API_KEY is set here, and its agents do not get it")
    assert remedy == "fleet config set coders.claude.pass_login=true"
    assert "sk-secret" not in setup.doctor(ANTHROPIC_API_KEY="sk-secret").out


def test_a_missing_git_identity(setup: Setup) -> None:
    (setup.home.user / ".gitconfig").write_text("[user]\nuseConfigOnly = true\n")
    said = [(check["finding"], check["remedy"]) for check in setup.checks() if check["health"] == "note"]
    ((finding, remedy),) = [one for one in said if one[0].startswith("git ")]
    assert finding.endswith("so agents commit as fleet agent <agent@no-git-identity.invalid>")
    assert "git config --global user.email you@example.org" in remedy


def test_an_old_git_and_none(setup: Setup) -> None:
    (setup.bin / "git").unlink()
    assert setup.faults() == {"git is not installed": "apt install git, or brew install git"}
    setup.put("git", "echo git version 2.20.1")
    assert list(setup.faults()) == ["git is 2.20.1, and 2.38 is the oldest that will do"]


def test_a_bad_runtime_toml_is_one_line_with_its_position_and_the_rest_is_checked(setup: Setup) -> None:
    setup.home.home.mkdir(mode=0o700)
    file = setup.home.home / "runtime.toml"
    file.write_text('max_concurrent = "many"\ncoder = "nobody"\n')
    file.chmod(0o600)
    ((finding, remedy),) = setup.faults().items()
    assert finding.startswith(f"{file}:1:")
    assert finding.endswith(" (and 1 more)")
    assert remedy == "fleet config edit"
    assert "commits are by Person" in setup.doctor().out


def test_an_unwritable_cache(setup: Setup) -> None:
    (setup.home.root / "file").touch()
    ((finding, remedy),) = setup.faults(XDG_CACHE_HOME=f"{setup.home.root}/file/cache").items()
    assert finding.startswith(f"{setup.home.root}/file/cache/fleet cannot be written: ")
    assert "export XDG_CACHE_HOME=" in remedy


def test_a_home_that_others_can_read(setup: Setup) -> None:
    setup.home.ok("add", "one", env=setup.env)
    (setup.home.home / "fleet.db").chmod(0o644)
    setup.home.home.chmod(0o755)
    home = setup.home.home
    assert setup.faults() == {
        f"{home} is open to others (mode 755)": f"chmod 700 {home}",
        f"{home}/fleet.db is open to others (mode 644)": f"chmod 600 {home}/fleet.db",
    }


@pytest.mark.parametrize("what", ["a file", "a link that leads nowhere"])
def test_a_home_that_is_none_is_said_as_the_start_says_it(setup: Setup, what: str) -> None:
    home = setup.home.home
    home.touch() if what == "a file" else home.symlink_to("/nonexistent/home")
    ran = setup.home.fleet("run", "--drain", env=setup.env)
    assert (ran.code, ran.err.splitlines()[1]) == (1, "  next: fleet doctor")
    assert ran.err.splitlines()[0].removeprefix("fleet: ") in setup.faults()


def test_a_damaged_database_is_said_as_the_start_says_it(setup: Setup) -> None:
    setup.home.ok("add", "one", env=setup.env)
    file = setup.home.home / "fleet.db"
    for extra in setup.home.home.glob("fleet.db-*"):
        extra.unlink()
    file.write_bytes(b"not a database at all" * 500)
    for how in (["--drain"], ["--detach"]):
        ran = setup.home.fleet("run", *how, env=setup.env)
        assert (ran.code, ran.err.splitlines()[1]) == (1, "  next: fleet doctor")
        sentence = ran.err.splitlines()[0].removeprefix("fleet: ").removeprefix("the supervisor did not start: ")
        assert setup.faults()[sentence] == f"put it aside: mv {file} {file}.damaged"


# ---- the supervisor


def test_a_supervisor_that_runs_is_none_that_crashed(setup: Setup) -> None:
    supervisor = setup.home.run(env=setup.env)
    assert f"it runs: process {supervisor.process.pid}" in setup.doctor().out
    os.kill(supervisor.process.pid, signal.SIGSTOP)
    remedy = until(lambda: list(setup.faults().values()))
    assert f"kill -CONT {supervisor.process.pid}" in remedy  # it may have stopped while it had the database
    os.kill(supervisor.process.pid, signal.SIGCONT)
    assert supervisor.stop() == 0
    assert setup.faults() == {}
    assert "none is running; to start one: fleet run" in setup.doctor().out


def test_a_supervisor_that_was_killed(setup: Setup) -> None:
    supervisor = setup.home.run(env=setup.env)
    supervisor.stop(signal.SIGKILL)
    ((finding, remedy),) = setup.faults().items()
    assert finding.startswith(
        f"the last one, process {supervisor.process.pid}, was killed or crashed; it had started at "
    )
    assert remedy == "fleet run  # its agents live on, and it goes on with them"
    setup.home.ok("run", "--drain", env=setup.env)
    assert setup.faults() == {}


def test_a_lock_that_no_supervisor_holds(setup: Setup) -> None:
    setup.home.ok("add", "one", env=setup.env)
    lock = setup.home.home / "supervisor.lock"
    (setup.home.home / "supervisor.json").write_text(json.dumps({"pid": 2**22 - 1, "started": 1.0, "actor": "gone"}))
    argv = [sys.executable, "-c", HOLD, str(lock)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        ((finding, remedy),) = setup.faults().items()
        assert finding.startswith(f"{lock} is held by process {holder.pid} (")
        assert finding.endswith("), which is no supervisor: none can start")
        assert remedy == f"kill {holder.pid}"
        holder.terminate()
    assert not [finding for finding in setup.faults() if "is held by" in finding]


# ---- settings that matter


def test_what_is_required_and_cannot_be_had(setup: Setup) -> None:
    setup.home.ok("config", "set", "fence=off", "tracker=beads", env=setup.env)
    found = {check["name"]: check for check in setup.checks()}
    assert (found["fence"]["health"], found["fence"]["remedy"]) == ("note", "fleet config set fence=auto")
    assert found["beads"]["health"] == "wrong"
    assert found["beads"]["finding"] == "bd (beads) is not installed, and the settings keep tasks in it"


def test_too_little_room_on_the_disk(setup: Setup) -> None:
    setup.home.ok("config", "set", "min_free_disk=900000GB", env=setup.env)
    ((finding, remedy),) = setup.faults().items()
    assert finding.startswith("nothing starts: ")
    assert finding.endswith("min_free_disk is 900000.0 GB")
    assert "fleet config set min_free_disk=" in remedy
