"""The real Claude Code on nodes with small contexts, which refuse what the real ones refuse."""

from __future__ import annotations

import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from conftest import Run
from fleet.nodes.demonstration import DemonstrationNode, Message, Reply
from flow.conftest import free_port
from standins import agent_models, limited_models
from standins.model_server import Asked, Call, Say

pytestmark = [pytest.mark.agents, pytest.mark.litellm, pytest.mark.timeout(400)]
TURN = "seq 1 1500"  # 7 KB of output
LINE = "head -c 28000 /dev/zero | tr '\\0' -"  # few tokens as LiteLLM counts them, and many for the node
SUMMARY = "SUMMARY-OF-THE-WORK"


def says(body: dict[str, Any]) -> str | None:
    """What a model says that works until its conversation was summarised; None is one more turn of work."""
    said = json.dumps(body["messages"])
    if SUMMARY in said:
        return "ALL DONE"
    if "detailed summary of" in json.dumps(body["messages"][-3:]):  # reminders may come after it
        return f"<summary>{SUMMARY}</summary>"
    return None


def on_ollama(body: Message) -> Reply:
    text = says(body)
    command = TURN if body["options"]["num_ctx"] == 32768 else LINE
    return Reply(text) if text else Reply(calls=(("Bash", {"command": command, "description": "count"}),))


def on_openai(asked: Asked) -> agent_models.Answer:
    text = says(asked.body)
    return Say(text) if text else Call("Bash", {"command": TURN, "description": "count"})


def test_the_first_prompt_fits_and_a_conversation_over_the_context_is_shortened(
    gateway: Run, project: Path, clean_env: dict[str, str], agents_path: str
) -> None:
    with ExitStack() as stack:
        ollama = stack.enter_context(DemonstrationNode(("coder:7b",), on_ollama))
        vllm = agent_models.Server(limited_models.vllm(on_openai, 16384))
        llamacpp = agent_models.Server(limited_models.llamacpp(on_openai, 16384))
        for server in (vllm, llamacpp):
            stack.enter_context(server.running())
        port = free_port()
        (project / "fleet.yaml").write_text(f"""\
project: {{name: contexts}}
gateway: {{port: {port}}}
nodes:
  box: {{endpoint: "{ollama.endpoint}"}}
  fast: {{kind: vllm, endpoint: "{vllm.endpoint}"}}
  thin: {{kind: llamacpp, endpoint: "{llamacpp.endpoint}"}}
models:
  heavy: {{node: box, ollama_model: "coder:7b", litellm_alias: claude-sonnet-local, context: 32768, max_parallel: 2}}
  small: {{node: box, ollama_model: "coder:7b", litellm_alias: claude-haiku-local, context: 16384, max_parallel: 2}}
  fast: {{node: fast, model: "coder:7b", litellm_alias: on-vllm, context: 16384}}
  thin: {{node: thin, model: "coder:7b", litellm_alias: on-llamacpp, context: 16384}}
agents:
  implementer: {{model: heavy, description: builds}}
""")
        assert gateway("generate").code == 0
        up = gateway("gateway", "up")
        assert up.code == 0, up.err

        aliases = ["claude-sonnet-local", "claude-haiku-local", "on-vllm", "on-llamacpp"]

        def claude(alias: str) -> dict[str, Any]:
            home = project.parent / alias
            home.mkdir()
            env = {"PATH": agents_path, "HOME": str(home), "IS_SANDBOX": "1", "DISABLE_AUTOUPDATER": "1"}
            # Who asks another than the heavy model is guarded by the gateway alone.
            unset = "" if alias == aliases[0] else "unset CLAUDE_CODE_MAX_OUTPUT_TOKENS CLAUDE_CODE_MAX_CONTEXT_TOKENS;"
            script = f". ./.env.subagent-fleet && {unset} exec claude -p --output-format json --model {alias}" \
                     " --dangerously-skip-permissions"  # fmt: skip
            done = subprocess.run(["sh", "-c", script], cwd=project, env=env, input="count, and count again",
                                  capture_output=True, text=True, timeout=240, check=False)  # fmt: skip
            result: dict[str, Any] = json.loads(done.stdout)
            return result

        with ThreadPoolExecutor(2) as crowd:
            results = dict(zip(aliases, crowd.map(claude, aliases), strict=True))
        assert {alias: result["result"] for alias, result in results.items()} == dict.fromkeys(aliases, "ALL DONE")
        assert all(result["num_turns"] > 1 for result in results.values()), "the first prompt left room for work"
        asked = {body["options"]["num_ctx"]: body for body in ollama.asked("/api/chat")}
        assert {context: body["options"]["num_predict"] for context, body in asked.items()} == {
            32768: 4096, 16384: 2048,
        }  # fmt: skip
        assert not [body for body in ollama.asked("/api/chat") if "think" in body or body["truncate"]]
