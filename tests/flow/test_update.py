"""fleet update, with real pip and real uv, an index that is a directory, and versions made for the test."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path
from typing import Any

import pytest

import fleet
from conftest import Run
from fleet import __version__

NEWER = "999.0"
SOURCE = Path(fleet.__file__).parent
UV = Path(sys.executable).with_name("uv")


def wheel(index: Path, version: str) -> None:
    """The program as it is, under another version and without what it needs."""
    about = f"fleet-{version}.dist-info"
    index.mkdir(exist_ok=True)
    with zipfile.ZipFile(index / f"fleet-{version}-py3-none-any.whl", "w") as archive:
        for path in sorted(SOURCE.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts and path != SOURCE / "__init__.py":
                archive.writestr(f"fleet/{path.relative_to(SOURCE)}", path.read_bytes())
        archive.writestr("fleet/__init__.py", f'__version__ = "{version}"\n')
        archive.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: fleet\nVersion: {version}\n")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{about}/entry_points.txt", "[console_scripts]\nfleet = fleet.__main__:main\n")
        archive.writestr(f"{about}/RECORD", "")


class Desk:
    """An installation of its own, made by a real tool from an index in a directory."""

    def __init__(self, at: Path) -> None:
        self.at = at
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

    def ran(self, *argv: str | Path) -> str:
        return subprocess.run(
            [*map(str, argv)], cwd=self.at, env=self.env, check=True, capture_output=True, text=True
        ).stdout

    def lend(self, prefix: Path) -> None:
        """Let an environment use what the program needs from the one that the tests run in."""
        self.python = str(prefix / "bin/python")
        site = self.ran(self.python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
        (Path(site) / "lent.pth").write_text(sysconfig.get_path("purelib") + "\n")

    def update(self, *args: str) -> tuple[int, Any, str]:
        done = subprocess.run(
            [self.python, "-m", "fleet", "update", *args, "--json"],
            cwd=self.at, env=self.env, capture_output=True, text=True, check=False,
        )  # fmt: skip
        return done.returncode, json.loads(done.stdout) if done.stdout else None, done.stderr


def follow_the_story(desk: Desk, method: str) -> None:
    """Up to date, remembered, asked again, updated, and nothing there any more."""
    code, told, _ = desk.update("--check")
    assert (code, told["method"], told["newest"], told["newer"]) == (0, method, __version__, False)
    wheel(desk.index, NEWER)
    code, told, _ = desk.update("--check")
    assert (code, told["newest"]) == (0, __version__), "it was asked a moment ago"
    code, told, _ = desk.update("--check", "--force")
    assert (code, told["installed"], told["newest"], told["newer"]) == (0, __version__, NEWER, True)
    code, told, said = desk.update()
    assert code == 0, said
    assert (told["installed"], told["updated_from"], told["newer"]) == (NEWER, __version__, False)
    for one in desk.index.iterdir():
        one.unlink()
    code, told, _ = desk.update("--check", "--force")
    assert (code, told["newest"], told["newer"]) == (1, None, None)
    assert told["reason"]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    made = Desk(tmp_path)
    wheel(made.index, __version__)
    return made


def test_what_pip_installed_pip_updates(desk: Desk) -> None:
    pip = desk.at / "venv/bin/pip"
    desk.ran(sys.executable, "-m", "venv", desk.at / "venv")
    desk.ran(pip, "install", "-q", next(desk.index.iterdir()))
    desk.lend(desk.at / "venv")
    code, told, _ = desk.update()
    assert (code, told["method"], told["newest"]) == (1, "file", None)
    assert str(desk.index) in told["reason"]
    desk.ran(pip, "install", "-q", "--force-reinstall", "fleet")
    follow_the_story(desk, "pip")


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


@pytest.mark.skipif(not UV.exists(), reason="uv is not beside the Python that runs the tests")
def test_what_uv_installed_as_a_tool_uv_updates(desk: Desk) -> None:
    index = ["--no-index", "--find-links", str(desk.index)]
    desk.ran(UV, "tool", "install", "--quiet", "--python", sys.executable, *index, "fleet")
    desk.lend(desk.at / "tools/fleet")
    follow_the_story(desk, "uv tool")


def test_a_checkout_is_never_touched(run: Run) -> None:
    told = run("update", "--json")
    assert told.code == 1
    assert told.json()["method"] == "source"
    plain = run("update")
    assert "unknown" in plain.out
    assert "git -C" in plain.err
