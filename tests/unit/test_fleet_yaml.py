"""fleet.yaml: every rule, every problem at once, each with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleet.config import InvalidFleet, json_schema, read
from fleet.core.fleet import Fleet, Kind, Provider
from fleet.core.work import ProjectLimits

GOOD = """\
project:
  name: local-dev
nodes:
  big: {endpoint: "http://192.168.1.50:11434/", tags: [heavy]}
  small: {endpoint: http://192.168.1.51:11434}
models:
  heavy-coder: {node: big, ollama_model: "qwen2.5-coder:32b", litellm_alias: claude-sonnet-local, context: 32768}
  small-coder: {node: small, ollama_model: "qwen2.5-coder:7b", litellm_alias: claude-haiku-local}
agents:
  planner: {model: small-coder, description: Use for planning.}
  implementer: {model: heavy-coder, description: Use for code., tools: [Read, Edit], prompt: Write code.}
"""


def fleet(text: str) -> Fleet:
    return read(text, Path("fleet.yaml")).fleet


def problems(text: str) -> list[str]:
    with pytest.raises(InvalidFleet) as caught:
        read(text, Path("fleet.yaml"))
    return [str(problem) for problem in caught.value.problems]


def changed(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new)


def test_defaults_of_a_model_and_of_the_gateway() -> None:
    got = fleet(GOOD)
    small = got.models["small-coder"]
    assert (small.context, small.timeout, small.max_parallel) == (32768, 300, 1)
    assert (got.gateway.provider, got.gateway.host, got.gateway.port) == (Provider.LITELLM, "127.0.0.1", 4000)
    assert got.gateway.master_key_env == "LITELLM_MASTER_KEY"
    assert got.nodes["big"].kind is Kind.OLLAMA
    assert got.nodes["big"].endpoint == "http://192.168.1.50:11434"
    assert got.nodes["small"].tags == ()
    assert got.agents["planner"].tools == ()


def test_an_agent_without_a_prompt_gets_one_of_its_own() -> None:
    prompt = fleet(GOOD).agents["planner"].prompt
    assert "planner" in prompt
    assert "None" not in prompt


@pytest.mark.parametrize("where", ["gateway: {port: 4321}\nnodes:", "x"])
def test_the_gateway_may_stand_at_the_top_or_under_project(where: str) -> None:
    text = changed("nodes:", where) if where != "x" else changed("name: local-dev", "name: a\n  gateway: {port: 4321}")
    assert fleet(text).gateway.port == 4321


def test_two_gateways_that_differ_are_refused() -> None:
    text = changed("name: local-dev", "name: a\n  gateway: {port: 1}") + "gateway: {port: 2}\n"
    assert "gateway and project.gateway differ; keep one of them" in problems(text)[0]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("node: big,", "node: bigg,", "7:23: models.heavy-coder.node references unknown node: bigg "
         "(did you mean big?)"),
        ("model: small-coder", "model: small-codr", "agents.planner.model references unknown model: small-codr "
         "(did you mean small-coder?)"),
        ("tags: [heavy]", "tag: [heavy]", "nodes.big.tag is not a known key (did you mean tags?)"),
        ("tags: [heavy]", "api_key: sk-1", "nodes.big.api_key is not a known key (did you mean api_key_env?)"),
        ("http://192.168.1.51:11434", "ftp://x", "nodes.small.endpoint must be an HTTP or HTTPS address"),
        ("http://192.168.1.51:11434", "http://u:secret@x", "nodes.small.endpoint must not carry a user name"),
        ("http://192.168.1.51:11434", "http://x:99999", "nodes.small.endpoint must be an HTTP or HTTPS address"),
        ("http://192.168.1.51:11434", "http://169.254.169.254", "is a cloud metadata address"),
        ("http://192.168.1.51:11434", "http://2852039166", "is a cloud metadata address"),
        ("http://192.168.1.51:11434", "'http://[::ffff:169.254.169.254]'", "is a cloud metadata address"),
        ("http://192.168.1.51:11434", "http://169.254.169.254.", "is a cloud metadata address"),
        ("context: 32768", "context: 32k", "models.heavy-coder.context must be a whole number"),
        ("context: 32768", "context: 0", "models.heavy-coder.context"),
        ("context: 32768", "keep_alive: [1]", "models.heavy-coder.keep_alive"),
        ("planner:", "Plan/../ner:", "is not a usable name"),
        ("planner:", '"-rf":', "is not a usable name"),
        ("description: Use for planning.", "tools: [Read]", "agents.planner.description is missing"),
        ("tools: [Read, Edit]", "tools: Read", "agents.implementer.tools must be a list"),
        ("name: local-dev", "nam: local-dev", "project.name is missing"),
        ("claude-haiku-local", "os.environ/HOME", "models.small-coder.litellm_alias must not begin with os.environ/"),
        ("claude-haiku-local", "'*'", "models.small-coder.litellm_alias must not contain *"),
        ("claude-haiku-local", '"a\\nb"', "models.small-coder.litellm_alias must be one line"),
        ("tags: [heavy]", "api_key_env: sk-12-ab", "must be the name of an environment variable"),
        ("tags: [heavy]", "api_key_env: LD_PRELOAD", "must not be LD_PRELOAD"),
        ("tags: [heavy]", "api_key_env: ANTHROPIC_AUTH_TOKEN", "which the generated environment file sets"),
        ("tags: [heavy]", "api_key_env: HTTPS_PROXY", "means something else"),
        ("tags: [heavy]", "api_key_env: LITELLM_MASTER_KEY", "the node would get the gateway's key"),
        ("claude-haiku-local", "inherit", "which Claude Code takes for something else"),
        ("context: 32768", "keep_alive: forever", "must be seconds as a number, -1 for ever, or a duration"),
        ("tags: [heavy]", "kind: olama", "must be one of ollama, vllm, lmstudio"),
        ("tags: [heavy]", "kind: vllm", "models.heavy-coder.ollama_model: node big is of the kind vllm; write model"),
        ("project:", "gateway: {provider: direct}\nproject:", "direct needs all agents on one node"),
        ("  small: {", "  big: {", "nodes.big is given twice"),
    ],
)  # fmt: skip
def test_a_problem_is_named_with_its_place(old: str, new: str, expected: str) -> None:
    found = problems(changed(old, new))
    assert any(expected in problem for problem in found), found


def test_direct_mode_needs_a_node_that_speaks_anthropics_api() -> None:
    text = """
project: {name: p}
gateway: {provider: direct}
nodes: {n: {kind: openrouter}}
models: {m: {node: n, model: vendor/x, litellm_alias: y}}
agents: {a: {model: m, description: d}}
"""
    assert "does not speak the Anthropic API; use litellm" in problems(text)[0]
    assert fleet(text.replace("kind: openrouter", "kind: vllm, endpoint: http://n:8000")).is_direct


def test_every_problem_is_reported_at_once() -> None:
    text = changed("node: big,", "node: bigg, contxt: 1,").replace("http://192.168.1.51:11434", "ftp://x")
    text = text.replace("model: small-coder", "model: nothing-like-it").replace(
        'ollama_model: "qwen2.5-coder:7b", ', ""
    )
    text = text.replace("nodes:\n", "nodes:\n  third: {tags: [x]}\n")
    assert len(problems(text)) == 6


def test_a_secret_written_by_mistake_is_not_repeated() -> None:
    assert not any("sk-very-secret" in line for line in problems(changed("tags: [heavy]", "api_key: sk-very-secret")))
    assert not any("hunter2" in line for line in problems(changed("http://192.168.1.51:11434", "http://u:hunter2@x")))


@pytest.mark.parametrize("text", ["", "[]", "a: [", "a: &x [*x]", "\x00", "a: !!python/object:os.system {}", "- - - -"])
def test_what_is_not_a_fleet_file_is_a_problem_not_a_crash(text: str) -> None:
    assert problems(text)


def test_a_small_file_that_expands_to_a_huge_one_is_refused() -> None:
    bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{c}: &{c} [{','.join([f'*{p}'] * 9)}]\n" for p, c in zip("abcdefgh", "bcdefghi", strict=True)
    )
    assert "too large" in problems(bomb)[0]


def test_yaml_merges_work() -> None:
    text = changed("agents:\n", "agents:\n  base: &base {model: small-coder, description: d, tools: [Read]}\n")
    text += "  helper:\n    <<: *base\n    description: mine\n"
    helper = fleet(text).agents["helper"]
    assert (helper.description, helper.tools) == ("mine", ("Read",))


def test_different_models_behind_one_alias_warn() -> None:
    loaded = read(GOOD.replace("claude-haiku-local", "claude-sonnet-local"), Path("f"))
    assert "claude-sonnet-local is shared by different models" in loaded.warnings[0]


def test_the_same_model_on_two_nodes_does_not_warn() -> None:
    text = GOOD.replace("claude-haiku-local", "claude-sonnet-local").replace("coder:7b", "coder:32b")
    assert read(text, Path("f")).warnings == ()


def test_a_gateway_open_to_others_warns() -> None:
    assert "reachable from other machines" in read(GOOD + "gateway: {host: 0.0.0.0}\n", Path("f")).warnings[0]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (":11434/", ":11434/v1", "nodes.big.endpoint ends in /v1, where Ollama has another API: write http://192.168.1.50:11434"),
        ("[Read, Edit]", "[Read, Edit, MultiEdit]", "Claude Code has no MultiEdit any more; Write makes new files"),
        ("[Read, Edit]", "[Read, Write, MultiEdit]", ""),
    ],
)  # fmt: skip
def test_what_no_longer_does_what_it_says_warns(old: str, new: str, expected: str) -> None:
    assert expected in "\n".join(read(changed(old, new), Path("f")).warnings)
    assert bool(read(changed(old, new), Path("f")).warnings) == bool(expected)


def test_numbers_may_be_quoted_and_tools_empty() -> None:
    """As they were written for the forerunner."""
    text = changed("context: 32768", "context: '32768', timeout: 600.0").replace("tools: [Read, Edit]", "tools: null")
    got = fleet(text + "gateway: {port: '4001'}\n")
    assert (got.gateway.port, got.models["heavy-coder"].context, got.models["heavy-coder"].timeout) == (
        4001,
        32768,
        600,
    )
    assert got.agents["implementer"].tools == ()


def test_openrouter_needs_no_address_and_knows_the_name_of_its_key() -> None:
    text = changed('endpoint: "http://192.168.1.50:11434/", tags: [heavy]', "kind: openrouter")
    node = fleet(text.replace('ollama_model: "qwen2.5-coder:32b"', "model: vendor/big")).nodes["big"]
    assert (node.endpoint, node.api_key_env) == ("https://openrouter.ai/api", "OPENROUTER_API_KEY")


def test_a_version_on_an_openai_address_is_taken_off() -> None:
    text = changed('endpoint: "http://192.168.1.50:11434/"', "kind: vllm, endpoint: http://box:8000/v1/")
    assert (
        fleet(text.replace('ollama_model: "qwen2.5-coder:32b"', "model: m")).nodes["big"].endpoint == "http://box:8000"
    )


def test_the_schema_knows_every_key_and_no_other() -> None:
    schema = json_schema()
    models = {"project", "gateway", "nodes", "models", "agents"}
    assert set(schema["properties"]) == models | {"limits", "workspace", "results", "checks", "scope", "evidence"}
    assert all(part["additionalProperties"] is False for part in schema["$defs"].values() if "properties" in part)


def test_limits_are_read_in_seconds_and_bytes() -> None:
    assert fleet(GOOD).limits is None
    assert fleet(GOOD + "limits: {}\n").limits == ProjectLimits()
    got = fleet(GOOD + "limits: {timeout: 1h30m, attempts: 2, output: 500MB}\n").limits
    assert got == ProjectLimits(timeout=5400.0, attempts=2, output=500_000_000)
    more = fleet(GOOD + "limits: {silence: 20m, tokens: 2M, cost: 5}\n").limits
    assert more == ProjectLimits(silence=1200.0, tokens=2_000_000, cost=5.0)
    off = fleet(GOOD + "limits: {silence: none, tokens: 0, cost: none}\n").limits
    assert off == ProjectLimits(silence=0.0, tokens=0, cost=0.0)
    assert fleet(GOOD + "limits: {timeout: 90, output: 2048}\n").limits == ProjectLimits(timeout=90.0, output=2048)


@pytest.mark.parametrize(
    ("limits", "problem"),
    [
        ("timeout: 0", "limits.timeout must be a number, at least 0.1"),
        ("timeout: soon", "limits.timeout must be seconds as a number, or a duration such as 90s, 30m or 1h30m"),
        ("attempts: 101", "limits.attempts must be a whole number, at most 100"),
        ("output: 1GBit", "limits.output must be bytes as a number, or a size such as 500MB, 1GB or 1GiB"),
        ("tiemout: 3", "limits.tiemout is not a known key (did you mean timeout?)"),
    ],
)
def test_limits_that_make_no_sense_are_refused(limits: str, problem: str) -> None:
    assert [one.partition(": ")[2] for one in problems(GOOD + f"limits: {{{limits}}}\n")] == [problem]
