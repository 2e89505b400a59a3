"""The home and this machine's settings, through the program: init, config show, set, edit, validate."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import parts
from conftest import Run
from fleet.app.home import wake

NOBODY: dict[str, object] = {"coders": {}, "models": {}, "projects": {}, "accounts": {}}


@pytest.fixture
def home(clean_env: dict[str, str]) -> Path:
    return Path(clean_env["FLEET_HOME"])


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def settings(home: Path) -> dict[str, Any]:
    return tomllib.loads((home / "runtime.toml").read_text())


def without_bd(clean_env: dict[str, str], tmp_path: Path) -> str:
    """A search path with Python and nothing else on it."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    return str(tmp_path / "bin")


def test_init_makes_a_private_home_and_a_starter(run: Run, home: Path, project: Path) -> None:
    ran = run("init")
    assert ran.code == 0, ran.err
    assert ran.out == f"Created {home}\nCreated fleet.yaml\n"
    assert [mode(home / name) for name in (".", "tasks", "logging", "runtime.toml")] == [0o700, 0o700, 0o700, 0o600]
    assert "#max_concurrent = 3" in (home / "runtime.toml").read_text()
    assert (project / "fleet.yaml").is_file()


def test_init_again_keeps_everything_and_says_so(run: Run, home: Path, project: Path) -> None:
    run("init")
    run("config", "set", "max_concurrent=7")
    mine = (home / "runtime.toml").read_bytes()
    (project / "fleet.yaml").write_text("mine")
    ran = run("init")
    assert (ran.code, ran.out) == (0, f"Kept {home} (as it was)\nKept fleet.yaml (as it was)\n")
    assert (project / "fleet.yaml").read_text() == "mine"
    assert run("init", "--force").code == 0
    assert (project / "fleet.yaml").read_text() != "mine"
    assert (home / "runtime.toml").read_bytes() == mine


def test_init_for_the_home_alone(run: Run, home: Path, project: Path) -> None:
    assert run("init", "--home-only", "--json").json() == {
        "home": str(home), "home_is_new": True, "tracker": "local", "created": None, "kept": None,
    }  # fmt: skip
    assert list(project.iterdir()) == []
    told = run("init", "--json").json()
    assert (told["home_is_new"], told["created"], told["placeholder"]) == (False, "fleet.yaml", False)
    assert run("init", "--json").json()["kept"] == "fleet.yaml"


def test_rights_that_others_have_are_taken_away(run: Run, home: Path) -> None:
    run("init", "--home-only")
    for name in (".", "tasks", "logging"):
        (home / name).chmod(0o755)
    (home / "runtime.toml").chmod(0o644)
    run("config", "set", "max_concurrent=4")
    assert [mode(home / name) for name in (".", "tasks", "logging", "runtime.toml")] == [0o700, 0o700, 0o700, 0o600]


