"""The documentation is true: every command, option, link, example, setting and error message in it is checked here."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import pytest

import reference
from fleet import DISTRIBUTION, __version__
from fleet.cli import WHERE, program
from fleet.config import InvalidFleet, load, read
from fleet.config.fleet_yaml import load_workspace
from fleet.core import template
from fleet.core.fleet import Kind
from fleet.core.workspace import Workspace
from fleet.gateway.run import child_environment
from fleet.generate import Change, litellm, target
from fleet.host.http import Cause

ROOT = Path(__file__).resolve().parent.parent.parent
GUIDES = ROOT / "docs/guides"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")])
FLEETS = sorted((ROOT / "examples").rglob("fleet.yaml"))
PROGRAMS = ("fleet", "flt", "subagent-fleet")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page, and the line it begins on."""

    page: Path
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path) -> Iterator[Block]:
    opened: tuple[int, str] | None = None
    lines: list[str] = []
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if not line.startswith("```"):
            lines.append(line)
        elif opened is None:
            opened, lines = (number, line.removeprefix("```").strip()), []
        else:
            yield Block(page, *opened, "\n".join(lines) + "\n")
            opened = None
    assert opened is None, f"{page}: a block is not closed"


BLOCKS = [block for page in PAGES for block in blocks(page)]
USAGE_PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(GUIDES.glob("*.md"))]


