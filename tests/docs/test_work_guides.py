"""The guides of the work plane are true: every state, field, event, variable and file in them is the program's own, and
the examples run.
"""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fleet import coders
from fleet.app.coders import Listed
from fleet.app.doctor import Health
from fleet.app.doctor_work import CHECKS
from fleet.app.tasks import READABLE, Row, Shown
from fleet.coders import agy, aider, claude, codex, conformance, gemini, opencode, qwen
from fleet.config import runtime
from fleet.config.runtime_schema import BUILT_IN, EventsAs, RuntimeFile
from fleet.core.states import Group, ShownState
from fleet.core.work import Ending, Event, EventKind, State, Verdict
from fleet.evidence.receipt import Receipt
from fleet.supervisor.environment import KEPT, KEPT_PREFIXES, PROXIES
from fleet.tracker import beads, plan

ROOT = Path(__file__).resolve().parent.parent.parent
GUIDES = ROOT / "docs/guides"
FLEET = Path(sys.executable).parent
TASKS, SUPERVISOR, CODERS, BEADS = (
    (GUIDES / f"{name}.md").read_text() for name in ("tasks", "supervisor", "coders", "beads")
)
SAID = re.compile(r"\.say\(\s*\"([^\"]+)\"|\"(agent started|agent adopted|claims stopped|claims go on)\"")


def quoted(text: str) -> set[str]:
    """Everything that stands between backquotes."""
    return set(re.findall(r"`([^`\n]+)`", text))


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def first_cells(text: str) -> set[str]:
    """What the tables of a page are about."""
    return {name for line in text.splitlines() if line.startswith("| `") for name in quoted(line.split(" | ")[0])}


def test_every_state_ending_verdict_and_kind_of_event_is_explained() -> None:
    explained = first_cells(TASKS)
    said = quoted(TASKS) | quoted((ROOT / "docs/guides/liveness.md").read_text())
    assert [state for state in (*State, *ShownState, *Group) if state not in said] == []
    assert [ending for ending in Ending if ending not in explained] == []
    assert [kind for kind in EventKind if kind not in explained] == []
    assert [verdict for verdict in Verdict if verdict not in quoted(TASKS)] == []


def test_every_ending_and_verdict_has_its_line_among_the_words() -> None:
    words = (ROOT / "docs/words.md").read_text()
    assert [word for word in (*Ending, *Verdict) if f"\n| **{word}** | " not in words] == []


@pytest.mark.parametrize(
    "package", ["supervisor", "app", "core", "config", "host", "evidence", "keeper", "tracker", "questions"]
)
def test_every_module_of_a_floor_is_in_the_house(package: str) -> None:
    (row,) = [line for line in (ROOT / "docs/house.md").read_text().splitlines() if f"| `{package}` |" in line]
    named = {word for name in quoted(row) for word in name.split(".")}
    modules = {path.stem for path in (ROOT / "src/fleet" / package).glob("[a-z]*.py")}
    assert modules - named - ({"errors", "text"} if package == "core" else set()) == set()  # these two in words


def test_every_field_that_scripts_read_is_explained() -> None:
    told = quoted(TASKS)
    assert [field.name for field in fields(Row) if field.name not in first_cells(TASKS)] == []
    assert [field.name for field in fields(Shown) if field.name not in told] == []
    assert [field.name for field in fields(Event) if field.name not in told] == []
    assert [field.name for field in fields(Receipt) if field.name not in told] == []


def test_everything_that_a_task_leaves_can_be_read_as_the_guide_says() -> None:
    assert [what for what in READABLE if f"fleet task t1 {what}" not in TASKS] == []


def test_every_line_of_the_log_is_explained() -> None:
    sources = [*(ROOT / "src/fleet/supervisor").glob("*.py"), ROOT / "src/fleet/app/run.py"]
    said = {name for path in sources for pair in SAID.findall(path.read_text()) for name in pair if name}
    assert len(said) > 15
    assert said - first_cells(SUPERVISOR) == set()


def test_every_check_of_doctor_is_explained() -> None:
    named = first_cells((GUIDES / "doctor.md").read_text())
    assert {*CHECKS, *Health} - named == set()


def test_every_coder_has_its_section_and_its_flags() -> None:
    assert sorted(BUILT_IN) == sorted(coders.OURS)
    for name in BUILT_IN:
        assert f"\n### {name}\n" in CODERS
    for module in (claude, codex, opencode, gemini, qwen, aider, agy):
        assert [option for option in module.OPTIONS if option not in CODERS] == []
    assert [stream for stream in EventsAs if stream not in first_cells(CODERS)] == []


def test_every_fact_of_a_coder_that_scripts_read_is_in_the_guide() -> None:
    assert [field.name for field in fields(Listed) if field.name not in quoted(CODERS)] == []


def test_the_environment_is_the_one_in_the_guide() -> None:
    prefixes = {f"{prefix}*" for prefix in KEPT_PREFIXES}
    assert {*KEPT, *prefixes, *PROXIES, "TERM", "NO_COLOR"} <= quoted(CODERS)


def test_every_setting_is_in_the_guide() -> None:
    told = (GUIDES / "settings.md").read_text() + CODERS
    names = {field.name for field in msgspec.structs.fields(RuntimeFile)}
    assert {name for name in names if not re.search(rf"\b{name}\b", told)} == set()


