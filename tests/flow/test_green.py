"""A green light of the models plane means something: doctor and status on broken set-ups, one after another."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fleet.gateway import environment
from fleet.nodes.demonstration import DemonstrationNode, Reply
from flow.conftest import Boxes, direct_yaml, free_port
from standins import bad_nodes
from standins.coders.scratch import Ran, until

pytestmark = [pytest.mark.litellm, pytest.mark.timeout(300)]
OTHER_KEY = "sk-another-Zq81LmT0pVx7RcN4sKd2"
MODELS = {"small": ("demo:7b",), "twin": ("demo:7b",), "big": ("demo:32b",)}
YAML = """\
project: {{name: green}}
gateway: {{port: {port}}}
nodes:
  small: {{endpoint: "{small}"}}
  twin: {{endpoint: "{twin}"}}
  big: {{endpoint: "{big}"}}
models:
  small-coder: {{node: small, ollama_model: "demo:7b", litellm_alias: local-small, context: 16384}}
  twin-coder: {{node: twin, ollama_model: "demo:7b", litellm_alias: local-small, context: 16384}}
  heavy-coder: {{node: big, ollama_model: "demo:32b", litellm_alias: local-heavy, context: 32768}}
agents:
  planner: {{model: small-coder, description: plans}}
  implementer: {{model: heavy-coder, description: builds}}
