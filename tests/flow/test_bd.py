"""fleet bd: everything is bd's own, but for where and by whom a new task is to be worked on."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import parts
from conftest import Run
from fleet.core import BadConfig
from fleet.tracker import arguments
from fleet.tracker.beads import Beads
from standins.coders.scratch import Ran, until

BD = parts.find("bd").bin
RECORDER = Path(__file__).parents[1] / "standins" / "bd" / "recorder"


@pytest.fixture
def home(clean_env: dict[str, str]) -> Path:
    return Path(clean_env["FLEET_HOME"])


@pytest.fixture
def bd(run: Run, home: Path, clean_env: dict[str, str]) -> Run:
    """`fleet bd` with a bd that writes down how it was called."""
    (home / ".beads").mkdir(parents=True)

    def call(*args: str, **options: str) -> Ran:
        return run("bd", *args, env={"PATH": f"{RECORDER}:{clean_env['PATH']}"} | options)

    return call


def called(home: Path) -> list[str] | None:
    """The words that bd was called with; None when it was not."""
    file = home / "called"
    return file.read_text().splitlines() if file.exists() else None


def specs(home: Path) -> dict[str, object]:
    return {file.parent.name: json.loads(file.read_text()) for file in home.glob("tasks/*/task.json")}


def test_exit_code_and_output_are_bds_own(bd: Run, home: Path) -> None:
    done = bd("exits", "--status=x", "-h", "--", "--coder", "y", BEADS_DIR="/elsewhere", BEADS_DB="/elsewhere/db")
    assert (done.code, done.out, done.err) == (42, "to stdout\n", "to stderr\n")
    assert called(home) == ["exits", "--status=x", "-h", "--", "--coder", "y"]
    assert (home / "where").read_text() == f"{home}\n{home}/.beads\nunset\n"


@pytest.mark.parametrize("args", [["--help"], ["-h"], ["create", "--help"], ["--version"], []])
def test_help_is_bds_own_and_needs_no_database(
    run: Run, home: Path, clean_env: dict[str, str], args: list[str]
) -> None:
    done = run("bd", *args, env={"PATH": f"{RECORDER}:{clean_env['PATH']}"})
    assert (done.code, done.err) == (0, "")
    assert called(home) == args


def test_what_is_piped_in_goes_to_bd(bd: Run, project: Path, clean_env: dict[str, str]) -> None:
    env = clean_env | {"PATH": f"{RECORDER}:{clean_env['PATH']}"}
    argv = [sys.executable, "-m", "fleet", "bd", "echoes"]
    done = subprocess.run(argv, cwd=project, env=env, input=b"a\0\xff\n", capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"a\0\xff\n", b"")


def test_a_new_task_is_recorded_before_bd_makes_it(bd: Run, home: Path, project: Path) -> None:
    done = bd("create", "--title", "A title", "-p", "1")
    (task,) = specs(home)
    assert (done.code, done.err) == (0, "")
    assert done.out == f"Created {task}: A title  [cwd: {project}]\n"
    assert (home / "recorded").read_text() == "task.json\n"
    assert specs(home) == {task: {"cwd": str(project)}}
    assert called(home) == ["create", "--json", f"--id={task}", "--force", "--title", "A title", "-p", "1"]


@pytest.mark.parametrize("given", [["--coder", "codex", "--model", "o3"], ["--model=o3", "--coder=codex"]])
def test_overrides_are_recorded_and_kept_from_bd(bd: Run, home: Path, project: Path, given: list[str]) -> None:
    done = bd("new", *given, "A title")
    (task,) = specs(home)
    assert done.out == f"Created {task}: A title  [cwd: {project}, coder: codex, model: o3]\n"
    assert specs(home) == {task: {"cwd": str(project), "coder": "codex", "model": "o3"}}
    assert called(home) == ["new", "--json", f"--id={task}", "--force", "A title"]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (["--coder", "codex"], "--coder and --model belong together"),
        (["--model=o3"], "--coder and --model belong together"),
        (["--coder", "codx", "--model", "o3"], "there is no coder 'codx' (did you mean codex?)"),
        (["--coder", "codex", "--model", "a\nb"], "model must be a name"),
        (["--model", "o3", "--coder"], "--coder needs a value"),
        (["--coder=", "--model=o3"], "--coder needs a value"),
    ],
)
def test_overrides_that_make_no_sense_are_refused_before_bd_is_called(
    bd: Run, home: Path, given: list[str], why: str
) -> None:
    done = bd("create", "--title", "A title", *given)
    assert done.code == 2
    assert why in done.err
    assert called(home) is None
    assert specs(home) == {}


def test_a_coder_of_ones_own_is_known(bd: Run, home: Path) -> None:
    (home / "runtime.toml").write_text('[coders.mine]\nargv = ["mine"]\n')
    done = bd("create", "--coder", "mine", "--model", "opus", "A title")
    assert (done.code, done.err) == (0, "")
    assert "coder: mine, model: opus]" in done.out


def test_json_is_bds_own_envelope(bd: Run, home: Path) -> None:
    done = bd("create", "--json", "A title")
    (task,) = specs(home)
    assert done.out == f'{{"data": {{"id": "{task}", "title": "A title"}}, "schema_version": 1}}\n'
    assert bd("create", "--silent", "A title").out.strip() in specs(home)
    assert bd("create", "-q", "A title").out == ""


def test_a_dry_run_records_nothing_and_names_nothing(bd: Run, home: Path) -> None:
    bd("create", "A title", "--coder", "codex", "--model", "o3", "--dry-run")
    assert called(home) == ["create", "A title", "--dry-run"]
    assert specs(home) == {}


def test_a_task_that_bd_refuses_leaves_nothing(bd: Run, home: Path) -> None:
    done = bd("create", "refuse")
    assert (done.code, done.out, done.err) == (3, "", "bd does not want to\n")
    assert list((home / "tasks").iterdir()) == []
    shown = bd("create", "refuse", "--json")
    assert (shown.code, shown.json()["data"]["error"]) == (3, "bd does not want to")


def test_an_answer_that_is_cut_short_is_an_error_and_the_record_stays(bd: Run, home: Path) -> None:
    done = bd("create", "garbled")
    assert (done.code, done.out) == (1, "")
    assert "did not say what it made" in done.err
    assert len(specs(home)) == 1


def test_tasks_that_bd_names_itself_are_all_recorded(bd: Run, home: Path, project: Path) -> None:
    done = bd("create", "--file", "family.md")
    assert done.out == f"Created fleet-x: One  [cwd: {project}]\nCreated fleet-y.1: Two  [cwd: {project}]\n"
    assert set(specs(home)) == {"fleet-x", "fleet-y.1"}
    assert called(home) == ["create", "--json", "--file", "family.md"]


def test_without_bd_it_is_said_how_to_get_it(run: Run, home: Path) -> None:
    (home / ".beads").mkdir(parents=True)
    for args in (["list"], ["create", "A title"]):
        done = run("bd", *args, env={"PATH": "/nowhere"})
        assert done.code == 5
        assert "bd (beads) is not installed" in done.err
        assert "npm install -g @beads/bd" in done.err
    assert specs(home) == {}


def test_without_bd_that_is_said_before_the_database_is_asked_for(run: Run, home: Path) -> None:
    for args in (["list"], ["create", "A title"]):
        done = run("bd", *args, env={"PATH": "/nowhere"})
        assert (done.code, "npm install -g @beads/bd" in done.err) == (5, True)


@pytest.mark.parametrize("command", [["tasks"], ["run"]])
def test_who_is_told_to_end_leaves_no_bd_that_hangs(
    run: Run, home: Path, project: Path, clean_env: dict[str, str], command: list[str]
) -> None:
    run("config", "set", "tracker=beads")
    (home / ".beads").mkdir()
    folder = home.parent / "hanging"
    folder.mkdir()
    (folder / "bd").symlink_to(RECORDER.parent / "hangs")
    env = clean_env | {"PATH": f"{folder}:{clean_env['PATH']}"}
    with subprocess.Popen([sys.executable, "-m", "fleet", *command], cwd=project, env=env) as asks:
        until(lambda: (home / "pids").exists() and (home / "pids").read_text().endswith("\n"))
        asks.terminate()
    assert asks.returncode == 128 + signal.SIGTERM
    until(lambda: not any(Path("/proc", pid).exists() for pid in (home / "pids").read_text().split()))


def test_without_a_database_the_next_command_is_named(run: Run, home: Path, clean_env: dict[str, str]) -> None:
    for args in (["list"], ["create", "A title"]):
        done = run("bd", *args, env={"PATH": f"{RECORDER}:{clean_env['PATH']}"})
        assert done.code == 1
        assert "next: fleet init --home-only --tracker beads" in done.err
    assert called(home) is None
    assert home.is_dir()


# --- bd's command line, cut where bd cuts it --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "for_bd", "coder", "model"),
    [
        ("create x", "create x", None, None),
        ("create --title --coder x", "create --title --coder x", None, None),
        ("create -d --model x", "create -d --model x", None, None),
        ("create -qd --model x", "create -qd --model x", None, None),
        ("create -dq --model m --coder c", "create -dq", "c", "m"),
        ("create --title=--coder --coder c", "create --title=--coder", "c", None),
        ("create -- --coder c", "create -- --coder c", None, None),
        ("create --coder -- --model m x", "create x", "--", "m"),
        ("--json --actor create new --coder c x", "--json --actor create new x", "c", None),
        ("--coder c create --model m", "create", "c", "m"),
        ("create --coder a --coder b", "create", "b", None),
        ("create --dry-run --coder c", "create --dry-run", "c", None),
    ],
)
def test_our_options_are_taken_out_and_values_are_not(
    args: str, for_bd: str, coder: str | None, model: str | None
) -> None:
    found = arguments.read_create(args.split())
    assert found is not None
    assert found.argv() == for_bd.split()
    assert (found.coder, found.model) == (coder, model)


@pytest.mark.parametrize(
    "args", ["", "list", "list create", "update x --title create", "--actor create list", "-- create"]
)
def test_other_commands_are_none_of_our_business(args: str) -> None:
    assert arguments.read_create(args.split()) is None


@pytest.mark.parametrize(
    ("args", "may_be_named", "makes_nothing"),
    [
        ("create x", True, False),
        ("create --title --id", True, False),
        ("create --id x", False, False),
        ("create --parent=x", False, False),
        ("create -f plan.md", False, False),
        ("create --ephemeral x", False, False),
        ("create --ephemeral=false x", True, False),
        ("create --dry-run x", True, True),
        ("create -qh", True, True),
    ],
)
def test_what_a_create_makes(args: str, may_be_named: bool, makes_nothing: bool) -> None:
    found = arguments.read_create(args.split())
    assert found is not None
    assert (found.may_be_named, found.makes_nothing) == (may_be_named, makes_nothing)


def test_a_missing_value_is_refused() -> None:
    with pytest.raises(BadConfig, match="--model needs a value"):
        arguments.read_create(["create", "--model"])


# --- with the real bd -------------------------------------------------------------------------------------------------


@pytest.mark.bd
def test_values_are_taken_just_as_the_real_bd_takes_them(clean_env: dict[str, str]) -> None:
    """Every option of the real `bd create` that takes a value is known to take one, and no other is."""
    help_page = subprocess.run(
        [BD / "bd", "create", "--help"], env=clean_env, capture_output=True, text=True, check=True
    ).stdout
    kinds = dict(re.findall(r"^ +(?:-\w, )?--([\w-]+)(?: (string|strings|int))? ", help_page, re.MULTILINE))
    valued = {name for name, kind in kinds.items() if kind}
    assert valued == arguments.VALUED
    assert {"json", "dry-run", "silent", "quiet", "help", "ephemeral"} <= kinds.keys() - valued


@pytest.mark.bd
def test_a_real_bd_keeps_what_is_created(run: Run, home: Path, project: Path, clean_env: dict[str, str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", clean_env["HOME"])
        Beads.init(home, program=str(BD / "bd"))

    def call(*args: str) -> Ran:
        return run("bd", *args, env={"PATH": f"{BD}:{clean_env['PATH']}"})

    made = call("create", "--title", "Heavy refactor", "--coder", "codex", "--model", "o3", "--description", "--json")
    task = next(iter(specs(home)))
    assert (made.code, made.err) == (0, "")
    assert made.out == f"Created {task}: Heavy refactor  [cwd: {project}, coder: codex, model: o3]\n"
    child = call("create", "--json", "--title", "A part", "--parent", task).json()["data"]["id"]
    assert child == f"{task}.1"
    assert specs(home)[child] == {"cwd": str(project)}
    shown = json.loads(call("show", task, "--json").out)
    assert [issue["description"] for issue in (shown if isinstance(shown, list) else shown["data"])] == ["--json"]
    before = set(specs(home))
    assert call("create", "--dry-run", "--title", "Nothing").code == 0
    assert call("show", "fleet-nothing").code == 1
    refused = call("create", "--title", "Later", "--deps", "fleet-nothing")
    assert (refused.code, refused.out) == (1, "")
    assert "fleet-nothing" in refused.err
    assert {path.name for path in (home / "tasks").iterdir()} == before
    assert "Issues chained together" in call("--help").out
