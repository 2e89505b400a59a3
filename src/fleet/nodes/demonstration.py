"""A node that speaks Ollama's API and answers from a script: for the demonstration, and for trying out a fleet.

It is a real HTTP server on a real port; only the thinking is scripted. It keeps every request it got, and refuses what
Ollama refuses: tools and thinking of a model that has none, and a prompt over the context that must not be cut.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Message = dict[str, Any]
BYTES_PER_TOKEN = 4.4  # of what Claude Code sends, as a real model counted it
DEFAULT_CONTEXT = 4096  # Ollama's, of a request that names none


@dataclass(frozen=True, slots=True)
class Reply:
    """What the scripted mind says: text, or calls of tools as (name, arguments)."""

    text: str = ""
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()


Mind = Callable[[Message], Reply]


@dataclass(slots=True)
class Request:
    path: str
    body: Message
    headers: dict[str, str]


@dataclass(slots=True)
class DemonstrationNode:
    """Use as a context manager; serves the models on a free loopback port."""

    models: tuple[str, ...]
    mind: Mind
    requests: list[Request] = field(default_factory=list)
    loaded: dict[str, Message] = field(default_factory=dict)
    context: int = 32768
    capabilities: dict[str, tuple[str, ...]] = field(default_factory=dict)  # of a model that differs from the others
    _server: ThreadingHTTPServer | None = None

    def __enter__(self) -> DemonstrationNode:
        node = self

        class Handler(_Handler):
            owner = node

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.shutdown()
        self._server.server_close()

    @property
    def endpoint(self) -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def capabilities_of(self, model: str) -> tuple[str, ...]:
        """As /api/show has them."""
        return self.capabilities.get(model, ("completion", "tools"))

    def asked(self, path: str) -> list[Message]:
        """The bodies of the requests to a path, in order."""
        return [request.body for request in self.requests if request.path == path]


class _Handler(BaseHTTPRequestHandler):
    owner: DemonstrationNode
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        """Quiet: the requests are kept, not printed."""

    def do_GET(self) -> None:
        match self.path:
            case "/api/tags":
                self._json({"models": [_tag(name) for name in self.owner.models]})
            case "/api/ps":
                self._json({"models": list(self.owner.loaded.values())})
            case "/api/version":
                self._json({"version": "0.17.4"})
            case _:
                self._json({"error": "not found"}, 404)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)) or b"{}")
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.owner.requests.append(Request(self.path.partition("?")[0], body, headers))
        if body.get("model") not in self.owner.models:
            self._json({"error": f"model '{body.get('model')}' not found"}, 404)
            return
        match self.path.partition("?")[0]:
            case "/api/chat":
                self._chat(body)
            case "/v1/messages":
                self._messages(body)
            case "/api/show":
                info = {"general.architecture": "demo", "demo.context_length": self.owner.context}
                self._json({"capabilities": self.owner.capabilities_of(body["model"]), "model_info": info})
            case _:
                self._json({"error": "not found"}, 404)

    def _chat(self, body: Message) -> None:
        name, context = body["model"], (body.get("options") or {}).get("num_ctx", DEFAULT_CONTEXT)
        refusal = _refusal(body, self.owner.capabilities_of(name), context)
        if refusal:
            self._json({"error": refusal}, 400)
            return
        self.owner.loaded[name] = {
            "name": name, "size": 1_000_000_000, "context_length": context, "expires_at": "2318-01-01T00:00:00Z",
        }  # fmt: skip
        reply = self.owner.mind(body) if body.get("messages") else Reply()
        parts = list(_ollama_parts(name, reply))
        if body.get("stream", True):
            self._send("application/x-ndjson", "".join(json.dumps(part) + "\n" for part in parts).encode())
            return
        message = {"role": "assistant", "content": reply.text, **_tool_calls(reply)}
        self._json({**parts[-1], "message": message})

    def _messages(self, body: Message) -> None:
        content = [{"type": "text", "text": self.owner.mind(body).text}]
        usage = {"input_tokens": 10, "output_tokens": 5}
        self._json(
            {"id": "msg_1", "type": "message", "role": "assistant", "model": body["model"], "content": content,
             "stop_reason": "end_turn", "stop_sequence": None, "usage": usage}
        )  # fmt: skip

    def _json(self, value: object, status: int = 200) -> None:
        self._send("application/json", json.dumps(value).encode(), status)

    def _send(self, kind: str, content: bytes, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def _refusal(body: Message, capabilities: tuple[str, ...], context: int) -> str | None:
    """What Ollama says to a request that it does not take, in its words."""
    if body.get("think") and "thinking" not in capabilities:
        return f'"{body["model"]}" does not support thinking'
    if body.get("tools") and "tools" not in capabilities:
        return f"registry.ollama.ai/library/{body['model']} does not support tools"
    said = json.dumps([body.get("messages"), body.get("tools")])
    if body.get("truncate") is False and len(said) / BYTES_PER_TOKEN > context:
        return "the input length exceeds the context length"
    return None


def _tag(name: str) -> Message:
    size = name.rpartition(":")[2].upper()
    details = {"family": "demo", "parameter_size": size, "quantization_level": "Q4_K_M"}
    return {"name": name, "model": name, "size": 1_000_000_000, "details": details}


def _tool_calls(reply: Reply) -> Message:
    calls = [{"function": {"name": name, "arguments": arguments}} for name, arguments in reply.calls]
    return {"tool_calls": calls} if calls else {}


def _ollama_parts(name: str, reply: Reply) -> Iterator[Message]:
    about = {"model": name, "created_at": "2026-01-01T00:00:00Z"}
    for word in reply.text.splitlines(keepends=True):
        yield {**about, "message": {"role": "assistant", "content": word}, "done": False}
    if reply.calls:
        yield {**about, "message": {"role": "assistant", "content": "", **_tool_calls(reply)}, "done": False}
    yield {
        **about, "message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "stop",
        "prompt_eval_count": 10, "eval_count": 5, "total_duration": 1, "load_duration": 1, "eval_duration": 1,
    }  # fmt: skip