def calls(line: str) -> Iterator[list[str]]:
    """The simple commands of a shell line, as words, without comments."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|")
    lexer.whitespace_split, lexer.commenters = True, "#"
    words: list[str] = []
    for word in [*lexer, ";"]:
        if set(word) <= set(";&|"):
            yield words
            words = []
        elif words or not re.match(r"[A-Z_]+=", word):
            words.append(word)


def command_lines() -> Iterator[tuple[str, list[str]]]:
    """Every call of fleet in a shell block."""
    for block in BLOCKS:
        if block.page not in USAGE_PAGES or block.language != "sh":
            continue
        for number, line in enumerate(block.text.replace("\\\n", " ").splitlines(), 1):
            for words in calls(line):
                if words and words[0] in PROGRAMS:
                    yield f"{block} call {number}", words[1:]


def parse(words: list[str]) -> None:
    """Let click parse a call as it would, and run nothing."""
    command: click.Command = program
    ctx = click.Context(program, info_name="fleet")
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        found = command.get_command(ctx, words[0])
        assert found is not None, f"there is no command {words[0]!r}"
        command, words = found, words[1:]
        ctx = click.Context(command, info_name=command.name, parent=ctx)
    if isinstance(command, click.Group) and not command.invoke_without_command:
        assert words == ["--help"], f"{ctx.command_path} needs a command"
        return
    if words != ["--help"]:
        command.make_context(command.name, list(words))


INSTALLS = re.compile(r"(?:\buv tool|\buv pip|\bpipx|\bpip3?)\s+install\s+([^`\n#|;&]+)")
TAKEN = re.compile(r"(?:fleet|fleet[-_]agents|subagent-fleet|ai-fleet|flt)(?:\[.*\])?(?:[=<>~!@].*)?")


def named_for_an_index(text: str) -> list[str]:
    """What an installer would look for on a package index under a name that we have not published."""
    return [word for found in INSTALLS.finditer(text) for word in found[1].split() if TAKEN.fullmatch(word)]


def test_nobody_is_told_to_install_fleet_from_an_index() -> None:
    sources = [path for ending in ("md", "py") for path in (ROOT / "src").rglob(f"*.{ending}")]
    found = {str(path): named_for_an_index(path.read_text()) for path in [*PAGES, *sources]}
    assert {path: names for path, names in found.items() if names} == {}


def test_the_readme_installs_the_wheel_that_is_built_now() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["name"] == DISTRIBUTION
    wheels = set(re.findall(r"\./(\S+\.whl)", (ROOT / "README.md").read_text()))
    assert wheels == {f"{DISTRIBUTION.replace('-', '_')}-{__version__}-py3-none-any.whl"}


def test_names_for_an_index_are_really_found_and_addresses_are_none() -> None:
    wrong = "run pipx install fleet\n`pip install -U fleet-agents==1.0`; uv tool install 'x' flt"
    assert named_for_an_index(wrong) == ["fleet", "fleet-agents==1.0", "flt"]
    right = "uv tool install ./fleet\npip install git+https://git.example.com/fleet.git\npipx install x.whl  # fleet"
    assert named_for_an_index(right) == []


def prose(page: Path) -> str:
    """A page without its fenced blocks."""
    return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def slug(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def test_the_reference_and_the_generated_examples_are_fresh() -> None:
    assert reference.stale() == [], "run: make docs"


@pytest.mark.parametrize("name", WHERE)
def test_every_command_is_in_the_reference_and_in_the_readme(name: str) -> None:
    assert f"\n### fleet {name}\n" in (ROOT / "docs/reference/cli.md").read_text()
    assert f"`fleet {name}" in (ROOT / "README.md").read_text()


def test_the_readme_names_the_two_commands() -> None:
    text = (ROOT / "README.md").read_text()
    assert "make demo" in text
    assert "make test" in text


@pytest.mark.parametrize("words", [pytest.param(words, id=place) for place, words in command_lines()])
def test_every_call_of_fleet_in_the_pages_parses(words: list[str]) -> None:
    parse(words)


def test_calls_are_really_found_and_wrong_ones_refused() -> None:
    assert len(list(command_lines())) > 20
    with pytest.raises(AssertionError, match="no command"):
        parse(["genrate"])
    with pytest.raises(click.NoSuchOption):
        parse(["generate", "--chek"])
    with pytest.raises(AssertionError, match="no command"):
        parse(["gateway", "restart"])


@pytest.mark.parametrize("path", FLEETS, ids=lambda path: path.parent.name)
def test_every_example_is_valid_and_without_a_warning(path: Path) -> None:
    assert load(path).warnings == ()


def test_the_generated_examples_are_what_generate_renders() -> None:
    fleet = load(ROOT / "examples/three-node-cluster/fleet.yaml").fleet
    (config,) = litellm.render(fleet)
    assert (ROOT / "examples/litellm" / config.path).read_bytes() == config.content
    agents = {Path(file.path).name: file.content for file in target("claude").render(fleet)}
    there = {path.name: path.read_bytes() for path in (ROOT / "examples/claude-agents").iterdir()}
    assert there == agents


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.text.startswith("# fleet.yaml\n")], ids=str)
def test_every_fleet_yaml_in_the_pages_is_valid(block: Block) -> None:
    assert read(block.text, Path("fleet.yaml")).warnings == ()


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.text.startswith("workspace:\n")], ids=str)
def test_every_workspace_in_the_pages_is_valid(block: Block, tmp_path: Path) -> None:
    (tmp_path / "fleet.yaml").write_text(block.text)
    assert load_workspace(tmp_path / "fleet.yaml") != Workspace()


def test_the_workspace_guide_explains_every_key_and_template() -> None:
    explained = set(re.findall(r"`([a-z_{}+]+)`", (GUIDES / "workspace.md").read_text()))
    assert set(Workspace.__slots__) | {f"{{{name}}}" for name in template.NAMES} <= explained


def test_the_errors_in_the_guide_are_those_that_are_printed() -> None:
    guide = [block for block in BLOCKS if block.page == GUIDES / "fleet-yaml.md"]
    (at,) = [n for n, block in enumerate(guide) if block.text.startswith("# broken fleet.yaml\n")]
    with pytest.raises(InvalidFleet) as invalid:
        read(guide[at].text, Path("fleet.yaml"))
    assert guide[at + 1].text == f"{invalid.value.message}\n"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        place = (page.parent / path).resolve() if path else page
        assert place.exists(), f"{link} leads nowhere"
        assert place.is_relative_to(ROOT), f"{link} leads out of the project"
        if anchor:
            headings = {slug(heading) for heading in re.findall(r"^#+ (.*)$", prose(place), re.MULTILINE)}
            assert anchor in headings, f"{link}: no such heading"


def keys(value: object) -> set[str]:
    """Every key of ours in a LiteLLM file; names of models are not keys."""
    match value:
        case dict():
            return {str(key) for key in value} | {name for item in value.values() for name in keys(item)}
        case list():
            return {name for item in value for name in keys(item)}
        case _:
            return set()


def test_the_gateway_guide_explains_every_setting_and_variable() -> None:
    fleet = load(ROOT / "examples/three-node-cluster/fleet.yaml").fleet
    aliases = {model.alias for model in fleet.models.values()}
    sections = {"model_list", "litellm_params", "litellm_settings", "general_settings", "router_settings"}
    settings = keys(litellm.config(fleet)) - aliases - sections
    variables = {fleet.gateway.master_key_env, *target("claude").exports(fleet), *target("claude").KEY_VARIABLES}
    explained = set(re.findall(r"`([A-Za-z0-9_]+)`", (GUIDES / "gateway.md").read_text()))
    assert settings | variables <= explained


def test_nothing_phones_home_as_the_readme_says() -> None:
    fleet = load(ROOT / "examples/three-node-cluster/fleet.yaml").fleet
    given = child_environment(fleet, "key", {"PATH": "/bin", "AWS_SECRET_ACCESS_KEY": "x", "VLLM_API_KEY": "y"})
    assert given["LITELLM_LOCAL_MODEL_COST_MAP"] == "True"
    assert given["LITELLM_TELEMETRY"] == "False"
    assert "AWS_SECRET_ACCESS_KEY" not in given
    assert target("claude").exports(fleet)["CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"] == "1"


def test_the_guides_know_every_kind_cause_and_change() -> None:
    nodes, files = (GUIDES / "nodes.md").read_text(), (GUIDES / "generated-files.md").read_text()
    assert [kind for kind in Kind if f"\n### {kind}\n" not in nodes] == []
    assert [cause for cause in Cause if f"`{cause}`" not in nodes] == []
    assert [change for change in Change if f"| `{change}` |" not in files] == []
