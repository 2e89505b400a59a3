"""fleet.yaml `workspace:` and what is put into its templates."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.config import InvalidFleet, json_schema, read
from fleet.config.fleet_yaml import load_limits, load_workspace
from fleet.config.workspace import project_workspace
from fleet.core import template
from fleet.core.work import PlaceKind
from fleet.core.workspace import Workspace

FULL = """\
workspace:
  place: clone
  worktree_root: ~/trees
  branch_prefix: agents/
  tmux_prefix: my_
  agent: codex
  credential_files: [.env, config/master.key, .env]
  setup: [bundle install, "rails db:create"]
  setup_timeout: 5m
  quick: true
  flags: {claude: [--permission-mode, plan], codex: []}
  env: {PORT: "{port}", WORKERS: 2, DATABASE: "app_{slug}"}
  env_file: .env.local
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    place = tmp_path / "project"
    (place / ".git").mkdir(parents=True)
    (place / ".git/HEAD").write_text("ref: refs/heads/main\n")
    return place


def written(project: Path, text: str) -> Path:
    (project / "fleet.yaml").write_text(text)
    return project / "fleet.yaml"


def problems(project: Path, text: str) -> list[str]:
    with pytest.raises(InvalidFleet) as caught:
        load_workspace(written(project, text))
    return [str(problem) for problem in caught.value.problems]


def test_every_key_is_understood(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert load_workspace(written(project, FULL)) == Workspace(
        place=PlaceKind.CLONE,
        worktree_root=str(tmp_path / "trees"),
        branch_prefix="agents/",
        tmux_prefix="my_",
        agent="codex",
        credential_files=(".env", "config/master.key"),
        setup=("bundle install", "rails db:create"),
        setup_timeout=300.0,
        quick=True,
        flags={"claude": ("--permission-mode", "plan"), "codex": ()},
        env={"PORT": "{port}", "WORKERS": "2", "DATABASE": "app_{slug}"},
        env_file=".env.local",
    )


def test_a_file_may_hold_the_workspace_alone_the_limits_alone_or_both(project: Path) -> None:
    assert load_workspace(written(project, "limits: {attempts: 2}\n")) == Workspace()
    assert load_workspace(written(project, "workspace: {agent: codex}\n")) == Workspace(agent="codex")
    both = written(project, "limits: {attempts: 2}\nworkspace: {agent: codex}\n")
    limits = load_limits(both)
    assert limits is not None
    assert limits.attempts == 2
    assert load_workspace(both).agent == "codex"


def test_a_root_without_a_slash_stands_beside_the_projects_own_files(project: Path) -> None:
    (project / "below").mkdir()
    assert load_workspace(written(project, "workspace: {worktree_root: ../trees}\n")).worktree_root == str(
        project.parent / "trees"
    )
    below = project / "below" / "fleet.yaml"
    below.write_text("workspace: {worktree_root: trees}\n")
    assert load_workspace(below).worktree_root == str(project / "trees")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("credential_files: [../x]", "inside the project"),
        ("credential_files: [/etc/passwd]", "inside the project"),
        ("credential_files: [~/.netrc]", "inside the project"),
        ("credential_files: [a/../../x]", "inside the project"),
        ("credential_files: [.git/config]", "must not be in .git"),
        ("credential_files: [sub/.GIT/config]", "must not be in .git"),
        ("credential_files: [config/]", "plain path"),
        ("credential_files: [./x]", "plain path"),
        ("credential_files: .env", "must be a list"),
        ("env_file: ../.env", "inside the project"),
        ("worktree_root: $HOME/x", "must not contain $"),
        ("worktree_root: ~somebody/x", "must begin with ~/"),
        ("branch_prefix: 'a b'", "beginning of a git branch name"),
        ("branch_prefix: ../", "beginning of a git branch name"),
        ("branch_prefix: -x", "beginning of a git branch name"),
        ("tmux_prefix: 'a:b'", "tmux takes"),
        ("tmux_prefix: 'a.b'", "tmux takes"),
        ("agent: 'a b'", "the name of a coder"),
        ("setup: ['']", "is empty"),
        ("setup: npm ci", "must be a list"),
        ("setup_timeout: soon", "a duration"),
        ("quick: 1", "true or false"),
        ("place: docker", "inplace, worktree, clone"),
        ("flags: {claude: --x}", "must be a list"),
        ("flags: {'a b': []}", "the name of a coder"),
        ("env: {PATH: x}", "must not be PATH"),
        ("env: {FLEET_HOME: x}", "must not be FLEET_HOME"),
        ("env: {'A B': x}", "the name of an environment variable"),
        ("env: {A: '{nothing}'}", "uses {nothing}; there are {branch}"),
        ("env: {A: '{port+10}'}", "{port} to {port+9}"),
        ("env: {A: '{'}", "write {{ for a brace"),
        ("env: {A: 'x}'}", "write }} for a brace"),
        ("env: {A: true}", "must be"),
        ('env: {A: "x\\ny"}', "one line"),
        ("set_up: []", "is not a known key (did you mean setup?)"),
    ],
)
def test_what_makes_no_sense_is_said_with_its_place(project: Path, line: str, said: str) -> None:
    found = problems(project, f"workspace:\n  {line}\n")
    assert len(found) == 1
    assert found[0].startswith("2:")
    assert said in found[0]


