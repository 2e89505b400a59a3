"""Coders that come from elsewhere: the example package, installed for itself; strangers that misbehave; a stand-in agy.

They share one environment and one run of the supervisor.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from fleet.coders import OURS
from standins.coders.scratch import HERE, Record, Scratch, scratch

EXAMPLE = Path(__file__).parents[2] / "examples" / "coder-package"
CLUMSY = """
import sys

from fleet.coders.base import Can, Command

ARGV = ("/bin/sh", "-c", "cat > prompt.txt; echo one line; echo another line")


class Coder:
    name, context_limit, program, can, unproven = "any", None, "sh", Can(), ""

    def command(self, job):
        return Command(ARGV, stdin=job.prompt)

    def read(self, line):
        return []


class Raises(Coder):
    def read(self, line):
        sys.exit("I leave") if line.startswith(b"one") else {}["no such key"]


class Babbles(Coder):
    def read(self, line):
        return ["no event at all"]


class Balks(Coder):
    def command(self, job):
        raise TypeError("not today")


class Strange(Coder):
    can = "everything"
"""
POINTS = """[fleet.coders]
raises = clumsy:Raises
babbles = clumsy:Babbles
balks = clumsy:Balks
strange = clumsy:Strange
torn = no_such_module:Coder
Not a name = clumsy:Coder
claude = clumsy:Raises
"""


def environment(root: Path) -> Path:
    """An environment in which fleet is, and into which two other packages are installed; its Python."""
    venv.create(root, symlinks=True)
    python, ours = root / "bin" / "python", sysconfig.get_path("purelib")
    (site,) = root.glob("lib/python*/site-packages")
    (site / "fleet.pth").write_text(f"import site; site.addsitedir({ours!r})\n")
    source = root / "source"
    shutil.copytree(EXAMPLE, source)
    quiet = ("--quiet", "--disable-pip-version-check", "--no-index", "--no-deps", "--no-build-isolation")
    subprocess.run([sys.executable, "-m", "pip", "--python", python, "install", *quiet, source], check=True)
    (site / "clumsy.py").write_text(CLUMSY)
    for name, points in {"clumsy": POINTS, "broken": "[fleet.coders]\nno entry point at all\n"}.items():
        facts = site / f"{name}-2.0.dist-info"
        facts.mkdir()
        (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 2.0\n")
        (facts / "entry_points.txt").write_text(points)
    shutil.copy(HERE / "agy", root / "bin" / "agy")
    return python


@dataclass(frozen=True)
class Worked:
    home: Scratch
    ids: dict[str, str]
    rows: dict[str, Record]
    listed: dict[str, Record]
    said: list[Record]

    def row(self, coder: str) -> Record:
        return self.rows[self.ids[coder]]

    def events(self, coder: str, kind: str) -> list[Record]:
        events = map(json.loads, self.home.ok("task", self.ids[coder], "events").out.splitlines())
        return [event for event in events if event["kind"] == kind]


@pytest.fixture(scope="module")
def worked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worked]:
    root = tmp_path_factory.mktemp("guests")
    with scratch(root, environment(root / "venv")) as home:
        home.settle("max_concurrent=6", "backoff=0s", "coder=scribe", "model=small", "concurrent.coders.scribe=1")
        before = sorted(home.user.iterdir())
        listed = {row["name"]: row for row in home.ok("coders", "list", "--json").json()}
        assert sorted(home.user.iterdir()) == before, "asking for versions writes nothing into the home"
        ids = {
            coder: home.add(coder, "--coder", coder, "--cwd", home.place(coder, git=True), "--attempts", "1")
            for coder in ("scribe", "raises", "babbles", "balks")
        }
        check = ("--check", "grep -q 235ab503 work.txt", "--attempts", "2", "--model", "ignored")
        ids["agy"] = home.add("agy", "--coder", "agy", "--cwd", home.place("agy", git=True), *check)
        said = home.drain()
        yield Worked(home, ids, home.tasks(), listed, said)


# One that keeps its promise


def test_a_coder_of_another_package_works_like_one_of_ours(worked: Worked) -> None:
    row = worked.row("scribe")
    assert (row["state"], row["cause"]) == ("done", "1 commit, 1 file changed")
    assert (row["coder"], row["attempts"]) == ("scribe", 1)
    assert row["tokens"] > 100
    assert [event["tool"] for event in worked.events("scribe", "tool_called")] == ["write"]
    assert [event["text"] for event in worked.events("scribe", "result")] == ["Noted."]


def test_it_is_listed_with_the_package_that_brings_it(worked: Worked) -> None:
    scribe = worked.listed["scribe"]
    assert (scribe["origin"], scribe["package"], scribe["version"]) == ("installed", "fleet-scribe 1.0", "1.0")
    assert (scribe["argv"], scribe["default"]) == (["scribe", "--model=small"], True)
    assert (scribe["context_limit"], scribe["can"]["usage"], scribe["can"]["resume"]) == (8000, True, False)


def test_it_passes_every_check(worked: Worked) -> None:
    printed = worked.home.home / "tasks" / worked.ids["scribe"] / "attempts" / "1" / "stdout"
    found = worked.home.ok("coders", "check", "scribe", "--transcript", printed, "--json").json()
    assert len(found) > 12
    assert [one["why"] for one in found if not one["passed"]] == []


def test_what_is_declared_goes_before_what_is_installed(worked: Worked, tmp_path: Path) -> None:
    with scratch(tmp_path, Path(worked.home.python)) as home:
        refused = home.fleet("config", "set", "coders.scribe.prompt=arg")
        assert (refused.code, "scribe is installed" in refused.err) == (2, True)
        assert home.ok("config", "set", 'coders.scribe.args=["--more"]')
        (scribe,) = [row for row in home.ok("coders", "list", "--json").json() if row["name"] == "scribe"]
        assert (scribe["origin"], scribe["argv"]) == ("installed", ["scribe", "--more"])
        home.settle('coders.scribe.argv=["/bin/echo"]')
        (scribe,) = [row for row in home.ok("coders", "list", "--json").json() if row["name"] == "scribe"]
        assert (scribe["origin"], scribe["argv"]) == ("declared", ["/bin/echo", "--more"])


def test_a_wrong_name_is_answered_with_the_right_ones(worked: Worked) -> None:
    refused = worked.home.fleet("add", "a task", "--coder", "scrib")
    assert (refused.code, "did you mean scribe?" in refused.err) == (2, True)


# Those that do not


@pytest.mark.parametrize(
    ("coder", "words"),
    [
        ("raises", ["SystemExit: I leave", "KeyError: 'no such key'"]),
        ("babbles", ["str is no Event", "str is no Event"]),
    ],
)
def test_what_a_coder_cannot_read_is_kept_and_its_agent_goes_on(worked: Worked, coder: str, words: list[str]) -> None:
    assert worked.row(coder)["state"] == "done"
    kept = [event["text"] for event in worked.events(coder, "other")]
    assert [word in text for word, text in zip(words, kept, strict=True)] == [True, True]


def test_a_coder_that_makes_no_command_ends_its_attempt_and_no_other(worked: Worked) -> None:
    row = worked.row("balks")
    assert (row["state"], row["note"]) == ("failed", "the coder balks made no command: TypeError: not today")
    assert worked.said[-1]["event"] == "supervisor ended"


def test_a_broken_coder_is_one_bad_row(worked: Worked) -> None:
    assert "can must be a Can" in worked.listed["strange"]["problem"]
    assert "No module named 'no_such_module'" in worked.listed["torn"]["problem"]
    assert "clumsy 2.0" in worked.listed["torn"]["problem"]
    assert "its name must match" in worked.listed["Not a name"]["problem"]
    assert set(worked.listed) == {*OURS, "scribe", "raises", "babbles", "balks", "strange", "torn", "Not a name"}
    assert "not today" in worked.listed["balks"]["problem"]


def test_nobody_takes_the_name_of_one_of_ours(worked: Worked) -> None:
    assert (worked.listed["claude"]["origin"], worked.listed["claude"]["program"]) == ("built in", "claude")


def test_a_check_says_what_is_wrong(worked: Worked) -> None:
    found = worked.home.fleet("coders", "check", "raises")
    assert found.code == 1
    assert "FAIL  reads whatever is printed" in found.out
    assert "makes it raise KeyError: 'no such key'" in " ".join(found.out.split())
    assert "FAIL  refuses what no program can be given" in found.out
    assert "pass  makes a command" in found.out
    assert worked.home.fleet("coders", "check", "torn").code == 2
    assert worked.home.fleet("coders", "check", "nobody").code == 3


# agy, as a stand-in plays it


def test_agy_works_as_its_documentation_says(worked: Worked) -> None:
    row = worked.row("agy")
    assert (row["state"], row["attempts"], row["session"]) == ("done", 2, "235ab503-43b5-4e17-8bde-52f903ccd7a7")
    assert (row["tokens"], row["peak_context_pct"], row["cost"]) == (2 * 13114, 10, None)
    assert [event["tool"] for event in worked.events("agy", "tool_called")] == ["write_to_file"] * 2
    assert [event["text"] for event in worked.events("agy", "said")] == ["I did it."] * 2


def test_what_the_stand_in_of_agy_prints_is_understood(worked: Worked) -> None:
    printed = worked.home.home / "tasks" / worked.ids["agy"] / "attempts" / "1" / "stdout"
    found = worked.home.ok("coders", "check", "agy", "--transcript", printed).out
    assert "pass  hears the session that it would resume" in found
    assert "pass  hears the usage that it claims" in found


def test_agy_says_that_it_is_unproven_and_ignores_the_model(worked: Worked) -> None:
    agy = worked.listed["agy"]
    assert (agy["version"], agy["context_limit"]) == ("1.2.13", 128000)
    assert agy["unproven"].startswith("all of it")
    assert not [word for word in agy["argv"] if "model" in word]


def test_the_list_can_be_read_on_eighty_columns(worked: Worked) -> None:
    shown = worked.home.ok("coders", "list").out.splitlines()
    assert [line for line in shown if len(line) > 80 and " " in line[14:]] == []
    for words in ("agy  1.2.13  (built in)", "scribe  1.0  (installed by fleet-scribe 1.0)  default", "torn  broken"):
        assert [line for line in shown if line.startswith(words)], words
    assert [line for line in shown if line.startswith("  can         resume, usage")]
