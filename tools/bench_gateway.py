"""What the gateway's own modules cost a request: rows of `python tools/bench.py`."""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from bench_rows import OURS, Bench, BenchError, Row, in_turns
from fleet.gateway import environment, keys
from fleet.host import files
from fleet.nodes.demonstration import DemonstrationNode, Reply

GOAL = 1.1
ROUNDS = 60
MAX_START_S = 120.0
PROMPT_BYTES = 46_000  # what Claude Code says before anybody has said anything
FLEET = """\
project: {{name: bench}}
gateway: {{port: {port}}}
nodes: {{box: {{endpoint: "{endpoint}"}}}}
models: {{coder: {{node: box, ollama_model: "coder:7b", litellm_alias: local-coder, max_parallel: 4}}}}
agents: {{implementer: {{model: coder, description: builds}}}}
"""


def bench_gateway(bench: Bench) -> Iterator[Row]:
    if environment.installed() is None:
        raise BenchError("LiteLLM is not installed: fleet gateway up installs it")
    with DemonstrationNode(("coder:7b",), lambda _: Reply("ok")) as node, bench.fresh() as project:
        port, other = free_port(), free_port()
        (project / "fleet.yaml").write_text(FLEET.format(port=port, endpoint=node.endpoint))
        environ = bench.environ | {"XDG_CACHE_HOME": str(files.cache().parent)}
        fleet(project, environ, "generate")
        key = keys.stored(project)
        if key is None:
            raise BenchError("fleet generate made no key")
        with plain(project, environ, key, other):
            fleet(project, environ, "gateway", "up")
            try:
                ours, theirs = in_turns(ROUNDS, partial(ask, port, key), partial(ask, other, key))
            finally:
                fleet(project, environ, "gateway", "down")
    what = f"a request of {PROMPT_BYTES // 1000} KB through fleet gateway"
    yield Row("gateway", what, ours, "LiteLLM by itself", theirs, goal=GOAL)


def fleet(project: Path, environ: dict[str, str], *arguments: str) -> None:
    done = subprocess.run([OURS.bin / "fleet", *arguments], cwd=project, env=environ, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=MAX_START_S, check=False)  # fmt: skip
    if done.returncode:
        raise BenchError(f"exit {done.returncode} from fleet {' '.join(arguments)}: {done.stderr.strip()[-500:]}")


@contextmanager
def plain(project: Path, environ: dict[str, str], key: str, port: int) -> Iterator[None]:
    """A LiteLLM with the generated file, and so with the same checks before a call, and nothing of ours in it."""
    program = environment.directory() / "bin" / "litellm"
    argv: list[str | Path] = [
        program,
        "--config",
        project / "litellm_config.yaml",
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
    ]
    ours = {"LITELLM_MASTER_KEY": key, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "NO_PROXY": "127.0.0.1"}
    server = subprocess.Popen(argv, cwd=project, env=environ | ours, stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    try:
        until = time.monotonic() + MAX_START_S
        while not answers(port):
            if server.poll() is not None or time.monotonic() > until:
                raise BenchError("LiteLLM by itself does not start")
            time.sleep(0.2)
        yield
    finally:
        server.terminate()
        server.wait(30)


def answers(port: int) -> bool:
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        client.request("GET", "/health/liveliness")
        return client.getresponse().status == 200
    except OSError:
        return False
    finally:
        client.close()


def ask(port: int, key: str) -> float:
    """Seconds for one request, as Claude Code sends it, from the connection to the last byte."""
    words = "".join(f"line {number} of what an agent is told\n" for number in range(PROMPT_BYTES // 36))
    body = {
        "model": "local-coder", "max_tokens": 4096, "stream": True, "thinking": {"type": "adaptive"},
        "system": words[:PROMPT_BYTES], "messages": [{"role": "user", "content": os.urandom(8).hex()}],
    }  # fmt: skip
    content, headers = json.dumps(body), {"authorization": f"Bearer {key}", "content-type": "application/json"}
    began = time.perf_counter()
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        client.request("POST", "/v1/messages", content, headers)
        answer = client.getresponse()
        if answer.status != 200 or b"message_stop" not in answer.read():
            raise BenchError(f"the request was answered by {answer.status}")
    finally:
        client.close()
    return time.perf_counter() - began


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


GROUPS: dict[str, Callable[[Bench], Iterator[Row]]] = {"gateway": bench_gateway}