"""


def relay(endpoint: str) -> bad_nodes.Behaviour:
    """One exchange with the node behind a door."""

    def behave(client: socket.socket, _: threading.Event) -> None:
        host, port = endpoint.rpartition("/")[2].split(":")
        with socket.create_connection((host, int(port))) as node:
            back = threading.Thread(target=copy, args=(node, client))
            back.start()
            node.sendall(client.recv(65536).replace(b"\r\n", b"\r\nconnection: close\r\n", 1))
            copy(client, node)
            back.join()

    return behave


def copy(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # one of them left


@dataclass
class Plane:
    """A project with three nodes, each behind a door that can be made to misbehave."""

    project: Path
    env: dict[str, str]
    port: int
    nodes: dict[str, DemonstrationNode]
    doors: dict[str, bad_nodes.Behaviour]

    def run(self, *args: str) -> Ran:
        done = subprocess.run(
            [sys.executable, "-m", "fleet", *args],
            cwd=self.project,
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    def faults(self, *args: str) -> str:
        """What doctor calls wrong, one finding a line; nothing when it is green."""
        ran = self.run("doctor", "--json", *args)
        wrong = [check["finding"] for check in ran.json() if check["health"] == "wrong"]
        assert ran.code == (1 if wrong else 0), ran.out
        return "\n".join(wrong)

    def routes(self) -> dict[str, Any]:
        return {one["route"]["agent"]: one for one in self.run("status", "--json").json()["routes"]}

    @contextmanager
    def door(self, name: str, behave: bad_nodes.Behaviour) -> Iterator[None]:
        usual, self.doors[name] = self.doors[name], behave
        try:
            yield
        finally:
            self.doors[name] = usual

    @contextmanager
    def file(self, path: str, change: Callable[[str], str], *then: str) -> Iterator[None]:
        """A file that reads otherwise for a while."""
        before = (self.project / path).read_text()
        (self.project / path).write_text(change(before))
        if then:
            assert self.run(*then).code == 0
        try:
            yield
        finally:
            (self.project / path).write_text(before)
            if then:
                assert self.run(*then).code == 0


@contextmanager
def a_plane(top: Path) -> Iterator[Plane]:
    """Generated, and no gateway yet; everything that doctor looks at elsewhere is in order."""
    with ExitStack() as stack:
        nodes = {n: stack.enter_context(DemonstrationNode(m, lambda _: Reply("hello"))) for n, m in MODELS.items()}
        doors = {name: relay(node.endpoint) for name, node in nodes.items()}

        def behind(name: str) -> bad_nodes.Behaviour:
            return lambda client, over: doors[name](client, over)

        ends = {name: stack.enter_context(bad_nodes.node(behind(name))) for name in nodes}
        port, home, programs, project = free_port(), top / "home", top / "bin", top / "project"
        for directory in (home, programs, project):
            directory.mkdir()
        (home / ".gitconfig").write_text("[user]\nname = Person\nemail = person@example.org\n")
        (programs / "claude").write_text("#!/bin/sh\necho '2.1.0 (Claude Code)'\n")
        (programs / "claude").chmod(0o755)
        (project / "fleet.yaml").write_text(YAML.format(port=port, **ends))
        env = {
            "PATH": f"{Path(sys.executable).parent}:{programs}:{os.environ['PATH']}",
            "HOME": str(home),
            "FLEET_HOME": str(home / ".fleet"),
            "XDG_CACHE_HOME": os.environ["XDG_CACHE_HOME"],
            "LANG": "C.UTF-8",
        }
        plane = Plane(project, env, port, nodes, doors)
        assert plane.run("generate").code == 0
        try:
            yield plane
        finally:
            plane.run("gateway", "down")


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """One gateway for all set-ups that need one."""
    with a_plane(tmp_path_factory.mktemp("green")) as plane:
        before = plane.run("doctor")
        assert (before.code, "all well" in before.out) == (0, False), "it was never started, which is no fault"
        assert "note    gateway      not started" in before.out
        up = plane.run("gateway", "up")
        assert up.code == 0, up.err
        assert plane.faults() == ""
        yield plane


@contextmanager
def node_that(node: DemonstrationNode, **facts: Any) -> Iterator[None]:
    before = {name: getattr(node, name) for name in facts}
    for name, value in facts.items():
        setattr(node, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(node, name, value)


def chat(plane: Plane, behave: bad_nodes.Behaviour) -> AbstractContextManager[None]:
    """The heavy node is there and has its model, and does this with every request."""
    return plane.door("big", bad_nodes.by_path({"/api/chat": behave}, plane.doors["big"]))


STALE = "local-heavy: the running gateway has an older file, and asks demo:32b on http://127.0.0.1:"
DEEP = "--deep"
BROKEN: dict[str, tuple[Callable[[Plane], AbstractContextManager[None]], tuple[str, ...], str]] = {
    "a node that is off": (
        lambda plane: plane.door("big", bad_nodes.hang_up), (),
        "implementer: local-heavy: node offline: connection broken",
    ),
    "a node that lost the model": (
        lambda plane: node_that(plane.nodes["big"], models=("other:1b",)), (),
        "implementer: local-heavy: the node does not have the model",
    ),
    "a model without tools": (
        lambda plane: node_that(plane.nodes["big"], capabilities={"demo:32b": ("completion",)}), (),
        "demo:32b on big has no tools",
    ),
    "another key": (
        lambda plane: plane.file(".subagent-fleet/master.key", lambda _: OTHER_KEY), (),
        "it does not accept this project's key",
    ),
    "a gateway with an older file": (
        lambda plane: plane.file("fleet.yaml", lambda text: text.replace("demo:32b", "demo:33b"), "generate"),
        (), STALE,
    ),
    "a file that somebody edited": (
        lambda plane: plane.file("litellm_config.yaml", lambda text: text.replace("demo:32b", "demo:1b")), (),
        "litellm_config.yaml (edited)",
    ),
    "a node that refuses what agents ask": (
        lambda plane: chat(plane, bad_nodes.answer("400 Bad Request", b'{"error": "does not support thinking"}')),
        (DEEP,), "does not support thinking",
    ),
    "a node that hangs up on requests": (
        lambda plane: chat(plane, bad_nodes.hang_up), (DEEP,), "local-heavy: big did not answer at",
    ),
    "a node that says yes to everything": (
        lambda plane: chat(plane, bad_nodes.answer("200 OK", b"<html>Sign in</html>")), (DEEP,),
        "the answer is empty",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_set_up_is_never_green(plane: Plane, name: str) -> None:
    broken, options, expected = BROKEN[name]
    with broken(plane):
        assert expected in plane.faults(*options)
        if options:
            assert plane.routes()["implementer"]["served"] is False, "status shows the last"
    assert plane.faults(*options) == ""


def test_green_means_that_a_request_of_an_agents_kind_was_answered(plane: Plane) -> None:
    before = {name: len(node.asked("/api/chat")) for name, node in plane.nodes.items()}
    deep = plane.run("doctor", DEEP)
    assert (deep.code, "all well" in deep.out) == (0, True), deep.out
    for name, node in plane.nodes.items():
        (asked,) = node.asked("/api/chat")[before[name] :]
        assert asked["tools"]
        assert asked["options"]["num_ctx"] == (32768 if name == "big" else 16384)
        assert (asked["keep_alive"], asked["stream"]) == (-1, True)
    route = plane.routes()["planner"]
    assert (route["state"], route["served"], route["last"]["ok"]) == ("answered", True, True)
    assert [(place["node"], place["last"]["ok"]) for place in route["places"]] == [("small", True), ("twin", True)]
    assert "served: yes (small answered at " in plane.run("status").out
    home = Path(plane.env["FLEET_HOME"])
    assert [path for path in home.rglob("*.jsonl") if "requests" in path.name] == [], "no request of an agent"


def test_a_busy_node_is_left_alone(plane: Plane) -> None:
    assert plane.faults(DEEP) == ""
    go_on, big = threading.Event(), plane.nodes["big"]
    key = (plane.project / ".subagent-fleet/master.key").read_text().strip()
    body = {"model": "local-heavy", "max_tokens": 9, "messages": [{"role": "user", "content": "work"}]}
    with node_that(big, mind=lambda _: Reply(str(go_on.wait(60)))):
        client = http.client.HTTPConnection("127.0.0.1", plane.port, timeout=60)
        seen = len(big.asked("/api/chat"))
        client.request("POST", "/v1/messages", json.dumps(body), {"authorization": f"Bearer {key}"})
        try:
            until(lambda: len(big.asked("/api/chat")) > seen)
            deep = plane.run("doctor", DEEP)
        finally:
            go_on.set()
        assert client.getresponse().status == 200
        client.close()
    assert (deep.code, "big is busy, last answered " in deep.out) == (0, True), deep.out
    assert len(big.asked("/api/chat")) == seen + 1


def test_gateway_up_asks_what_is_in_memory_and_warmup_all(plane: Plane) -> None:
    big = plane.nodes["big"]
    with node_that(big, loaded={}):
        seen = len(big.asked("/api/chat"))
        up = plane.run("gateway", "up")
        assert "local-small on small: answered in " in up.err
        assert "local-heavy" not in up.err
        assert len(big.asked("/api/chat")) == seen, "it was not in memory"
        warm = plane.run("warmup", "--json")
        assert warm.code == 0, warm.err
        assert {one["model"]: one["asked"]["result"] for one in warm.json()} == {
            "small-coder": "answered", "twin-coder": "answered", "heavy-coder": "answered",
        }  # fmt: skip
        with node_that(big, capabilities={"demo:32b": ("completion",)}):
            refused = plane.run("warmup", "--model", "heavy-coder")
        assert (refused.code, "does not support tools" in refused.out) == (1, True), "loaded, and of no use to an agent"
    assert plane.faults(DEEP) == ""


def test_an_agent_is_served_by_the_other_node_of_its_alias(plane: Plane) -> None:
    """Failover, in status: one of the two nodes is off, and requests are answered."""
    with plane.door("small", bad_nodes.hang_up):
        planner = plane.routes()["planner"]
        assert (planner["served"], planner["alias_known"]) == (True, True)
        assert [(place["node"], place["has"]) for place in planner["places"]] == [("small", False), ("twin", True)]
    with plane.door("big", bad_nodes.hang_up):
        assert plane.routes()["implementer"]["served"] is False


def test_status_does_not_say_that_an_alias_is_served_which_another_model_answers(plane: Plane) -> None:
    with plane.file("fleet.yaml", lambda text: text.replace("demo:32b", "demo:33b")):
        found = plane.routes()
    assert (found["planner"]["served"], found["implementer"]["served"]) == (True, False)
    assert "asks demo:32b on" in found["implementer"]["why"]


def test_a_gateway_that_was_up_and_is_down_is_a_fault(plane: Plane) -> None:
    record = next((Path(plane.env["FLEET_HOME"]) / "gateway").glob("*.json"))
    os.kill(json.loads(record.read_text())["pid"], signal.SIGKILL)
    until(lambda: plane.run("gateway", "status").code == 1)
    assert "it is down (http://127.0.0.1:" in plane.faults()


def test_a_litellm_that_somebody_else_started_is_seen_for_what_it_is(tmp_path: Path) -> None:
    with a_plane(tmp_path) as plane:
        with bad_nodes.node(bad_nodes.not_http) as squatter:
            port = squatter.rpartition(":")[2]
            with plane.file("fleet.yaml", lambda text: text.replace(str(plane.port), port), "generate"):
                assert "what listens there is no LiteLLM" in plane.faults()
        key = (plane.project / ".subagent-fleet/master.key").read_text().strip()
        litellm, port = environment.directory() / "bin/litellm", str(plane.port)
        env = {"PATH": os.environ["PATH"], "HOME": plane.env["HOME"], "LITELLM_MASTER_KEY": key}
        with subprocess.Popen(
            [litellm, "--config", "litellm_config.yaml", "--host", "127.0.0.1", "--port", port],
            cwd=plane.project,
            env=env | {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_TELEMETRY": "False"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as theirs:
            try:
                until(lambda: plane.run("gateway", "status").code == 0, within=120)
                assert {agent: one["served"] for agent, one in plane.routes().items()} == {
                    "planner": True, "implementer": True,
                }  # fmt: skip
                assert "answers (fleet did not start it)" in plane.run("status").out
                assert plane.faults() == ""
                assert "a LiteLLM that fleet did not start answers on" in plane.run("gateway", "up").err
                with plane.file("fleet.yaml", lambda text: text.replace("demo:32b", "demo:33b"), "generate"):
                    assert "local-heavy: the running gateway has an older file" in plane.faults()
            finally:
                theirs.terminate()
        assert plane.routes()["planner"]["served"] is False


def test_in_direct_mode_the_node_itself_is_asked(tmp_path: Path) -> None:
    with a_plane(tmp_path) as plane:
        text = direct_yaml(Boxes(plane.nodes["small"], plane.nodes["big"], plane.port))
        (plane.project / "fleet.yaml").write_text(text)
        assert plane.run("generate").code == 0
        assert plane.faults(DEEP) == ""
        (asked,) = plane.nodes["small"].asked("/v1/messages")
        assert (asked["model"], asked["thinking"], len(asked["tools"])) == ("demo:7b", {"type": "adaptive"}, 1)
        assert plane.routes()["planner"]["state"] == "answered"
