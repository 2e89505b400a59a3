"""A few ways to pretend, and an honest one, through the real program: what people see of each, and what lands."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from standins.coders.scratch import Record, Scratch, scratch

GIT = "git -c user.name=a -c user.email=a@example.invalid"
FIX = "sed -i 's/ - / + /' calc.sh"
COMMIT = f"{GIT} add -A; {GIT} commit -qm done"
AGENTS = {
    "honest": f"{FIX}; {COMMIT}",
    "claims": "echo 'All tests pass.'",
    "weakens": f"echo 'exit 0' > tests/run.sh; {COMMIT}",
    "elsewhere": f"{GIT} checkout -q -b mine; {FIX}; {COMMIT}; {GIT} checkout -q -",
    "oversteps": f"{FIX}; mkdir -p .github; echo x > .github/ci.yml; {COMMIT}",
    "rewrites": f"echo 'checks: [\"true\"]' > fleet.yaml; {COMMIT}",
}
REFUSED = {
    "claims": "changed nothing",
    "weakens": "tests/run.sh is part of the checks, which is protected",
    "elsewhere": "changed nothing",
    "oversteps": ".github/ci.yml is CI, which is protected",
    "rewrites": "fleet.yaml is a file of fleet, which is protected",
}


@pytest.fixture(scope="module")
def night(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Scratch, Path, dict[str, str], dict[str, Record]]]:
    with scratch(tmp_path_factory.mktemp("pretending")) as home:
        coders = {name: {"argv": ["/bin/sh", "-c", script]} for name, script in AGENTS.items()}
        home.settle("coder=honest", "model=", "max_concurrent=6", "limits.attempts=1", coders=coders)
        project = home.place("project", git=True)
        (project / "tests").mkdir()
        (project / "calc.sh").write_text("add() { echo $(($1 - $2)); }\n")
        (project / "tests/run.sh").write_text('. ./calc.sh\n[ "$(add 2 3)" = 5 ]\n')
        (project / "fleet.yaml").write_text("checks: [sh tests/run.sh]\n")
        subprocess.run(f"{GIT} add -A; {GIT} commit -qm project", shell=True, cwd=project, check=True)
        ids = home.add_all({name: ("--cwd", project, "--coder", name) for name in AGENTS})
        home.drain()
        yield home, project, ids, home.tasks()


Night = tuple[Scratch, Path, dict[str, str], dict[str, Record]]


def test_pretended_work_is_refused_with_its_reason_and_honest_work_is_not(night: Night) -> None:
    _, _, ids, rows = night
    assert {name: rows[ids[name]]["state"] for name in AGENTS} == {"honest": "done"} | dict.fromkeys(REFUSED, "refused")
    assert {name: why for name, why in REFUSED.items() if why not in rows[ids[name]]["cause"]} == {}


def test_the_check_is_the_one_of_the_commit_that_the_task_began_from(night: Night) -> None:
    home, project, ids, _ = night
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=project, capture_output=True, text=True, check=True
    ).stdout
    asked = home.shown(ids["rewrites"])["demands"]["checks"]
    assert [(one["run"], one["source"]) for one in asked] == [("sh tests/run.sh", f"fleet.yaml at {commit[:7]}")]