def test_the_versions_of_bd_are_those_that_are_checked() -> None:
    assert f"bd {'.'.join(map(str, beads.OLDEST))} or newer, below {beads.TOO_NEW[0]}" in BEADS


@pytest.mark.parametrize("guide", ["settings", "coders", "supervisor", "tasks"])
def test_every_runtime_toml_in_the_guides_is_valid(guide: str) -> None:
    for block in blocks((GUIDES / f"{guide}.md").read_text(), "toml"):
        assert block.startswith("# runtime.toml\n")
        runtime.parse(block, Path("runtime.toml"))


def test_the_events_of_the_guide_are_read_as_what_they_say() -> None:
    (block,) = blocks(CODERS, "json")
    for line in block.splitlines():
        (event,) = coders.Declared("mine", ("x",), events="jsonl").read(line.encode())
        assert event.kind == json.loads(line)["kind"]
        assert event.kind is not EventKind.OTHER


def test_the_coder_of_the_guide_keeps_every_promise() -> None:
    (block,) = blocks(CODERS, "python")
    made: dict[str, Any] = {}
    exec(block, made)
    assert [one for one in conformance.examine(made["Scribe"](), b"words") if not one.passed] == [
        conformance.Check("sees a session or a result", False, "of 1 lines none begins a session or ends one")
    ]


@dataclass(frozen=True)
class Desk:
    """A home, a repository, and the real program."""

    home: Path
    repository: Path
    env: dict[str, str]

    def run(self, script: str) -> str:
        done = subprocess.run(
            ["bash", "-euc", script], cwd=self.repository, env=self.env, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    home, repository, bin = (tmp_path / name for name in ("home", "repository", "bin"))
    for directory in (repository, bin):
        directory.mkdir()
    env = {"PATH": f"{bin}:{FLEET}:{os.environ['PATH']}", "HOME": str(tmp_path), "FLEET_HOME": str(home)}
    found = Desk(home, repository, env)
    found.run("git init -q -b main && git -c user.name=a -c user.email=a@a.invalid commit -q --allow-empty -m begin")
    (bin / "note-taker").write_text(next(text for text in blocks(CODERS, "sh") if text.startswith("#!/bin/sh\n")))
    (bin / "note-taker").chmod(0o755)
    yield found
    subprocess.run([FLEET / "fleet", "run", "stop"], env=env, capture_output=True, timeout=60)


def test_the_program_of_your_own_works_as_the_guide_says(desk: Desk) -> None:
    (example,) = [text for text in blocks(CODERS, "sh") if text.startswith("fleet config set 'coders.note-taker")]
    said = desk.run(example)
    (shown,) = [text for text in blocks(CODERS, "text") if "note-taker" in text]
    assert re.search(r"t1 +✓ done, verified .* note-taker .* Note this down", said)
    assert said.splitlines()[-2].split() == shown.splitlines()[1].split()


def test_every_file_of_the_home_is_in_the_guide_and_private(desk: Desk) -> None:
    desk.run("fleet config set coder=demonstration model= && fleet add 'Write a line' --check false --attempts 1")
    desk.run("fleet run --drain")
    named = first_cells(SUPERVISOR)
    for path in desk.home.rglob("*"):
        where = re.sub(r"^tasks/t1(/attempts/1)?(/check)?", "", str(path.relative_to(desk.home)))
        known = {name.removeprefix("tasks/ID/").removeprefix("attempts/N/").rstrip("/") for name in named}
        parts = where.strip("/").split("/")
        assert not where or parts[0] in {*known, "tasks", "attempts"} or parts[0].startswith("fleet.db"), where
        if "artifacts" not in parts:
            assert stat.S_IMODE(path.lstat().st_mode) == (0o700 if path.is_dir() else 0o600), where


def test_the_refused_task_of_the_guide_is_shown_so(desk: Desk) -> None:
    (shown,) = [text for text in blocks(TASKS, "text") if text.startswith("id: ")]
    desk.run("fleet config set coder=demonstration model=; fleet add One; fleet add Two")
    desk.run("fleet add 'Write the release note' --check 'test -e proof.txt' --attempts 1")
    desk.run("fleet abort t1; fleet abort t2; fleet run --drain")
    said = desk.run("fleet show t3").replace(str(desk.repository), "/home/you/project")
    times = re.compile(r"\d\d:\d\d:\d\d  \d+s")
    assert times.sub("T", said) == times.sub("T", shown)


def test_the_plan_of_the_guide_is_added_as_it_says(desk: Desk) -> None:
    (section,) = re.findall(r"^## A whole plan at once\n(.*?)^## ", TASKS, re.DOTALL | re.MULTILINE)
    assert set(plan.NAMES) <= quoted(section)
    (written,), (calls,), (shown,), (objects,) = (blocks(section, name) for name in ("markdown", "sh", "text", "json"))
    (desk.repository / "plan.md").write_text(written)
    said = desk.run(calls)
    assert said.endswith(shown)
    assert said.count("Write the guide  (after api)") == 1
    told = json.loads(desk.run(f"fleet add --json --file - <<'END'\n{objects}END"))
    assert [(one["key"], one["id"], one["after"]) for one in told] == [("db", "t6", []), ("#2", "t7", ["t6"])]
    assert [name for name in told[0] if name not in quoted(section)] == []
