"""The real LiteLLM, started from the generated file, and the requests that go through it."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from conftest import Run
from fleet.evidence.requests import Records, flying
from fleet.gateway import environment
from fleet.nodes.demonstration import Message, Reply
from flow.conftest import Boxes, direct_yaml
from standins.coders.scratch import until
from standins.proxy import watching

pytestmark = pytest.mark.timeout(300)
Start = Callable[..., Boxes]
OTHER_KEY = "sk-another-Zq81LmT0pVx7RcN4sKd2"


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def key(project: Path) -> str:
    return (project / ".subagent-fleet" / "master.key").read_text().strip()


def post(boxes: Boxes, path: str, token: str, body: dict[str, Any], attempt: str = "") -> bytes:
    signed = {"x-fleet-attempt": attempt} if attempt else {}
    request = urllib.request.Request(
        f"http://127.0.0.1:{boxes.port}{path}",
        json.dumps(body).encode(),
        {"authorization": f"Bearer {token}", "content-type": "application/json", **signed},
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=60) as answer:
        content: bytes = answer.read()
    return content


def ask(boxes: Boxes, token: str, model: str, attempt: str = "", **more: Any) -> bytes:
    body = {"model": model, "max_tokens": 20, "messages": [{"role": "user", "content": "hello"}], **more}
    return post(boxes, "/v1/messages", token, body, attempt)


@pytest.mark.litellm
def test_the_gateway_answers_on_the_right_node_and_leaves_nothing_behind(
    gateway: Run, boxes: Start, project: Path, clean_env: dict[str, str]
) -> None:
    """One start, many questions: a LiteLLM takes its time to start."""
    dead = '  twin: {node: dead-box, ollama_model: "demo:32b", litellm_alias: claude-sonnet-local, context: 32768}'
    two = boxes(extra_models=dead, extra_nodes='  dead-box: {endpoint: "http://127.0.0.1:9"}')
    assert gateway("generate").code == 0
    with watching() as proxy:
        up = gateway("gateway", "up", "--json", env=proxy.env)
        assert up.code == 0, up.err
        pid = up.json()["pid"]
        token = key(project)

        chat = json.loads(post(two, "/v1/chat/completions", token, {
            "model": "claude-haiku-local", "messages": [{"role": "user", "content": "hello"}]}))  # fmt: skip
        assert chat["choices"][0]["message"]["content"] == "small speaking"
        assert two.big.asked("/api/chat") == []

        streamed = ask(two, token, "claude-haiku-local", stream=True).decode()
        assert "event: message_start" in streamed
        assert "small speaking" in streamed
        assert two.big.asked("/api/chat") == []
        assert {body["options"]["num_ctx"] for body in two.small.asked("/api/chat")} == {16384}
        assert {body["keep_alive"] for body in two.small.asked("/api/chat")} == {-1}

        before = len(two.small.asked("/api/chat"))
        for _ in range(12):
            assert "big speaking" in ask(two, token, "claude-sonnet-local").decode(), "one of its two nodes is dead"
        assert "big speaking" in ask(two, token, "claude-opus-9-20991231").decode(), "a name of Claude Code's own"
        assert len(two.small.asked("/api/chat")) == before

        its_context_is_kept(two, token)

        with pytest.raises(urllib.error.HTTPError) as refused:
            ask(two, "sk-wrong", "claude-haiku-local")
        assert refused.value.code in (400, 401)
        refused.value.close()
        assert proxy.asked == [], "something wanted to leave this machine"

    status = gateway("status", "--json").json()
    assert {route["route"]["agent"]: route["served"] for route in status["routes"]} == {
        "planner": True, "implementer": True,
    }  # fmt: skip
    again = gateway("gateway", "up")
    assert again.code == 0
    assert f"process {pid}" in again.err
    text = Path(up.json()["log"]).read_text() + up.out + up.err + again.out + again.err
    assert token not in text, "the key was printed"
    assert os.stat(up.json()["log"]).st_mode & 0o077 == 0

    other = gateway("gateway", "up", env={"LITELLM_MASTER_KEY": OTHER_KEY})
    assert (other.code, "is not this project's key" in other.err) == (0, True), other.err
    text = (project / "fleet.yaml").read_text()
    (project / "fleet.yaml").write_text(text.replace("16384", "8192"))
    assert "the running gateway is stale" in gateway("doctor").out
    assert gateway("gateway", "status", "--json").json()["stale"] is True
    assert "run: fleet generate && fleet gateway down && fleet gateway up" in gateway("gateway", "status").out
    gateway("generate")
    older = gateway("gateway", "up")
    assert (older.code, "older litellm_config.yaml" in older.err) == (1, True)
    (project / "fleet.yaml").write_text("project: {name: renamed, and: broken")
    down = gateway("gateway", "down", "--json")
    assert down.json() == {"stopped": pid}
    assert not alive(pid)
    (project / "fleet.yaml").write_text(text)
    assert gateway("gateway", "status").code == 1
    assert gateway("gateway", "down").out == "no gateway was running\n"


def its_context_is_kept(two: Boxes, token: str) -> None:
    """What cannot fit is refused before it reaches a node, in words that make Claude Code shorten its conversation."""
    before = len(two.small.asked("/api/chat"))
    long = [{"role": "user", "content": "one more word " * 5000}]
    with pytest.raises(urllib.error.HTTPError) as refused:
        ask(two, token, "claude-haiku-local", messages=long)
    said = refused.value.read().decode()
    assert (refused.value.code, "ContextWindowExceededError" in said) == (400, True), said
    refused.value.close()
    assert len(two.small.asked("/api/chat")) == before
    wordy = [{"role": "user", "content": "internationalization " * 4000}]  # more to its node than LiteLLM counts
    with pytest.raises(urllib.error.HTTPError) as refused:
        ask(two, token, "claude-haiku-local", messages=wordy)
    said = refused.value.read().decode()
    assert (refused.value.code, "prompt is too long: " in said) == (400, True), said
    refused.value.close()
    thinking = {"type": "adaptive"}
    answer = ask(two, token, "claude-haiku-local", thinking=thinking, max_tokens=32000)
    assert b"small speaking" in answer, "its place is free again"
    assert 16000 < two.small.asked("/api/chat")[-1]["options"]["num_predict"] < 16384, "what the prompt leaves"


def test_a_weak_key_is_refused_before_anything_starts(run: Run, boxes: Start, project: Path) -> None:
    boxes()
    run("generate")
    (project / ".subagent-fleet/master.key").write_text("sk-local-dev\n")
    ran = run("gateway", "up")
    assert ran.code == 1
    assert "weak key" in ran.err
    assert "sk-local-dev" not in ran.err


def sourced(directory: Path, then: str = "") -> str:
    """The key that a shell has once it has sourced a project's env file."""
    script = f'. ./.env.subagent-fleet; {then} printf %s "$LITELLM_MASTER_KEY"'
    return subprocess.run(["sh", "-c", script], cwd=directory, capture_output=True, text=True, check=True).stdout


