"""fleet update, with real pip, uv and git: from a checkout, a git address, a wheel; and an index, never asked."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

import fleet
from conftest import Run
from fleet import __version__

NEWER = "999.0"
SOURCE = Path(fleet.__file__).parent
UV = Path(sys.executable).with_name("uv")
PROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
"""
BACKEND = '''
import re
import zipfile
from pathlib import Path


def build_wheel(directory, config_settings=None, metadata_directory=None):
    """The program as it stands here, without what it needs."""
    version = re.search('__version__ = "(.*)"', Path("src/fleet/__init__.py").read_text())[1]
    name, about = f"fleet_agents-{version}-py3-none-any.whl", f"fleet_agents-{version}.dist-info"
    with zipfile.ZipFile(Path(directory) / name, "w") as archive:
        for path in sorted(Path("src").rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                archive.write(path, path.relative_to("src"))
        archive.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\\nName: fleet-agents\\nVersion: {version}\\n")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        archive.writestr(f"{about}/entry_points.txt", "[console_scripts]\\nfleet = fleet.__main__:main\\n")
        archive.writestr(f"{about}/RECORD", "")
    return name
'''


class Desk:
    """A checkout of fleet with a repository, and an installation of its own, made by a real tool."""

    def __init__(self, at: Path) -> None:
        self.at = at
        self.checkout = at / "checkout"
        self.index = at / "index"
        self.env = {
            "PATH": f"{at}/bin:{UV.parent}:/usr/bin:/bin",
            "HOME": str(at),
            "FLEET_HOME": str(at / "home"),
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(self.index),
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "UV_TOOL_DIR": str(at / "tools"),
            "UV_TOOL_BIN_DIR": str(at / "uvbin"),
            "UV_CACHE_DIR": str(at / "cache"),
            "UV_NO_CONFIG": "1",
            "UV_OFFLINE": "1",
            "UV_PYTHON_DOWNLOADS": "never",
        }
        self.python = ""
        self.index.mkdir()
        shutil.copytree(SOURCE, self.checkout / "src/fleet", ignore=shutil.ignore_patterns("__pycache__"))
        (self.checkout / "pyproject.toml").write_text(PROJECT)
        (self.checkout / "backend.py").write_text(BACKEND)
        self.git("init", "-q", "-b", "main")
        self.commit()

    def ran(self, *argv: str | Path) -> str:
        done = subprocess.run([*map(str, argv)], cwd=self.at, env=self.env, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def git(self, *words: str) -> str:
        return self.ran("git", "-C", self.checkout, "-c", "user.name=p", "-c", "user.email=p@example.invalid", *words)

    def commit(self) -> str:
        """Everything that stands in the checkout; the commit, as short as it is shown."""
        self.git("add", "-A")
        self.git("commit", "-qm", "as it stands")
        return self.git("rev-parse", "--short=12", "HEAD").strip()

    def change(self, old: str, new: str) -> None:
        path = self.checkout / "src/fleet/__init__.py"
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    def wheel(self, version: str) -> Path:
        """A wheel of the checkout as it stands, under another version, in the index."""
        self.change(__version__, version)
        code = "import sys, backend; print(backend.build_wheel(sys.argv[1]))"
        made = subprocess.run(
            [sys.executable, "-c", code, self.index], cwd=self.checkout, check=True, capture_output=True, text=True
        )
        self.change(version, __version__)
        return self.index / made.stdout.strip()

    def pip(self, *words: str | Path) -> None:
        """Install with pip, into an environment that may use what the program needs from the tests' own."""
        self.ran(sys.executable, "-m", "venv", self.at / "venv")
        self.ran(self.at / "venv/bin/pip", "install", "-q", *words)
        self.lend(self.at / "venv")

    def lend(self, prefix: Path) -> None:
        self.python = str(prefix / "bin/python")
        site = self.ran(self.python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
        (Path(site) / "lent.pth").write_text(sysconfig.get_path("purelib") + "\n")

    def update(self, *args: str) -> tuple[int, Any, str]:
        done = subprocess.run(
            [self.python, "-m", "fleet", "update", *args, "--json"],
            cwd=self.at, env=self.env, capture_output=True, text=True, check=False,
        )  # fmt: skip
        return done.returncode, json.loads(done.stdout or "{}"), done.stderr


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def follow_a_checkout(desk: Desk, method: str) -> None:
    """Up to date, other code, a newer version, and gone."""
    code, told, said = desk.update("--check")
    assert (code, told["method"], told["newest"], told["newer"]) == (0, method, __version__, False), said
    assert told["origin"] == desk.checkout.as_uri()
    desk.change("Runs a fleet", "Runs the fleet")
    code, told, said = desk.update()
    assert code == 0, said
    assert (told["installed"], told["updated_from"], told["newer"]) == (__version__, __version__, False)
    assert desk.update("--check")[1]["newer"] is False, "what was brought is what stands there"
    desk.change(__version__, NEWER)
    code, told, _ = desk.update("--check", "--force")
    assert (code, told["installed"], told["newest"], told["newer"]) == (0, __version__, NEWER, True)
    code, told, said = desk.update()
    assert (code, told["installed"], told["updated_from"]) == (0, NEWER, __version__), said
    shutil.rmtree(desk.checkout)
    code, told, _ = desk.update()
    assert (code, told["newer"], told["command"]) == (1, None, None)
    assert told["reason"]


def follow_a_repository(desk: Desk, method: str) -> None:
    """Up to date, one commit behind, and not to be reached."""
    code, told, said = desk.update("--check")
    assert (code, told["method"], told["newer"]) == (0, method, False), said
    assert told["origin"] == f"git+{desk.checkout.as_uri()}"
    desk.change("Runs a fleet", "Runs the fleet")
    commit = desk.commit()
    code, told, _ = desk.update("--check")
    assert (code, told["newest"], told["newer"]) == (0, commit, True)
    code, told, said = desk.update()
    assert code == 0, said
    assert (told["newest"], told["newer"]) == (commit, False)
    assert desk.update("--check")[1]["newer"] is False
    (desk.checkout / ".git").rename(desk.at / "moved")
    code, told, _ = desk.update()
    assert (code, told["newer"]) == (1, None)
    assert "git ls-remote says: " in told["reason"]


def test_pip_brings_what_stands_in_the_checkout(desk: Desk) -> None:
    desk.pip(desk.checkout)
    follow_a_checkout(desk, "pip")


def test_pip_brings_what_the_repository_has(desk: Desk) -> None:
    desk.pip(f"git+{desk.checkout.as_uri()}")
    follow_a_repository(desk, "pip")


@pytest.mark.parametrize("origin", ["checkout", "repository"])
def test_uv_brings_what_its_tool_came_from(desk: Desk, origin: str) -> None:
    address = desk.checkout.as_uri() if origin == "checkout" else f"git+{desk.checkout.as_uri()}"
    desk.ran(UV, "tool", "install", "--quiet", "--python", sys.executable, address)
    desk.lend(desk.at / "tools/fleet-agents")
    (follow_a_checkout if origin == "checkout" else follow_a_repository)(desk, "uv tool")


def test_who_installed_a_version_is_told_of_a_newer_one_and_keeps_theirs(desk: Desk) -> None:
    desk.git("tag", "v0.1")
    desk.pip(f"git+{desk.checkout.as_uri()}@v0.1")
    assert desk.update()[1]["newer"] is False
    desk.git("tag", f"v{NEWER}")
    code, told, _ = desk.update()
    assert (code, told["newest"], told["newer"], told["command"]) == (0, f"v{NEWER}", True, None)
    assert (told["installed"], told["updated_from"]) == (__version__, None)


def test_from_an_index_nothing_is_ever_installed(desk: Desk) -> None:
    """Whoever takes the name there would have their code installed."""
    desk.wheel(__version__)
    desk.pip("fleet-agents")
    desk.wheel(NEWER)
    for args in ((), ("--force",)):
        code, told, _ = desk.update(*args)
        assert (code, told["installed"], told["newest"], told["command"]) == (1, __version__, None, None)
        assert "is not published" in told["reason"]
    assert desk.ran(desk.python, "-c", "import fleet; print(fleet.__version__)").strip() == __version__


def test_of_a_wheel_nobody_here_knows_a_newer_one(desk: Desk) -> None:
    made = desk.wheel(__version__)
    desk.pip(made)
    desk.wheel(NEWER)
    code, told, _ = desk.update()
    assert (code, told["newest"], told["origin"]) == (1, None, made.as_uri())
    assert "only who made that knows" in told["reason"]


def test_a_tool_that_fails_is_named_with_its_command(desk: Desk) -> None:
    desk.pip(desk.checkout)
    desk.change(__version__, NEWER)
    (desk.checkout / "backend.py").write_text("raise SystemExit(7)\n")
    code, told, said = desk.update()
    assert (code, told) == (1, {})
    assert f"pip ended with exit code 1, and {__version__} is installed, not {NEWER}" in said
    assert f"-m pip install --force-reinstall {desk.checkout.as_uri()}" in said


def test_a_checkout_that_runs_where_it_stands_is_never_touched(run: Run) -> None:
    told = run("update", "--json")
    assert told.code == 1
    assert (told.json()["method"], told.json()["command"]) == ("source", None)
    plain = run("update")
    assert "unknown" in plain.out
    assert "git -C" in plain.err


@pytest.mark.parametrize(("start", "variable"), [(["-v"], ""), (["--verbose"], ""), ([], "AI_FLEET_DEBUG")])
def test_verbose_tells_which_programs_are_run_and_nothing_of_their_environment(
    run: Run, start: list[str], variable: str
) -> None:
    ran = run(*start, "coders", "list", env={"MY_TOKEN": "hush-hush"} | ({variable: "1"} if variable else {}))
    told = [line for line in ran.err.splitlines() if line.startswith("+ ")]
    assert any(" --version  (exit 0, " in line for line in told)
    assert "hush" not in ran.err


def test_without_a_wish_nothing_is_told(run: Run) -> None:
    assert "+ " not in run("coders", "list", env={"AI_FLEET_DEBUG": "0"}).err
