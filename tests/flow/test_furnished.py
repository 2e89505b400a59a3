"""A task of the queue in a place of its own, with what its project wants there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet.host import database
from fleet.places import ports
from standins.coders.scratch import Scratch, scratch, until

WORKS = """\
test "$(cat .env)" = SECRET=1 && test -f ready && test "$PORT" -gt 1024 && echo "$PORT" > port.txt
git add port.txt && git -c user.name=a -c user.email=a@b commit -qm "the port"
"""
FLEET_YAML = """\
workspace:
  credential_files: [.env]
  setup: ["{setup}"]
  env: {{PORT: "{{port}}"}}
"""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Scratch]:
    with scratch(tmp_path) as found:
        found.settle(
            "coder=works", "model=", "limits.attempts=2", "backoff=0s", coders={"works": {"argv": ["sh", "-ec", WORKS]}}
        )
        yield found


def project(home: Scratch, setup: str) -> Path:
    path = home.place("project", git=True)
    (path / "fleet.yaml").write_text(FLEET_YAML.format(setup=setup))
    (path / ".env").write_text("SECRET=1")
    return path


def test_a_queued_task_works_in_a_furnished_worktree_and_the_project_is_untouched(home: Scratch) -> None:
    path = project(home, "touch ready")
    task = home.add("Write the port", cwd=path)
    home.drain()
    shown = home.shown(task)
    assert shown["row"]["state"] == "done", shown["row"]["cause"]
    (attempt,) = shown["history"]
    assert (attempt["place"], attempt["branch"]) == ("worktree", f"fleet/{task}")
    assert Path(attempt["cwd"]).is_relative_to(home.home / "places")
    assert sorted(one.name for one in path.iterdir()) == [".env", ".git", "README", "fleet.yaml"]
    changed = [one["path"] for one in home.receipt(task)["result"]["changes"]]
    assert changed == ["port.txt"], "what was put there before the agent began is not its work"


def test_a_set_up_command_that_fails_ends_the_attempt_before_its_agent_begins(home: Scratch) -> None:
    task = home.add("Never begun", cwd=project(home, "echo no such thing; exit 3"))
    home.drain()
    row = home.task(task)
    assert (row["state"], row["started"]) == ("failed", None)
    assert "exit code 3" in row["cause"]
    assert "no such thing" in row["cause"]
    with database.reading(database.path(home.home), ports.SCHEMA) as db:
        assert [tuple(one) for one in db.execute("SELECT * FROM ports")] == [], "it had ports, and they are free again"


@pytest.mark.long
def test_set_up_that_takes_long_holds_up_nobody_else(home: Scratch) -> None:
    """Eight wait in their set-up, more than there are hands for short steps; one without any comes through."""
    home.settle("max_concurrent=9")
    path = project(home, "while [ ! -e $HOME/go ]; do sleep 0.05; done; touch ready")
    slow = [home.add(f"Slow {n}", cwd=path) for n in range(8)]
    supervisor = home.run()
    until(lambda: len(supervisor.all("claimed")) == 8)
    quick = home.add("Quick", "--place", "inplace", cwd=home.place("other", git=True))
    supervisor.hear("settled", task=quick)
    (home.user / "go").touch()
    for task in slow:
        supervisor.hear("settled", task=task, verdict="accepted")
    assert supervisor.stop() == 0
