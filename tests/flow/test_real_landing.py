"""A plan of six tasks with a diamond of dependencies: the real Claude Code works, and one command brings it to main."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from standins.agent_desk import MODELS, Desk, desk
from standins.coders.scratch import Ran
from standins.work_models import SECONDS, works

pytestmark = [pytest.mark.agents, pytest.mark.timeout(300)]

PLAN = {"top": (), "left": ("top",), "right": ("top",), "last": ("left", "right"), "alone": (), "also": ()}
FLEET_YAML = 'project: {name: plan}\nworkspace: {place: worktree}\nchecks: [{run: "sh check.sh"}]\n'
# What an agent makes says who made it; a file that says anything else breaks the branch.
CHECK = "for one in made-*.txt; do test ! -e $one || grep -q 'made by claude' $one || exit 1; done\n"


@dataclass(frozen=True)
class House:
    desk: Desk
    project: Path

    @property
    def env(self) -> dict[str, str]:
        own = self.desk.environment()
        path = os.pathsep.join([str(Path(sys.executable).parent), own["PATH"]])
        return {"PATH": path, "HOME": own["HOME"], "FLEET_HOME": str(self.desk.home / ".fleet"), "LANG": "C.UTF-8"}

    def fleet(self, *args: str) -> Ran:
        done = subprocess.run(
            [sys.executable, "-m", "fleet", *args], cwd=self.project, env=self.env, stdin=subprocess.DEVNULL,
            capture_output=True, timeout=2 * SECONDS, check=False,
        )  # fmt: skip
        ran = Ran(done.returncode, done.stdout.decode(), done.stderr.decode())
        assert ran.code == 0, f"{args}: {ran.err}{ran.out}"
        return ran

    def git(self, *words: str) -> str:
        who = ("-c", "user.name=owner", "-c", "user.email=owner@fleet.invalid")
        argv, env = ["git", *who, *words], {"PATH": os.defpath, "HOME": str(self.project)}
        done = subprocess.run(argv, cwd=self.project, env=env, check=True, capture_output=True, text=True)
        return done.stdout.strip()


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with desk(tmp_path_factory.mktemp("plan"), works) as where:
        made = House(where, where.project / "plan")
        made.project.mkdir()
        made.git("init", "--quiet", "--initial-branch=main")
        (made.project / "fleet.yaml").write_text(FLEET_YAML)
        (made.project / "check.sh").write_text(CHECK)
        made.git("add", "-A")
        made.git("commit", "--quiet", "-m", "begin")
        made.fleet("init", "--home-only")
        own = {name: value for name, value in where.environment().items() if name not in made.env}
        settings = [f"coders.claude.env.{name}={value}" for name, value in own.items()]
        made.fleet("config", "set", *settings, "max_concurrent=3", "backoff=0s")
        yield made


def test_a_plan_with_a_diamond_is_done_and_on_main_and_main_is_green_at_every_step(house: House) -> None:
    ids: dict[str, str] = {}
    for name, after in PLAN.items():
        waits = [word for one in after for word in ("--after", ids[one])]
        added = house.fleet("add", name, "--coder", "claude", "--model", MODELS["claude"], "--json", *waits)
        ids[name] = str(added.json()["id"])
    begin = house.git("rev-parse", "main")
    house.fleet("run", "--drain")
    rows: dict[str, dict[str, Any]] = {row["id"]: row for row in house.fleet("tasks", "--all", "--json").json()}
    assert {(row["state"], row["proof"]) for row in rows.values()} == {("done", "verified")}
    assert house.git("rev-parse", "main") == begin, "nothing lands by itself"

    house.fleet("merge", "--proven")
    made = {f"made-{one}.1.txt" for one in ids.values()}
    assert made <= set(house.git("ls-tree", "--name-only", "main").split())
    assert house.git("status", "--porcelain") == ""
    steps = house.git("rev-list", "--reverse", "--first-parent", f"{begin}..main").split()
    assert len(steps) == len(PLAN)
    for commit in steps:
        house.git("checkout", "--quiet", "--detach", commit)
        assert subprocess.run(["sh", "check.sh"], cwd=house.project, check=False).returncode == 0
    order = [house.git("log", "-1", "--format=%(trailers:key=Fleet-Task,valueonly)", one) for one in steps]
    assert order.index(ids["top"]) < order.index(ids["left"]) < order.index(ids["last"])
    assert order.index(ids["right"]) < order.index(ids["last"])
