"""discover, warmup, status and init against the real Ollama with a real small model, beside nodes that misbehave."""

from __future__ import annotations

import json
import os
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

import parts
from conftest import Run
from flow.conftest import free_port
from standins import bad_nodes

pytestmark = [pytest.mark.ollama, pytest.mark.timeout(600)]
NAME = "smollm2:135m"
MODELFILE = """FROM {weights}
TEMPLATE \"\"\"{{{{ range .Messages }}}}<|im_start|>{{{{ .Role }}}}
{{{{ .Content }}}}<|im_end|>
{{{{ end }}}}<|im_start|>assistant
\"\"\"
PARAMETER stop <|im_end|>
PARAMETER num_thread 1
"""
CONTEXT = 8192
WITH_TOOLS = "tools:135m"  # the same weights; from a template with tools and no thinking, Ollama knows what it can do
# It reads only what the user says, and answers with one line: a busy machine takes seconds for each hundred tokens.
TOOLS_MODELFILE = """FROM {weights}
TEMPLATE \"\"\"{{{{ if .Tools }}}}<|im_start|>system
You have tools.<|im_end|>
{{{{ end }}}}{{{{ range .Messages }}}}{{{{ if eq .Role "user" }}}}<|im_start|>user
{{{{ .Content }}}}<|im_end|>
{{{{ end }}}}{{{{ end }}}}<|im_start|>assistant
\"\"\"
PARAMETER stop <|im_end|>
PARAMETER stop "\\n"
PARAMETER num_thread 1
"""