def test_every_problem_of_the_workspace_is_said_at_once_and_beside_the_others(project: Path) -> None:
    text = "workspace: {credential_files: [../x, .git/y], env: {PATH: a, B: '{c}'}}\nproject: {}\n"
    with pytest.raises(InvalidFleet) as caught:
        read(text, project / "fleet.yaml")
    said = [problem.message for problem in caught.value.problems]
    assert sum(message.startswith("workspace.") for message in said) == 4
    assert "project.name is missing" in said


def test_a_key_given_twice_is_not_taken_silently(project: Path) -> None:
    assert problems(project, "workspace:\n  quick: true\n  quick: false\n") == ["3:3: workspace.quick is given twice"]


def test_the_schema_for_editors_knows_the_workspace() -> None:
    assert set(json_schema()["$defs"]["WorkspacePart"]["properties"]) == set(Workspace.__slots__)


def test_without_a_file_there_is_no_workspace_and_without_the_section_it_is_the_default(project: Path) -> None:
    inside = project / "src" / "deep"
    inside.mkdir(parents=True)
    assert project_workspace(inside) is None
    written(project, "limits: {attempts: 2}\n")
    assert project_workspace(inside) == Workspace()


def test_in_a_linked_worktree_the_main_working_trees_file_counts(project: Path, tmp_path: Path) -> None:
    own = project / ".git/worktrees/one"
    own.mkdir(parents=True)
    (own / "HEAD").write_text("ref: refs/heads/one\n")
    (own / "commondir").write_text("../..\n")
    linked = tmp_path / "linked"
    (linked / "only" / "here").mkdir(parents=True)
    (linked / ".git").write_text(f"gitdir: {own}\n")
    (linked / "fleet.yaml").write_text("workspace: {agent: planted}\n")
    assert project_workspace(linked) is None
    written(project, "workspace: {agent: codex}\n")
    assert project_workspace(linked / "only" / "here") == Workspace(agent="codex")


VALUES = template.values(branch="fix/auth", attempt="t1.2", task="t1", path="/p", port=20_010)


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("", ""),
        ("plain", "plain"),
        ("{branch} {task} {attempt} {path}", "fix/auth t1 t1.2 /p"),
        ("http://127.0.0.1:{port}/{port+9}", "http://127.0.0.1:20010/20019"),
        ("{{port}} {{{port}}}", "{port} {20010}"),
    ],
)
def test_a_template_is_filled_in(text: str, filled: str) -> None:
    assert template.fill(text, VALUES) == filled


def test_what_a_value_holds_is_never_a_template() -> None:
    odd = template.values(branch="{path}", attempt="t1.1", task="t1", path="/p")
    assert template.fill("{branch}", odd) == "{path}"


def test_only_templates_with_ports_want_ports() -> None:
    assert template.wants_port(["a", "{port+3}"])
    assert not template.wants_port(["port", "{{port}}", "{path}"])


@given(st.text(min_size=1, max_size=100))
def test_a_slug_is_a_name_for_a_database(branch: str) -> None:
    slug = template.slug(branch)
    assert len(slug) <= 48
    assert slug[0].isalpha()
    assert set(slug) <= set("abcdefghijklmnopqrstuvwxyz0123456789_")


@given(st.sets(st.from_regex(r"[a-cA-C/_.-]{1,6}", fullmatch=True), min_size=2, max_size=50))
def test_no_two_branches_have_one_slug(branches: set[str]) -> None:
    assert len({template.slug(branch) for branch in branches}) == len(branches)