@pytest.mark.litellm
def test_a_key_of_ones_own_is_taken_and_a_litellm_of_ones_own_answers_to_it(
    run: Run, boxes: Start, project: Path, tmp_path: Path, clean_env: dict[str, str]
) -> None:
    """The documented lines, in their order: export a key, generate, litellm --config, source the env file."""
    two = boxes()
    weak = run("generate", env={"LITELLM_MASTER_KEY": "sk-local-dev"})
    assert (weak.code, "it has 12 characters, fewer than 24" in weak.err) == (1, True), weak.err
    assert not (project / ".env.subagent-fleet").exists()
    mine = {"LITELLM_MASTER_KEY": OTHER_KEY}
    taken = run("generate", env=mine)
    assert (taken.code, "this project's key is the one in $LITELLM_MASTER_KEY (" in taken.err) == (0, True), taken.err
    assert OTHER_KEY not in taken.out + taken.err
    assert sourced(project) == OTHER_KEY
    later = run("generate", env={"LITELLM_MASTER_KEY": OTHER_KEY[::-1]})
    assert "is not this project's key" in later.err
    assert "to use the exported one: rm .subagent-fleet/master.key && fleet generate" in later.err
    assert sourced(project) == OTHER_KEY, "the file sets the key that its own gateway has"

    second = tmp_path / "second"
    second.mkdir()
    (second / "fleet.yaml").write_text((project / "fleet.yaml").read_text())
    script = f". ./.env.subagent-fleet; cd {second}; {sys.executable} -m fleet generate"
    done = subprocess.run(["sh", "-c", script], cwd=project, env=clean_env, capture_output=True, text=True, check=True)
    assert "$LITELLM_MASTER_KEY (" in done.stderr
    assert "came with the env file of another project" in done.stderr
    assert sourced(second) not in ("", OTHER_KEY), "two projects in one shell share no key by accident"

    program = environment.directory() / "bin" / "litellm"
    argv = [str(program), "--config", "litellm_config.yaml", "--host", "127.0.0.1", "--port", str(two.port)]
    log = tmp_path / "log"
    with log.open("wb") as out, subprocess.Popen(argv, cwd=project, env=clean_env | mine, stdout=out, stderr=out) as it:
        try:
            assert until(lambda: it.poll() is not None or _answers(two, sourced(project))), log.read_text()
            assert "small speaking" in ask(two, sourced(project), "claude-haiku-local").decode()
        finally:
            it.terminate()


