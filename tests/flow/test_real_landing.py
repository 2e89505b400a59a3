"""A plan of six tasks with a diamond of dependencies: the real Claude Code works, and one command brings it to main."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from standins.real_claude import Claude, claude
from standins.work_models import works

pytestmark = [pytest.mark.agents, pytest.mark.timeout(300)]

PLAN = {"top": (), "left": ("top",), "right": ("top",), "last": ("left", "right"), "alone": (), "also": ()}
FILES = {
    "fleet.yaml": 'project: {name: plan}\nworkspace: {place: worktree}\nchecks: [{run: "sh check.sh"}]\n',
    # What an agent makes says who made it; a file that says anything else breaks the branch.
    "check.sh": "for one in made-*.txt; do test ! -e $one || grep -q 'made by claude' $one || exit 1; done\n",
}


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Claude]:
    with claude(tmp_path_factory.mktemp("plan"), works, FILES, "max_concurrent=3") as made:
        yield made


def test_a_plan_with_a_diamond_is_done_and_on_main_and_main_is_green_at_every_step(house: Claude) -> None:
    ids: dict[str, str] = {}
    for name, after in PLAN.items():
        ids[name] = house.add(name, *[word for one in after for word in ("--after", ids[one])])
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
