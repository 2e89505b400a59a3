"""Where a project's demands are read: in a commit, and not in what an agent can write."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from fleet.config.demands import project_demands, trusted_yaml
from fleet.config.fleet_yaml import InvalidFleet
from fleet.config.limits import Origin
from fleet.config.local import Projects, noted
from fleet.config.runtime import parse
from fleet.core import FleetError
from fleet.core.proof import ProjectDemands
from fleet.core.task import Spec
from fleet.core.work import Attempt, PlaceKind
from fleet.supervisor.demands import allowed, trusted

IDENTITY = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}


def git(at: Path, *args: str) -> str:
    env = {"PATH": "/usr/bin:/bin:/usr/local/bin", "HOME": str(at), **IDENTITY}
    return subprocess.run(["git", *args], cwd=at, check=True, capture_output=True, text=True, env=env).stdout.strip()


def commit(at: Path) -> str:
    git(at, "add", "-A")
    git(at, "commit", "-qm", "x", "--allow-empty")
    return git(at, "rev-parse", "HEAD")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    git(made, "init", "-q")
    return made


def runs(found: ProjectDemands) -> list[tuple[str, str]]:
    return [(check.run, check.source) for check in found.checks]


def test_the_base_commit_counts_and_not_what_stands_there_now(project: Path) -> None:
    (project / "fleet.yaml").write_text("checks: [make test]\n")
    base = commit(project)
    (project / "fleet.yaml").write_text("checks: ['true']\n")
    later = commit(project)
    (project / "fleet.yaml").unlink()
    assert runs(project_demands(project, base)) == [("make test", f"fleet.yaml at {base[:7]}")]
    assert runs(project_demands(project, later)) == [("true", f"fleet.yaml at {later[:7]}")]


def test_the_nearest_file_above_counts(project: Path) -> None:
    (project / "web/app").mkdir(parents=True)
    (project / "fleet.yaml").write_text("checks: [top]\n")
    (project / "web/fleet.yaml").write_text("checks: [web]\n")
    base = commit(project)
    assert runs(project_demands(project / "web/app", base))[0][0] == "web"
    assert runs(project_demands(project, base))[0][0] == "top"


def test_a_file_that_git_does_not_have_is_read_where_it_stands(project: Path) -> None:
    base = commit(project)
    assert project_demands(project, base) == ProjectDemands()
    (project / "fleet.yaml").write_text("checks: [make]\n")
    assert runs(project_demands(project, base)) == [("make", "fleet.yaml")]
    assert runs(project_demands(project, None)) == [("make", "fleet.yaml")]


def test_in_a_linked_worktree_it_is_the_main_one_of_which_the_file_counts(project: Path, tmp_path: Path) -> None:
    (project / ".gitignore").write_text("fleet.yaml\n")
    base = commit(project)
    (project / "fleet.yaml").write_text("checks: [mine]\n")
    place = tmp_path / "place"
    git(project, "worktree", "add", "-q", str(place))
    (place / "fleet.yaml").write_text("checks: ['true']\n")
    assert runs(project_demands(place, base)) == [("mine", "fleet.yaml")]


def test_a_replaced_object_is_not_believed(project: Path) -> None:
    (project / "fleet.yaml").write_text("checks: [make test]\n")
    base = commit(project)
    blob = git(project, "rev-parse", "HEAD:fleet.yaml")
    (project / "other").write_text("checks: ['true']\n")
    other = git(project, "hash-object", "-w", "other")
    git(project, "replace", blob, other)
    assert runs(project_demands(project, base))[0][0] == "make test"


@pytest.mark.parametrize("what", ["web/fleet.yaml", "web"])
def test_a_file_or_a_tree_that_was_forged_is_said(what: str, project: Path) -> None:
    (project / "web").mkdir()
    (project / "web/fleet.yaml").write_text("checks: [make test]\n")
    base = commit(project)
    name = git(project, "rev-parse", f"{base}:{what}")
    (project / "web/fleet.yaml").write_text("checks: ['true']\n")
    commit(project)
    other = git(project, "rev-parse", f"HEAD:{what}")
    objects = project / ".git/objects"
    at, evil = (objects / one[:2] / one[2:] for one in (name, other))
    at.unlink()
    at.write_bytes(evil.read_bytes())
    with pytest.raises(FleetError, match="somebody forged an object of the repository"):
        project_demands(project / "web", base)


def test_a_broken_file_is_said_with_its_commit(project: Path) -> None:
    (project / "fleet.yaml").write_text("checks: yes\n")
    base = commit(project)
    with pytest.raises(InvalidFleet, match=f"fleet.yaml at {base[:7]}:1:"):
        project_demands(project, base)


MODELS = """\
project: {name: own}
nodes: {only: {endpoint: "http://127.0.0.1:9"}}
models: {m: {node: only, ollama_model: "demo:7b", litellm_alias: NAME}}
agents: {builder: {model: m, description: does things}}
"""


def test_a_model_that_an_agent_calls_its_own_is_paid_for_all_the_same(project: Path) -> None:
    (project / "fleet.yaml").write_text(MODELS.replace("NAME", "own-coder"))
    base = commit(project)
    found = noted(project, base)
    assert found == ("demo:7b", "own-coder")
    (project / "fleet.yaml").write_text(MODELS.replace("NAME", "paid-for"))
    commit(project)
    attempt = Attempt("t1.1", "t1", 1, "c", None, str(project), "me", 0.0, base=base, local=noted(project, base))
    means = [Projects().is_local(attempt, name) for name in ("own-coder", "ollama/own-coder", "paid-for")]
    assert means == [True, True, False]
    assert Projects().is_local(replace(attempt, local=None), "paid-for"), "where nobody noted it, the file says it"


@pytest.mark.parametrize("text", [None, "checks: [make test]\n", "project: [\n"])
def test_without_a_file_that_names_models_none_is_ones_own(project: Path, text: str | None) -> None:
    if text is not None:
        (project / "fleet.yaml").write_text(text)
    assert noted(project, commit(project)) == ()


def test_an_agent_cannot_raise_its_own_limits(project: Path) -> None:
    """Neither in its commit nor in the file: what the first found counts until a person opens the task again."""
    (project / "fleet.yaml").write_text("limits: {attempts: 2, timeout: 20s, cost: none}\n")
    base, spec = commit(project), Spec(str(project))
    machine = parse("", project / "runtime.toml")

    def limits(*earlier: Attempt, head: str = base) -> tuple[int, float]:
        found = allowed(machine, earlier, spec, trusted(earlier, PlaceKind.INPLACE, head), trusted_yaml)
        assert (found.limits.cost, found.origins["cost"]) == (None, Origin.PROJECT)
        return found.limits.attempts, found.limits.timeout

    (project / "fleet.yaml").write_text("limits: {attempts: 9, timeout: 10h, cost: none}\n")
    assert limits() == (2, 20.0), "as it is committed"
    found = allowed(machine, (), spec, base, trusted_yaml)
    origins = {name: one.value for name, one in found.origins.items()}
    attempt = Attempt("t1.1", "t1", 1, "c", None, str(project), "me", 0.0)
    first = replace(attempt, base=base, spec=spec, limits=found.limits, origins=origins, started=1.0)
    later = commit(project)
    assert limits(first, head=later) == (2, 20.0)
    git(project, "rm", "-q", "--cached", "fleet.yaml")
    untracked = commit(project)
    assert limits(replace(first, base=untracked), head=untracked) == (2, 20.0), "a file that git does not have"
    assert limits(replace(first, forgiven=True), head=later) == (9, 36000.0)