def _answers(boxes: Boxes, token: str) -> bool:
    try:
        return bool(ask(boxes, token, "claude-haiku-local"))
    except OSError:
        return False


def test_without_generated_files_the_next_command_is_named(run: Run, boxes: Start, project: Path) -> None:
    boxes()
    ran = run("gateway", "up")
    assert (ran.code, "next: fleet generate" in ran.err) == (1, True)
    elsewhere = run("gateway", "up", "-c", "project/fleet.yaml", cwd=project.parent)
    assert "next: fleet generate --config project/fleet.yaml" in elsewhere.err
    assert run("gateway", "logs").code == 3


def test_a_stale_file_is_not_started(run: Run, boxes: Start, project: Path) -> None:
    boxes()
    run("generate")
    text = (project / "fleet.yaml").read_text()
    (project / "fleet.yaml").write_text(text.replace("context: 16384", "context: 8192"))
    ran = run("gateway", "up")
    assert ran.code == 1
    assert "is not what fleet.yaml says now" in ran.err
    with (project / "litellm_config.yaml").open("a") as file:
        file.write("# by hand\n")
    edited = run("gateway", "up")
    assert "litellm_config.yaml was edited, or not written by fleet" in edited.err
    assert "replace it with: fleet generate --force" in edited.err, "one hop"


class Busy:
    """A mind that takes its time and counts how many requests it had at once."""

    def __init__(self) -> None:
        self.lock, self.never = threading.Lock(), threading.Event()
        self.now = self.peak = 0

    def __call__(self, _: Message) -> Reply:
        with self.lock:
            self.now += 1
            self.peak = max(self.peak, self.now)
        self.never.wait(0.3)
        with self.lock:
            self.now -= 1
        return Reply("done")


@pytest.mark.litellm
def test_over_max_parallel_requests_wait_and_none_is_refused(
    gateway: Run, boxes: Start, project: Path, clean_env: dict[str, str]
) -> None:
    small, big = Busy(), Busy()
    two = boxes(small, big)
    text = (project / "fleet.yaml").read_text()
    (project / "fleet.yaml").write_text(text.replace("context: 32768", "context: 32768, max_parallel: 2"))
    gateway("generate")
    up = gateway("gateway", "up")
    assert up.code == 0, up.err
    token = key(project)

    def one(number: int) -> bool:
        model = "claude-haiku-local" if number % 2 else "claude-sonnet-local"
        return b"done" in ask(two, token, model, f"t{number}.1", stream=number % 3 == 0)

    with ThreadPoolExecutor(16) as crowd:
        assert all(crowd.map(one, range(16)))
    assert (small.peak, big.peak) == (1, 2)
    its_requests_are_recorded(two, token, Path(clean_env["FLEET_HOME"]))

    for _ in range(4):
        leave_at_once(two, token)
    assert all(one(number) for number in range(6)), "a client that left holds no slot"


def its_requests_are_recorded(two: Boxes, token: str, home: Path) -> None:
    """Sixteen requests of as many attempts, then one more on each of the other protocols, and one that is refused."""
    said = [{"role": "user", "content": "SECRET-WORDS"}]
    one = {"model": "claude-haiku-local", "messages": said}
    for name, path, body in (
        ("chat.1", "/v1/chat/completions", one),
        ("chat.2", "/v1/chat/completions", one | {"stream": True}),
        ("responses.1", "/v1/responses", {"model": "claude-haiku-local", "input": "SECRET-WORDS", "stream": True}),
    ):
        post(two, path, token, body, name)
    with pytest.raises(urllib.error.HTTPError) as refused:
        post(two, "/v1/messages", token, one | {"model": "nobody", "max_tokens": 9}, "refused.1")
    refused.value.close()
    records = Records(home)
    wanted = {*(f"t{number}.1" for number in range(16)), "chat.1", "chat.2", "responses.1", "refused.1"}
    served = until(lambda: found if (found := records.served()).keys() >= wanted else None)
    assert served is not None
    assert served.keys() == wanted
    assert all(len(kinds) == 1 and kinds[0].requests == 1 for kinds in served.values()), "told twice, counted once"
    last = served["t1.1"][0]
    assert (last.alias, last.model, last.node, last.local) == (
        "claude-haiku-local", "ollama_chat/demo:7b", "small-box", True,
    )  # fmt: skip
    assert served["t0.1"][0].node == "big-box"
    answered = {name for name, kinds in served.items() if kinds[0].usage.prompt and kinds[0].usage.completion}
    assert wanted - answered == {"refused.1"}
    assert served["refused.1"][0].untold == 0
    assert max(kinds[0].wait for kinds in served.values()) > 0.25, "somebody stood in the queue behind another"
    kept = b"".join(path.read_bytes() for path in (home / "gateway").glob("*.json*"))
    assert b"SECRET-WORDS" not in kept
    assert token.encode() not in kept
    assert {oct(path.stat().st_mode & 0o777) for path in (home / "gateway").iterdir()} == {"0o600"}
    until(lambda: flying(home) == {})