@pytest.fixture(scope="module")
def ollama(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real Ollama on a free port, in a scratch home, with SmolLM2 in it."""
    home = tmp_path_factory.mktemp("ollama")
    address = f"127.0.0.1:{free_port()}"
    program = parts.find("ollama").bin / "ollama"
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "OLLAMA_HOST": address, "OLLAMA_MODELS": str(home / "models"),
           "OLLAMA_CONTEXT_LENGTH": str(CONTEXT)}  # fmt: skip
    with open(home / "log", "wb") as log:
        server = subprocess.Popen([program, "serve"], env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        wait_until_it_answers(f"http://{address}/api/version", server)
        modelfile = home / "Modelfile"
        for name, template in (
            (NAME, MODELFILE),
            (WITH_TOOLS, TOOLS_MODELFILE),
        ):
            modelfile.write_text(template.format(weights=parts.find("smollm2").home / "model.gguf"))
            create: list[str | Path] = [program, "create", name, "-f", modelfile]
            subprocess.run(create, env=env, stdin=subprocess.DEVNULL, capture_output=True, check=True, timeout=120)
        yield f"http://{address}"
    finally:
        server.terminate()
        server.wait(timeout=30)


def wait_until_it_answers(url: str, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except (urllib.error.URLError, ConnectionError):
            with pytest.raises(subprocess.TimeoutExpired):  # it must not have ended
                server.wait(timeout=0.1)
    raise AssertionError("Ollama did not answer within a minute")


def fleet_yaml(ollama: str, silent: str, garbage: str) -> str:
    return f"""\
project: {{name: real}}
nodes:
  real: {{endpoint: "{ollama}"}}
  refused: {{endpoint: "http://127.0.0.1:9"}}
  black-hole: {{endpoint: "{silent}"}}
  garbage: {{endpoint: "{garbage}"}}
models:
  tiny: {{node: real, ollama_model: "{NAME}", litellm_alias: claude-haiku-local, context: 2048, keep_alive: 30m}}
  absent: {{node: real, ollama_model: "no-such-model:1b", litellm_alias: claude-sonnet-local}}
  lost: {{node: refused, ollama_model: "x", litellm_alias: claude-opus-local}}
agents:
  planner: {{model: tiny, description: plans}}
  implementer: {{model: absent, description: builds}}
"""


@pytest.fixture
def fleet(ollama: str, project: Path) -> Iterator[str]:
    with bad_nodes.node(bad_nodes.silent) as silent, bad_nodes.node(bad_nodes.not_http) as garbage:
        (project / "fleet.yaml").write_text(fleet_yaml(ollama, silent, garbage))
        yield ollama


def test_the_real_thing_beside_bad_neighbours(run: Run, fleet: str, project: Path) -> None:
    ran = run("discover", "--json", "--write", "--timeout", "3")
    assert ran.code == 0, ran.err
    found = {node["node"]: node for node in ran.json()["nodes"]}
    assert {name: node["cause"] for name, node in found.items()} == {
        "real": None, "refused": "refused", "black-hole": "timed out", "garbage": "connection broken",
    }  # fmt: skip
    model = next(model for model in found["real"]["models"] if model["name"] == NAME)
    assert model["quantisation"] == "Q4_1"
    assert 0.1 < model["parameters"] < 0.2
    written = json.loads((project / ".subagent-fleet" / "discovery.json").read_text())
    assert [node["node"] for node in written["nodes"]] == list(found)

    warmed = run("warmup", "--json")
    assert warmed.code == 1
    results = {result["model"]: result for result in warmed.json()}
    assert results["tiny"]["ok"], results["tiny"]
    assert "ollama pull no-such-model:1b" in results["absent"]["reason"]
    assert "refused" in results["lost"]["reason"]

    status = run("status", "--json", "--timeout", "3").json()
    real = next(node for node in status["nodes"] if node["node"] == "real")
    (loaded,) = real["loaded"]
    assert (loaded["name"], loaded["context"]) == (NAME, 2048), "warm with the context the gateway will ask for"
    assert loaded["bytes"] > 50_000_000
    assert loaded["expires"].startswith("20")

    doctor = run("doctor", "--json", "--timeout", "3")
    assert doctor.code == 1
    findings = " ".join(f"{check['finding']} {check['remedy']}" for check in doctor.json())
    assert "no-such-model:1b is not on real" in findings
    assert f"OLLAMA_HOST={fleet} ollama pull no-such-model:1b" in findings


def test_a_context_beyond_the_model_is_found(run: Run, fleet: str, project: Path) -> None:
    text = (project / "fleet.yaml").read_text()
    (project / "fleet.yaml").write_text(text.replace("context: 2048", "context: 999999"))
    found = [check for check in run("doctor", "--json", "--timeout", "3").json() if check["name"] == "context"]
    assert "999999 is more than the 8192" in found[0]["finding"]


def test_init_finds_it_and_the_starter_is_ready(run: Run, ollama: str, project: Path) -> None:
    here = {"OLLAMA_HOST": ollama.removeprefix("http://")}
    ran = run("init", env=here)
    assert ran.code == 0, ran.err
    text = (project / "fleet.yaml").read_text()
    assert f"ollama_model: {WITH_TOOLS}" in text
    assert f"endpoint: {ollama}" in text
    assert "PLACEHOLDER" not in text
    assert run("validate").code == 0
    assert os.path.exists(project / ".subagent-fleet" / "fleet.schema.json")


ONE_MODEL = """\
project: {{name: real}}
gateway: {gateway}
nodes: {{real: {{endpoint: "{ollama}"}}}}
models: {{tiny: {{node: real, ollama_model: "{name}", litellm_alias: local-coder, context: {context}}}}}
agents: {{implementer: {{model: tiny, description: builds}}}}
"""


@pytest.mark.litellm
@pytest.mark.agents
def test_claude_code_is_answered_by_a_model_that_cannot_think(
    gateway: Run, ollama: str, project: Path, clean_env: dict[str, str], agents_path: str
) -> None:
    """Through the gateway and without it: what the model can do is asked of it, and nothing else is sent to it."""
    text = partial(ONE_MODEL.format, ollama=ollama, context=CONTEXT)
    through = f"{{port: {free_port()}}}"
    (project / "fleet.yaml").write_text(text(gateway=through, name=NAME))
    refused = gateway("generate")
    assert (refused.code, f"on real these have: {WITH_TOOLS}" in refused.err) == (2, True), refused.err
    (project / "fleet.yaml").write_text(text(gateway=through, name=WITH_TOOLS))
    assert gateway("generate").code == 0
    known = json.loads((project / ".subagent-fleet/capabilities.json").read_text())["nodes"]["real"]["models"]
    assert known[WITH_TOOLS] == {"tools": True, "thinking": False, "vision": False, "context": 8192}
    assert known[NAME]["tools"] is False
    assert gateway("gateway", "up").code == 0
    its_answer_comes(project, clean_env, agents_path)
    assert gateway("gateway", "down").code == 0
    (project / "fleet.yaml").write_text(text(gateway="{provider: direct}", name=WITH_TOOLS))
    assert gateway("generate").code == 0
    its_answer_comes(project, clean_env, agents_path)


def its_answer_comes(project: Path, clean_env: dict[str, str], agents_path: str) -> None:
    script = ". ./.env.subagent-fleet && exec claude -p --tools Bash,Read,Edit,Write --output-format json"
    env = {"PATH": agents_path, "HOME": clean_env["HOME"], "IS_SANDBOX": "1", "DISABLE_AUTOUPDATER": "1"}
    asked = subprocess.run(
        ["sh", "-c", script],
        cwd=project,
        env=env,
        input="say hi",
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    result = json.loads(asked.stdout)
    assert (result["type"], result["is_error"]) == ("result", False), asked.stdout + asked.stderr
    assert result["usage"]["output_tokens"] > 0
    assert [use["contextWindow"] for use in result["modelUsage"].values()] == [CONTEXT]


@pytest.mark.litellm
def test_a_real_model_is_asked_as_an_agent_asks_with_the_context_of_its_alias(
    gateway: Run, ollama: str, project: Path
) -> None:
    port = f"{{port: {free_port()}}}"
    text = ONE_MODEL.format(gateway=port, ollama=ollama, name=WITH_TOOLS, context=4096)
    (project / "fleet.yaml").write_text(text)
    assert gateway("generate").code == 0
    assert gateway("gateway", "up").code == 0
    gateway("doctor", "--deep")
    now = gateway("status", "--json").json()
    assert [(route["state"], route["last"]["ok"]) for route in now["routes"]] == [("answered", True)]
    held = {one["name"]: one["context"] for one in now["nodes"][0]["loaded"]}
    assert held[WITH_TOOLS] == 4096
