"""What is asked of a result: read from fleet.yaml and task.json, and put together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fleet.app.kinds import KINDS, check_setup
from fleet.app.kinds import checks as suggested
from fleet.app.start import render, suggested_checks
from fleet.config.demands import resolve
from fleet.config.fleet_yaml import InvalidFleet, check, read_demands
from fleet.core import BadConfig
from fleet.core.proof import CheckSpec, OnBreach, ProjectDemands, Scope, TaskKind, Unverified
from fleet.core.task import Spec
from fleet.core.work import Attempt, PlaceKind
from fleet.supervisor.demands import trusted
from fleet.tracker import spec as specs

WHERE = Path("fleet.yaml")
SITE = ".venv/lib/python3.12/site-packages"
YAML = """
checks:
  - make test
  - run: ruff check .
    name: lint
    timeout: 5m
    needs: [.venv]
    before: false
scope:
  allow: [src/**, "*.md"]
  deny: [src/keys/]
  max_files: 40
  deletions: 3
  protected: [uv.lock]
  on_breach: end
evidence:
  unverified: ask
"""


def test_a_fleet_yaml_says_what_is_asked_of_a_result() -> None:
    assert check(YAML, WHERE).for_tasks
    assert read_demands(YAML, WHERE, "fleet.yaml at 1a2b3c4") == ProjectDemands(
        checks=(
            CheckSpec("make test", source="fleet.yaml at 1a2b3c4"),
            CheckSpec("ruff check .", "lint", 300.0, "fleet.yaml at 1a2b3c4", (".venv",), before=False),
        ),
        scope=Scope(("src/**", "*.md"), ("src/keys/",), 40, 3, ("uv.lock",), OnBreach.END),
        unverified=Unverified.ASK,
    )
    assert read_demands("limits: {timeout: 5m}", WHERE, "x") == ProjectDemands()
    assert read_demands("", WHERE, "x") == ProjectDemands()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("checks: make test", "checks must be a list"),
        ("checks: [3]", "checks[0] must be text"),
        ("checks: ['']", "checks[0] is empty"),
        ("checks: [{name: x}]", "checks[0].run is missing"),
        ("checks: [{run: x, need: [y]}]", "checks[0].need is not a known key (did you mean needs?)"),
        ("checks: [{run: x, needs: [/etc]}]", "checks[0].needs[0] must be a path inside the project"),
        ("scope: {alow: [x]}", "scope.alow is not a known key (did you mean allow?)"),
        ("scope: {allow: src}", "scope.allow must be a list"),
        ("scope: {allow: ['../x']}", "scope.allow[0] must not have a step . or .."),
        ("scope: {deny: ['!x']}", "scope.deny[0] must not begin with !"),
        ("scope: {max_files: -1}", "scope.max_files must be a whole number, at least 0"),
        ("scope: {on_breach: kill}", "scope.on_breach must be one of flag, end"),
        ("evidence: {unverified: open}", "evidence.unverified must be one of close, ask"),
    ],
)
def test_what_does_not_fit_is_said_with_its_place(text: str, said: str) -> None:
    for read in (lambda: check(text, WHERE), lambda: read_demands(text, WHERE, "x")):
        with pytest.raises(InvalidFleet) as refused:
            read()
        assert said in refused.value.message


def test_a_task_adds_a_check_and_cannot_take_one_away() -> None:
    project = ProjectDemands((CheckSpec("make test", source="fleet.yaml"),), Scope(deny=("keys/",)), Unverified.ASK)
    spec = Spec("/p", check="test -e x", kind=TaskKind.RESEARCH, allow=("*",), deletions=9)
    asked = resolve(spec, project, Unverified.CLOSE)
    assert [(one.run, one.source) for one in asked.checks] == [("make test", "fleet.yaml"), ("test -e x", "task")]
    assert asked.scope == Scope(allow=("*",), deny=("keys/",), deletions=9)
    assert (asked.kind, asked.unverified) == (TaskKind.RESEARCH, Unverified.ASK)
    plain = resolve(Spec("/p"), ProjectDemands(), Unverified.ASK)
    assert (plain.kind, plain.checks, plain.unverified) == (TaskKind.WORK, (), Unverified.ASK)


def test_what_a_task_needs_is_lent_to_all_of_its_checks() -> None:
    project = ProjectDemands((CheckSpec("make", needs=("lib",)), CheckSpec("lint", needs=(".venv",))))
    asked = resolve(Spec("/p", check="test -e x", needs=(".venv",)), project, Unverified.CLOSE)
    assert [one.needs for one in asked.checks] == [("lib", ".venv"), (".venv",), (".venv",)]


def test_a_spec_keeps_its_scope_through_its_file(tmp_path: Path) -> None:
    scope = Scope(("src/**",), ("src/keys/",), 4, 0, ("uv.lock",))
    spec = Spec(
        "/p",
        kind=TaskKind.RESEARCH,
        allow=scope.allow,
        deny=scope.deny,
        files=4,
        deletions=0,
        protected=scope.protected,
        needs=(".venv", "app/node_modules"),
    )
    specs.write(tmp_path, "t-1", spec)
    assert specs.read(tmp_path, "t-1") == spec
    assert specs.read(tmp_path, "t-1").scope == scope


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ({"kind": "play"}, "kind must be one of work, research"),
        ({"allow": "src"}, "allow must be a list of patterns"),
        ({"deny": ["../x"]}, "deny: '../x' must not have a step . or .."),
        ({"needs": ".venv"}, "needs must be a list of paths"),
        ({"needs": ["../venv"]}, "needs: '../venv' must be a plain path inside the project"),
        ({"needs": ["/venv"]}, "needs: '/venv' must be a plain path inside the project"),
        ({"needs": [".git/hooks"]}, "needs: '.git/hooks' must not be in .git"),
        ({"files": True}, "files must be a whole number"),
        ({"deletions": -1}, "deletions must be a whole number"),
    ],
)
def test_a_task_json_that_makes_no_sense_is_refused(part: dict[str, Any], said: str) -> None:
    with pytest.raises(BadConfig) as refused:
        specs.parse({"cwd": "/p"} | part, "task.json")
    assert said in refused.value.message


def test_a_new_fleet_yaml_suggests_checks_that_are_right_once_the_marks_are_taken_away(tmp_path: Path) -> None:
    (tmp_path / "package.json").write_text('{"scripts": {"test": "jest"}}')
    for kind in KINDS:
        checks = suggested(kind, tmp_path)
        text = render("p", None, None, suggested_checks(checks, ""))
        assert read_demands(text, WHERE, "x").checks == (), "nothing is decided by a check that nobody has chosen"
        head, mark, rest = text.rpartition("#checks:")
        taken = head + (mark + rest).replace("\n#", "\n").removeprefix("#")
        assert [one.run for one in read_demands(taken, WHERE, "x").checks] == [one["run"] for one in checks] != []
    (tmp_path / "package.json").write_text("{}")
    assert suggested("node", tmp_path) == []


PYTEST = "bin/python -m pytest -q"


@pytest.mark.parametrize(
    ("there", "run", "needs", "is_made_first"),
    [
        ((f"{SITE}/six.py",), f".venv/{PYTEST}", [".venv"], False),
        ((), f".venv-check/{PYTEST}", [".venv-check"], True),
        ((f"{SITE}/e.pth",), f".venv-check/{PYTEST}", [".venv-check"], True),
        ((f"{SITE}/e.pth", "src/shop.py"), f"PYTHONPATH=src .venv-check/{PYTEST}", [".venv-check"], True),
    ],
    ids=["an environment", "none", "one that leads into the project", "the same, of a src layout"],
)
def test_an_environment_is_proposed_where_it_tests_the_checkout(
    tmp_path: Path, there: tuple[str, ...], run: str, needs: list[str], is_made_first: bool
) -> None:
    for name in there:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{tmp_path}/src\n")
    checks, setup = suggested("python", tmp_path), check_setup("python", tmp_path)
    assert checks == [{"run": run, "needs": needs}]
    assert setup.startswith("python3 -m venv .venv-check") is is_made_first
    text = suggested_checks(checks, setup)
    assert (f"\n#   {setup}\n#checks:\n" in text) is is_made_first


def attempt(number: int, base: str | None, *, forgiven: bool = False) -> Attempt:
    return Attempt(f"t-1.{number}", "t-1", number, "c", None, "/p", "me", 0.0, base=base, forgiven=forgiven)


def test_an_earlier_agents_commit_is_not_where_the_checks_come_from() -> None:
    worktree, inplace = PlaceKind.WORKTREE, PlaceKind.INPLACE
    assert trusted([], worktree, "now") == "now"
    assert trusted([attempt(1, None), attempt(2, "first"), attempt(3, "later")], worktree, "now") == "first"
    assert trusted([attempt(1, "first")], inplace, "now") == "first"
    assert trusted([attempt(1, "first", forgiven=True)], worktree, "now") is None
    assert trusted([attempt(1, "first", forgiven=True)], inplace, "now") == "now"