@pytest.mark.litellm
def test_a_request_in_flight_is_known_and_a_killed_gateway_leaves_none(
    gateway: Run, boxes: Start, project: Path, clean_env: dict[str, str]
) -> None:
    never, home = threading.Event(), Path(clean_env["FLEET_HOME"])
    two = boxes(lambda _: Reply(str(never.wait(60))))
    gateway("generate")
    up = gateway("gateway", "up", "--json")
    assert up.code == 0, up.err
    began = time.time()
    with ThreadPoolExecutor(1) as crowd:
        asked = crowd.submit(ask, two, key(project), "claude-haiku-local", "t7.1")
        since = until(lambda: flying(home).get("t7.1"))
        assert since is not None
        assert began - 1 < since < time.time() + 1
        assert "t8.1" not in flying(home)
        os.kill(up.json()["pid"], signal.SIGKILL)
        until(lambda: not flying(home))
        assert list((home / "gateway").glob("*.flying.json")), "the file is still there: nobody believes it"
        never.set()
        assert isinstance(asked.exception(), OSError)


def leave_at_once(boxes: Boxes, token: str) -> None:
    """Send a whole request and hang up without waiting for the answer."""
    body = {"model": "claude-haiku-local", "max_tokens": 9, "messages": [{"role": "user", "content": "x"}]}
    client = http.client.HTTPConnection("127.0.0.1", boxes.port, timeout=10)
    client.request("POST", "/v1/messages", json.dumps(body), {"authorization": f"Bearer {token}"})
    client.close()


@pytest.mark.litellm
def test_a_taken_port_is_named(run: Run, boxes: Start) -> None:
    two = boxes()
    run("generate")
    with socket.create_server(("127.0.0.1", two.port)):
        ran = run("gateway", "up")
    assert ran.code == 1
    assert f"127.0.0.1:{two.port}" in ran.err


def test_a_gateway_that_cannot_start_says_why_and_leaves_nothing(
    run: Run, boxes: Start, project: Path, clean_env: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in LiteLLM that ends at once, in a cache of its own."""
    boxes()
    run("generate")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    program = environment.directory() / "bin" / "litellm"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\necho 'no such thing: \033[31mboom'\nexit 3\n")
    program.chmod(0o755)
    (environment.directory() / ".whole").touch()
    ran = run("gateway", "up", env={"XDG_CACHE_HOME": str(tmp_path / "cache")})
    assert ran.code == 1
    assert "LiteLLM ended before it answered" in ran.err
    assert "no such thing" in ran.err
    assert "\033" not in ran.err
    assert run("gateway", "status").code == 1
    its_log_is_shown_and_followed(run, project, clean_env)


def its_log_is_shown_and_followed(run: Run, project: Path, clean_env: dict[str, str]) -> None:
    shown = run("gateway", "logs", "-n", "1", "--json").json()
    assert [line.partition(":")[0] for line in shown["lines"]] == ["no such thing"]
    log = Path(shown["log"])
    log.write_text("a line of the last time\n")
    argv = [sys.executable, "-m", "fleet", "gateway", "logs", "-f"]
    with subprocess.Popen(argv, cwd=project, env=clean_env, stdout=subprocess.PIPE, text=True) as following:
        try:
            assert following.stdout is not None
            assert following.stdout.readline() == "a line of the last time\n"
            with log.open("a") as more:
                more.write("and one\nmore")
                more.flush()
                assert following.stdout.readline() == "and one\n"
            log.write_text("anew\n")
            assert following.stdout.readline() == "anew\n"
        finally:
            following.terminate()


def test_direct_mode_needs_no_gateway(run: Run, boxes: Start, project: Path) -> None:
    two = boxes()
    (project / "fleet.yaml").write_text(direct_yaml(two))
    assert run("generate").code == 0
    assert not (project / "litellm_config.yaml").exists()
    assert "model: demo:7b" in (project / ".claude/agents/planner.md").read_text()
    up = run("gateway", "up")
    assert up.code == 0
    assert "no gateway is needed" in up.out
    assert two.small.asked("/v1/messages")[0]["model"] == "demo:7b"
