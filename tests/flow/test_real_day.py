"""A day with the real Claude Code: a check that cannot start, a red test, a login that fails, and the morning."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from standins.agent_models import Answer, Refuse, results
from standins.model_server import Asked, Say
from standins.real_claude import Claude, claude
from standins.work_models import CLOSING, attempt_of, commit, conversation, shell

pytestmark = [pytest.mark.agents, pytest.mark.timeout(300)]

FAILURE = "test_pricer.py::test_euros: assert '12.3 EUR' == '12.30 EUR'"
FILES = {
    ".gitignore": ".venv/\n__pycache__/\n",
    "fleet.yaml": "project: {name: pricer}\nworkspace: {place: worktree}\n",
    "pricer.py": "def euros(amount):\n    return f'{amount} EUR'\n",
    "test_pricer.py": 'import pricer\ndef test_euros():\n    assert pricer.euros(12.3) == "12.30 EUR"\n',
}
WRONG = "# Prices.\ndef euros(amount):\n    return f'{amount} EUR'\n"
RIGHT = "def euros(amount):\n    return f'{amount:.2f} EUR'\n"


class Model:
    """It mends what a failing test told it in so many words, and makes a file for every other task."""

    def __init__(self) -> None:
        self.is_logged_in = True

    def __call__(self, asked: Asked) -> Answer:
        if not asked.tools:
            return Say("a title")
        if not self.is_logged_in:
            return Refuse(401, "authentication_error", "OAuth token has expired")
        attempt = attempt_of(asked)
        if results(asked):
            return Say(CLOSING)
        if "Two decimals" not in conversation(asked):
            return shell(
                "claude", f"echo 'made by {attempt}' >made-{attempt}.txt; {commit(f'made-{attempt}.txt', attempt)}"
            )
        text = RIGHT if attempt.endswith(".2") and "== '12.30 EUR'" in conversation(asked) else WRONG
        return shell("claude", f"cat >pricer.py <<'END'\n{text}END\n{commit('pricer.py', attempt)}")


@dataclass(frozen=True)
class Day:
    house: Claude
    model: Model


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Day]:
    model = Model()
    settings = ("max_concurrent=2", "limits.attempts=2")
    with claude(tmp_path_factory.mktemp("day"), model, FILES, *settings) as house:
        yield Day(house, model)


def test_a_day_is_told_where_people_look_and_its_figures_agree(day: Day) -> None:
    house = day.house
    pytest_here = f"{sys.executable} -m pytest -q -p no:cacheprovider"

    # A check that cannot start holds its task, and costs nothing; what it says to do mends it.
    tools = house.project / ".venv/bin"
    tools.mkdir(parents=True)
    (tools / "look").write_text("#!/bin/sh\ntest -e made-*.txt\n")
    (tools / "look").chmod(0o755)
    held = house.add("Make a file", "--check", ".venv/bin/look")
    house.fleet("run", "--drain")
    (row,) = house.fleet("tasks", "--json").json()
    assert row["attempts"] == 0
    assert "the check cannot start in a clean checkout: .venv/bin/look is ignored by git" in row["cause"]
    assert f"fleet edit {held} --needs .venv" in row["cause"]
    house.fleet("edit", held, "--needs", ".venv")

    # A red test: its message is in the second prompt, and the second attempt mends it.
    red = house.add("Two decimals", "--check", pytest_here)
    house.fleet("run", "--drain")
    rows = {row["id"]: row for row in house.fleet("tasks", "--all", "--json").json()}
    assert {name: (one["state"], one["attempts"]) for name, one in rows.items()} == {
        held: ("done", 1), red: ("done", 2),
    }  # fmt: skip
    assert FAILURE in house.prompt(red, 2)

    # A login that fails holds five tasks and uses up nothing; then they are done.
    day.model.is_logged_in = False
    five = [house.add(f"task {number}") for number in range(5)]
    house.fleet("run", "--drain", code=1)
    day.model.is_logged_in = True
    said = house.fleet("tasks").out
    assert "5 held" in said
    assert "OAuth token has expired" in " ".join(said.split())
    assert "fleet resume --account claude" in said
    house.fleet("resume", "--account", "claude")
    house.fleet("run", "--drain")

    # The morning adds up: with the costs, and with git.
    work: dict[str, Any] = house.fleet("status", "--since", "yesterday", "--json").json()["work"]
    assert {one["id"] for one in work["done"]} == {held, red, *five}
    cost = house.fleet("cost", "--since", "yesterday", "--json").json()
    assert work["sums"]["cost"] == pytest.approx(
        sum(one["cost"] or 0 for one in house.fleet("tasks", "--all", "--json").json())
    )
    assert work["sums"]["cost"] == pytest.approx(cost["total"]["cost"])
    branches = house.git("for-each-ref", "--format=%(refname:short)", "refs/heads/fleet").split()
    assert set(branches) == {f"fleet/{name}" for name in (held, red, *five)}
    assert f"proven, not landed: {held}, {red} (fleet merge --proven)" in house.fleet("tasks", "--all").out
