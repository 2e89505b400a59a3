"""One contract over every kind of node: what it says is understood, and nothing it does can hurt."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from fleet.core.fleet import Kind, Model, Node
from fleet.host.http import Cause, Http, Unanswered
from fleet.nodes import State, Survey, find, survey
from fleet.nodes.local import PORTS
from fleet.nodes.survey import BACKENDS
from standins import bad_nodes

# What each kind answers, as its real server words it.
TAGS = {"models": [{"name": "coder:7b", "size": 4_700_000_000,
        "details": {"family": "qwen2", "parameter_size": "7.6B", "quantization_level": "Q4_K_M"}}]}  # fmt: skip
PS = {"models": [{"name": "coder:7b", "size": 6_000_000_000, "size_vram": 6_000_000_000, "context_length": 8192,
      "expires_at": "2318-02-19T14:38:31.83753-07:00"}]}  # fmt: skip
SHOW = {"model_info": {"general.architecture": "qwen2", "qwen2.context_length": 32768},
        "capabilities": ["completion", "tools"]}  # fmt: skip
VLLM = {"object": "list", "data": [{"id": "coder:7b", "object": "model", "owned_by": "vllm", "max_model_len": 32768}]}
LLAMACPP = {"object": "list", "data": [{"id": "coder:7b", "owned_by": "llamacpp",
            "meta": {"n_ctx_train": 32768, "n_params": 7_600_000_000, "size": 4_700_000_000}}]}  # fmt: skip
LMSTUDIO = {"object": "list", "data": [{"id": "coder:7b", "type": "llm", "state": "loaded", "quantization": "Q4_K_M",
            "max_context_length": 32768, "loaded_context_length": 8192}]}  # fmt: skip
PLAIN = {"object": "list", "data": [{"id": "coder:7b", "object": "model"}]}
OPENROUTER = {"data": [{"id": "coder:7b", "context_length": 32768}]}
CHAT = {"id": "x", "choices": [{"message": {"role": "assistant", "content": "ok"}}]}

ANSWERS: dict[Kind, dict[str, Any]] = {
    Kind.OLLAMA: {"/api/tags": TAGS, "/api/ps": PS, "/api/show": SHOW, "/api/chat": {"done": True}},
    Kind.VLLM: {"/v1/models": VLLM, "/v1/chat/completions": CHAT},
    Kind.LLAMACPP: {"/v1/models": LLAMACPP, "/v1/chat/completions": CHAT},
    Kind.LMSTUDIO: {"/api/v0/models": LMSTUDIO, "/v1/chat/completions": CHAT},
    Kind.OPENROUTER: {"/v1/models": OPENROUTER},
    Kind.OPENAI: {"/v1/models": PLAIN, "/v1/chat/completions": CHAT},
    Kind.ANTHROPIC: {"/v1/models": PLAIN},
}
CONTEXT_KNOWN = {Kind.OLLAMA, Kind.VLLM, Kind.LLAMACPP, Kind.LMSTUDIO, Kind.OPENROUTER}
LOADED_KNOWN = {Kind.OLLAMA, Kind.VLLM, Kind.LLAMACPP, Kind.LMSTUDIO}
MODEL = Model("m", "n", "coder:7b", "claude-local", 8192, 300, 1)
SECRET = "sk-node-secret"

kinds = pytest.mark.parametrize("kind", list(Kind))


class Server:
    """A well-behaved server of one kind that keeps what it was asked."""

    def __init__(self, answers: dict[str, Any], key: str | None) -> None:
        self.asked: list[tuple[str, dict[str, str], Any]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, format: str, *args: object) -> None:
                pass

            def do_GET(self) -> None:
                length = int(self.headers.get("content-length") or 0)
                body = json.loads(self.rfile.read(length) or b"null")
                headers = {name.lower(): value for name, value in self.headers.items()}
                server.asked.append((self.path, headers, body))
                given = headers.get("x-api-key") or headers.get("authorization", "").removeprefix("Bearer ")
                status = 401 if key is not None and given != key else 200 if self.path in answers else 404
                content = json.dumps(answers.get(self.path) if status == 200 else {"error": "no"}).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_POST = do_GET  # noqa: N815 - the library's name

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        self.endpoint = f"http://127.0.0.1:{self.http.server_address[1]}"


@contextmanager
def serving(kind: Kind, key: str | None = None) -> Iterator[tuple[Node, Server]]:
    server = Server(ANSWERS[kind], key)
    try:
        yield Node("n", kind, server.endpoint, api_key_env="NODE_KEY" if key else None), server
    finally:
        server.http.shutdown()
        server.http.server_close()


def ask(*nodes: Node, timeout: float = 30.0, loaded: bool = True) -> list[Survey]:
    return asyncio.run(survey(nodes, timeout=timeout, loaded=loaded))


def ask_one(kind: Kind, endpoint: str, timeout: float = 30) -> Survey:
    return ask(Node("n", kind, endpoint), timeout=timeout)[0]


@kinds
def test_a_live_node_lists_its_models(kind: Kind) -> None:
    with serving(kind) as (node, _):
        (found,) = ask(node)
    assert found.state is State.ONLINE
    assert found.models is not None
    assert [model.name for model in found.models] == ["coder:7b"]
    assert found.serves(MODEL) is True


@kinds
def test_what_is_in_memory_is_told_or_unknown(kind: Kind) -> None:
    with serving(kind) as (node, _):
        (found,) = ask(node)
    assert (found.loaded is not None) is (kind in LOADED_KNOWN)


@kinds
def test_what_a_model_can_do_is_told_or_unknown(kind: Kind) -> None:
    with serving(kind) as (node, _):
        (found,) = asyncio.run(survey([node], timeout=30.0, described=True))
    assert found.models is not None
    (model,) = found.models
    assert model.context == (32768 if kind in CONTEXT_KNOWN else None)
    can = (True, False, False) if kind is Kind.OLLAMA else (None, None, None)
    assert (model.tools, model.thinking, model.vision) == can


@kinds
def test_warming_succeeds_and_says_what_it_did(kind: Kind) -> None:
    async def warm(node: Node) -> str:
        async with Http(2.0, tls=False) as http:
            return await BACKENDS[kind].warm(http, node, MODEL, 8192)

    with serving(kind) as (node, _):
        assert asyncio.run(warm(node))


def test_ollama_is_warmed_with_the_context_the_gateway_will_use() -> None:
    async def warm(node: Node) -> str:
        async with Http(2.0, tls=False) as http:
            return await BACKENDS[Kind.OLLAMA].warm(http, node, MODEL, 8192)

    with serving(Kind.OLLAMA) as (node, server):
        asyncio.run(warm(node))
    path, _, body = server.asked[0]
    assert path == "/api/chat"
    assert (body["options"], body["keep_alive"], body["messages"]) == ({"num_ctx": 8192}, -1, [])


@kinds
def test_the_key_is_sent_from_its_variable(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NODE_KEY", SECRET)
    with serving(kind, key=SECRET) as (node, _):
        assert ask(node)[0].state is State.ONLINE


@kinds
@pytest.mark.parametrize(("value", "cause"), [("", Cause.NO_API_KEY), ("wrong", Cause.UNAUTHORISED)])
def test_a_missing_or_wrong_key_is_named(kind: Kind, value: str, cause: Cause, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NODE_KEY", value)
    with serving(kind, key=SECRET) as (node, _):
        assert ask(node)[0].cause is cause


@kinds
def test_nobody_there_is_refused(kind: Kind) -> None:
    assert ask_one(kind, "http://127.0.0.1:9").cause is Cause.REFUSED


@kinds
@pytest.mark.parametrize(
    ("behave", "causes"),
    [
        (bad_nodes.silent, {Cause.TIMED_OUT}),
        (bad_nodes.drip, {Cause.TIMED_OUT}),
        (bad_nodes.hang_up, {Cause.BROKEN}),
        (bad_nodes.not_http, {Cause.BROKEN}),
        (bad_nodes.answer("200 OK", b"<html>hello</html>"), {Cause.BAD_JSON}),
        (bad_nodes.answer("200 OK", b"[" * 100_000), {Cause.BAD_JSON}),
        (bad_nodes.answer("200 OK", b'{"other": []}'), {Cause.MISSING_KEY}),
        (bad_nodes.answer("200 OK", b'{"models": 3, "data": {}}'), {Cause.MISSING_KEY}),
        (bad_nodes.answer("200 OK", b"3"), {Cause.MISSING_KEY}),
        (bad_nodes.answer("302 Found", b"", "location: http://127.0.0.1:9/stolen\r\n"), {Cause.REDIRECTED}),
        (bad_nodes.answer("500 Oh", b"secret body"), {Cause.HTTP_ERROR}),
    ],
)
def test_a_bad_node_is_a_row_with_its_cause(kind: Kind, behave: bad_nodes.Behaviour, causes: set[Cause]) -> None:
    with bad_nodes.node(behave) as endpoint:
        found = ask_one(kind, endpoint, timeout=0.5 if causes == {Cause.TIMED_OUT} else 30)
    assert (found.state, found.models) == (State.OFFLINE, None)
    assert found.cause in causes
    assert "secret body" not in f"{found.detail}"


@kinds
def test_another_server_on_the_port_is_not_taken_for_this_kind(kind: Kind) -> None:
    with bad_nodes.node(bad_nodes.answer("404 Not Found", b"{}")) as endpoint:
        found = ask_one(kind, endpoint)
    if kind is Kind.ANTHROPIC:  # many compatible servers have no listing: then the models are unknown, not absent
        assert (found.state, found.models) == (State.ONLINE, None)
    else:
        assert found.cause is Cause.WRONG_KIND
        assert "not " in f"{found.detail}"


@kinds
def test_a_flood_is_cut_off(kind: Kind) -> None:
    with bad_nodes.node(bad_nodes.endless) as endpoint:
        assert ask_one(kind, endpoint, timeout=60).cause is Cause.TOO_LARGE


def test_names_lose_their_control_characters() -> None:
    tags = json.dumps({"models": [{"name": "a\x1b[2Jb"}, {"name": 3}, "x", {"name": ""}]}).encode()
    with bad_nodes.node(bad_nodes.answer("200 OK", tags)) as endpoint:
        found = ask_one(Kind.OLLAMA, endpoint)
    assert found.models is not None
    assert [model.name for model in found.models] == ["a\N{REPLACEMENT CHARACTER}[2Jb"]


def test_a_million_models_are_capped() -> None:
    many = b'{"models": [' + b'{"name":"m"},' * 100_000 + b'{"name":"m"}]}'
    with bad_nodes.node(bad_nodes.answer("200 OK", many)) as endpoint:
        found = ask_one(Kind.OLLAMA, endpoint)
    assert found.models is not None
    assert len(found.models) == 5000


def test_the_answers_keep_the_order_of_the_nodes_however_late_they_come() -> None:
    with serving(Kind.OLLAMA) as (good, _), bad_nodes.node(bad_nodes.silent) as late:
        found = ask(Node("late", Kind.OLLAMA, late), good, Node("dead", Kind.OLLAMA, "http://127.0.0.1:9"), timeout=0.5)
    assert [(s.node, s.state) for s in found] == [
        ("late", State.OFFLINE), ("n", State.ONLINE), ("dead", State.OFFLINE),
    ]  # fmt: skip


@pytest.mark.parametrize("kind", list(PORTS))
def test_a_server_on_its_usual_port_is_found_for_the_starter(kind: Kind) -> None:
    """The same search as `init`, with the kind's server where it happens to listen here."""
    with serving(kind) as (node, _), bad_nodes.node(bad_nodes.answer("404 Not Found", b"{}")) as other:
        found = find([node, Node("other", kind, other), Node("dead", kind, "http://127.0.0.1:9")], timeout=30)
    assert [(place.node.name, [model.name for model in place.models]) for place in found] == [("n", ["coder:7b"])]
    assert found[0].models[0].context == 32768


def test_silent_nodes_are_waited_for_together_not_one_after_the_other() -> None:
    """Each of 60 silent nodes sees the others' connections before any of them is given up."""
    together = threading.Barrier(60)

    def wait_for_the_others(_: Any, over: threading.Event) -> None:
        together.wait(timeout=20)
        over.wait()

    with bad_nodes.node(wait_for_the_others) as endpoint:
        found = ask(*(Node(f"n{i}", Kind.OLLAMA, endpoint) for i in range(60)), timeout=5.0, loaded=False)
    assert not together.broken
    assert {survey.cause for survey in found} == {Cause.TIMED_OUT}


def test_no_answer_is_an_exception_with_a_cause_not_a_crash() -> None:
    async def get() -> None:
        async with Http(0.5) as http:
            await http.get("http://does-not-exist.invalid/")

    with pytest.raises(Unanswered) as caught:
        asyncio.run(get())
    assert caught.value.cause in (Cause.NO_SUCH_HOST, Cause.TIMED_OUT)