def test_a_home_may_be_a_link_to_a_directory_of_ours_and_nothing_else(run: Run, home: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    home.symlink_to(elsewhere)
    assert run("init", "--home-only").code == 0
    assert home.is_symlink()
    assert mode(elsewhere) == 0o700
    home.unlink()
    home.symlink_to(tmp_path / "nowhere")
    assert (ran := run("init", "--home-only")).code == 1
    assert "is a link that leads nowhere" in ran.err
    home.unlink()
    home.write_text("a file")
    assert (ran := run("init", "--home-only")).code == 1
    assert "is not a directory" in ran.err
    assert home.read_text() == "a file"


def test_a_home_is_made_whole_where_a_part_is_missing(run: Run, home: Path) -> None:
    run("init", "--home-only")
    run("config", "set", "max_concurrent=4")
    shutil.rmtree(home / "tasks")
    (home / "logging").rmdir()
    run("config", "set", "model=opus")
    assert (mode(home / "tasks"), mode(home / "logging")) == (0o700, 0o700)
    assert settings(home)["max_concurrent"] == 4


def test_init_names_settings_that_are_wrong_and_leaves_them(run: Run, home: Path, project: Path) -> None:
    home.mkdir()
    (home / "runtime.toml").write_text("max_concurrent = 0\n")
    ran = run("init")
    assert ran.code == 2
    assert "runtime.toml:1:1: max_concurrent must be a whole number, at least 1" in ran.err
    assert list(project.iterdir()) == []
    assert (home / "runtime.toml").read_text() == "max_concurrent = 0\n"


def test_many_inits_at_once_all_succeed(clean_env: dict[str, str], home: Path, project: Path) -> None:
    call = [sys.executable, "-m", "fleet", "init", "--tracker", "local"]
    pipe = subprocess.PIPE
    running = [subprocess.Popen(call, cwd=project, env=clean_env, stdout=pipe, stderr=pipe) for _ in range(4)]
    told = [process.communicate(timeout=120) for process in running]
    assert [process.returncode for process in running] == [0] * 4, told
    assert sum(b"Created fleet.yaml" in out for out, _ in told) == 1
    assert settings(home)["tracker"] == "local"
    assert not [path for path in home.iterdir() if path.name.startswith(".runtime")]


def test_init_for_beads_without_bd_changes_nothing(
    run: Run, clean_env: dict[str, str], home: Path, project: Path, tmp_path: Path
) -> None:
    ran = run("init", "--tracker", "beads", env={"PATH": without_bd(clean_env, tmp_path)})
    assert ran.code == 5
    assert "bd (beads) is not installed" in ran.err
    assert not home.exists()
    assert list(project.iterdir()) == []


@pytest.mark.bd
def test_init_for_beads_makes_its_queue_and_the_comments_stay(run: Run, home: Path, project: Path) -> None:
    env = {"PATH": f"{parts.find('bd').bin}:{os.environ['PATH']}"}
    ran = run("init", "--home-only", "--tracker", "beads", env=env)
    assert ran.code == 0, ran.err
    assert (home / ".beads").is_dir()
    assert settings(home)["tracker"] == "beads"
    assert "# Where tasks are written down." in (home / "runtime.toml").read_text()
    assert run("init", "--home-only", "--tracker", "beads", env=env).code == 0
    assert run("init", "--home-only", "--json", env=env).json()["tracker"] == "beads"
    assert list(project.iterdir()) == []


def test_show_says_what_holds_and_where_it_comes_from(run: Run, home: Path) -> None:
    assert "max_concurrent = 3\n" in run("config", "show").out
    assert not home.exists(), "a look makes nothing"
    run("init", "--home-only")
    run("config", "set", "max_concurrent=5", "concurrent.models.gpt-4.1=2")
    line = (home / "runtime.toml").read_text().splitlines().index("max_concurrent = 5") + 1
    shown = run("config", "show", "--origin").out
    assert f"# runtime.toml:{line}\n" in next(one for one in shown.splitlines(True) if one.startswith("max_concurrent"))
    assert 'concurrent.models."gpt-4.1" = 2 ' in shown
    assert next(one for one in shown.splitlines() if one.startswith("limits.timeout")).endswith("# default")
    assert run("config", "show", "--json").json()["limits.timeout"] == "2h"
    told = run("config", "show", "--json", "--origin").json()
    assert told["max_concurrent"] == {"value": 5, "origin": f"runtime.toml:{line}"}
    assert run("config", "show", "--raw").out == (home / "runtime.toml").read_text()


def test_raw_shows_a_broken_file_as_it_is_and_no_file_as_none(run: Run, home: Path) -> None:
    assert run("config", "show", "--raw").code == 3
    home.mkdir()
    (home / "runtime.toml").write_text("broken = [\n")
    assert run("config", "show", "--raw").out == "broken = [\n"
    assert run("config", "show").code == 2


def test_set_says_old_and_new_and_keeps_comments_and_order(run: Run, home: Path) -> None:
    home.mkdir()
    (home / "runtime.toml").write_text("# mine\nmodel = 'opus' # the big one\n\n[limits] # few\nattempts = 2\n")
    ran = run("config", "set", "max_concurrent=5", "model=haiku", "limits.timeout=30m", "limits.attempts=2")
    assert ran.code == 0, ran.err
    assert ran.out == (
        'max_concurrent: 3 -> 5\nmodel: "opus" -> "haiku"\nlimits.timeout: "2h" -> "30m"\n'
        "limits.attempts: 2 (as it was)\n"
    )
    text = (home / "runtime.toml").read_text()
    assert text.startswith("# mine\nmodel = ")
    assert "# the big one" in text
    assert "[limits] # few\n" in text
    told = run("config", "set", "model=sonnet", "--json").json()
    assert told == [{"key": "model", "old": "haiku", "new": "sonnet", "changed": True}]


@pytest.mark.parametrize(
    ("assignments", "problem"),
    [
        (["max_concurrent=-5"], "max_concurrent must be a whole number, at least 1"),
        (["max_concurrent=0"], "at least 1"),
        (["max_concurrent=501"], "at most 500"),
        (["max_concurrent=many"], "max_concurrent must be a whole number"),
        (["model=opus", "max_concurrent=-5"], "max_concurrent must be"),
        (["max_concurent=5"], "max_concurent is not a known key (did you mean max_concurrent?)"),
        (["coder=claud"], "(did you mean claude?)"),
        (["tracker=bead"], "tracker must be one of local, beads"),
        (["coders.mine.prompt=arg"], "coders.mine.argv is missing"),
        (["coders.Mine.argv=['x']"], "is not a usable name"),
        (["limits.timeout=0s"], "from 0.1s to 720h"),
        (["model=a\nb"], "must be one line"),
        (["max_concurrent"], "is not key=value"),
        (["max_concurrent=4", "max_concurrent=5"], "max_concurrent is given twice"),
        (["model=\udc80"], "not UTF-8"),
        (["coders.mine.args=" + str(["x" * 1000] * 90)], "larger than 64 KiB"),
    ],
)
def test_a_set_that_makes_no_sense_changes_nothing(run: Run, home: Path, assignments: list[str], problem: str) -> None:
    home.mkdir()
    (home / "runtime.toml").write_text("# mine\n")
    ran = run("config", "set", *assignments)
    assert ran.code == 2, ran.out
    assert problem in ran.err
    assert (home / "runtime.toml").read_text() == "# mine\n"


@pytest.mark.parametrize("value", ["it's", 'a"""b', "'''\\", '"', "# é\u202e", "[", "  x  "])
def test_a_value_with_quotes_comes_back_as_it_was_and_later_commands_work(run: Run, home: Path, value: str) -> None:
    ran = run("config", "set", f"model={value}", f"coders.mine.env.X=a\n{value}", 'coders.mine.argv=["x"]')
    assert ran.code == 0, ran.err
    assert settings(home)["coders"]["mine"]["env"]["X"] == f"a\n{value}"
    assert run("config", "set", "max_concurrent=4").code == 0
    assert run("config", "show", "--json").json()["model"] == settings(home)["model"] == value


def test_a_value_that_sounds_like_a_secret_is_not_printed(run: Run, home: Path) -> None:
    ran = run("config", "set", 'coders.mine.argv=["x"]', "coders.mine.env.MY_TOKEN=s3cret")
    assert settings(home)["coders"]["mine"]["env"]["MY_TOKEN"] == "s3cret"
    ran = run("config", "set", "accounts.work.coder=claude", "accounts.work.env.ANTHROPIC_API_KEY=s3cret")
    again = run("config", "set", "accounts.work.env.ANTHROPIC_API_KEY=other")
    assert again.out == 'accounts.work.env.ANTHROPIC_API_KEY: "(not shown)" -> "(not shown)"\n'
    assert "(as it was)" in run("config", "set", "accounts.work.env.ANTHROPIC_API_KEY=other").out
    said = ran.out + again.out + run("config", "show").out + run("config", "show", "--json").out
    assert "s3cret" not in said
    assert "other" not in said


def test_a_set_can_mend_a_file_that_is_wrong(run: Run, home: Path) -> None:
    home.mkdir()
    (home / "runtime.toml").write_text("max_concurrent = -5\n")
    assert run("config", "validate").code == 2
    assert run("config", "set", "model=opus").code == 2
    assert run("config", "set", "max_concurrent=5").out == "max_concurrent: -5 -> 5\n"
    assert run("config", "validate").out == f"{home / 'runtime.toml'} is valid.\n"


def test_sets_from_many_processes_lose_nothing(clean_env: dict[str, str], home: Path, project: Path) -> None:
    keys = [f"concurrent.models.m{n}" for n in range(8)]
    call = [sys.executable, "-m", "fleet", "config", "set"]
    running = [
        subprocess.Popen([*call, f"{key}={n + 1}"], cwd=project, env=clean_env, stderr=subprocess.PIPE)
        for n, key in enumerate(keys)
    ]
    told = [process.communicate(timeout=120)[1] for process in running]
    assert [process.returncode for process in running] == [0] * 8, told
    assert settings(home)["concurrent"]["models"] == {f"m{n}": n + 1 for n in range(8)}
    assert mode(home / "runtime.toml") == 0o600


def test_settings_may_be_kept_elsewhere_behind_a_link(run: Run, home: Path, tmp_path: Path) -> None:
    dotfile = tmp_path / "dotfile.toml"
    dotfile.write_text("max_concurrent = 4\n")
    home.mkdir()
    (home / "runtime.toml").symlink_to(dotfile)
    assert run("config", "set", "model=opus").code == 0
    assert (home / "runtime.toml").is_symlink()
    assert tomllib.loads(dotfile.read_text()) == {"max_concurrent": 4, "model": "opus"}


HOSTILE = {
    "large": (b"# " + b"x" * 998 + b"\n") * 1000,
    "deep": b"a = " + b"[" * 30_000,
    "deep and closed": b"a = " + b"[" * 30_000 + b"]" * 30_000,
    "many steps": b"a." * 30_000 + b"a = 1",
    "not UTF-8": b'model = "\xff"\n',
    "a NUL": b"\0",
    "many problems": b"".join(b"k%d=1\n" % n for n in range(6000)),
    "half": b'model = "op',
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_named_by_every_command_and_never_a_bug(run: Run, home: Path, name: str) -> None:
    home.mkdir()
    (home / "runtime.toml").write_bytes(HOSTILE[name])
    for call in (["validate"], ["set", "max_concurrent=4"]):
        ran = run("config", *call, timeout=60)
        assert ran.code == 2, ran.err
        assert "runtime.toml" in ran.err or "nothing was changed" in ran.err
        assert len(ran.err) < 20_000
    assert (home / "runtime.toml").read_bytes() == HOSTILE[name]


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_file_is_named_and_left_alone(run: Run, home: Path, make: Any) -> None:
    home.mkdir()
    make(home / "runtime.toml")
    for call in (["show"], ["show", "--raw"], ["validate"], ["set", "max_concurrent=4"]):
        ran = run("config", *call, timeout=60)
        assert ran.code == 2
        assert "runtime.toml cannot be read: not a regular file" in ran.err
    assert not (home / "runtime.toml").is_file()


def test_validate_reports_every_problem_as_data(run: Run, home: Path) -> None:
    assert run("config", "validate", "--json").json() == {"valid": True, "problems": []}
    home.mkdir()
    (home / "runtime.toml").write_text("max_concurrent = 0\n\ncooder = 1\n")
    ran = run("config", "validate", "--json")
    assert ran.code == 2
    assert [(one["line"], one["path"]) for one in ran.json()["problems"]] == [(1, ["max_concurrent"]), (3, ["cooder"])]
    assert (
        f"{home / 'runtime.toml'}:3:1: cooder is not a known key (did you mean coder?)" in run("config", "validate").err
    )


def test_edit_replaces_the_file_only_with_a_valid_one(run: Run, home: Path) -> None:
    good = run("config", "edit", env={"EDITOR": "sed -i 's/^#max_concurrent.*/max_concurrent = 7/'"})
    assert good.code == 0, good.err
    assert settings(home) == {"max_concurrent": 7, "limits": {}, "budget": {}, "liveness": {}, "concurrent": NOBODY}
    before = (home / "runtime.toml").read_bytes()
    bad = run("config", "edit", env={"EDITOR": "sed -i 's/^max_concurrent.*/max_concurrent = -7/'"})
    assert bad.code == 2
    assert "max_concurrent must be a whole number, at least 1" in bad.err
    assert "nothing was changed" in run("config", "edit", env={"EDITOR": "true"}).err
    assert (home / "runtime.toml").read_bytes() == before
    assert mode(home / "runtime.toml") == 0o600


def test_edit_does_not_undo_what_somebody_else_set_meanwhile(run: Run, home: Path, tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text(f"#!/bin/sh\n{sys.executable} -m fleet config set max_concurrent=9\necho 'model = \"o\"' > $1\n")
    editor.chmod(0o700)
    ran = run("config", "edit", env={"EDITOR": str(editor)})
    assert ran.code == 1
    assert "changed by somebody else" in ran.err
    assert settings(home)["max_concurrent"] == 9
    assert "model" not in settings(home)


def test_a_set_wakes_the_supervisor_that_waits(run: Run, home: Path) -> None:
    run("init", "--home-only")
    os.mkfifo(home / "wake")
    assert run("config", "set", "max_concurrent=4").code == 0, "nobody waits, and nobody is waited for"
    fd = os.open(home / "wake", os.O_RDONLY | os.O_NONBLOCK)
    try:
        run("config", "set", "max_concurrent=5")
        assert os.read(fd, 10) == b"\0"
        while wake(home):  # until the pipe is full, which must not block
            pass
    finally:
        os.close(fd)


def test_a_wake_that_is_no_bell_is_left_alone(tmp_path: Path) -> None:
    assert not wake(tmp_path)
    (tmp_path / "wake").write_text("a file")
    assert not wake(tmp_path)
    assert (tmp_path / "wake").read_text() == "a file"


def test_reading_the_settings_loads_no_library_that_only_changing_them_needs(clean_env: dict[str, str]) -> None:
    code = (
        "import sys, fleet.app.home, fleet.config.runtime as r; r.read(fleet.app.home.settings_path());"
        "print(*{'tomlkit', 'yaml', 'dbos', 'h11', 'urllib.request'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], env=clean_env, capture_output=True, text=True, check=True)
    assert done.stdout == "\n"
