"""A model that answers from a script: real wire protocols on loopback, the same words every time.

It speaks `POST /v1/responses` (Codex), `POST /v1/chat/completions` (OpenCode and Aider, streamed or not) and `GET
/v1/models`. As a proxy it lets nobody through, and remembers who wanted to go where. A mind is a function from what was
asked to what is said, so that a test says in three lines what the model does.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True, slots=True)
class Say:
    text: str


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call; the arguments are what the tool's own schema asks for. Codex groups some tools in a namespace."""

    tool: str
    arguments: dict[str, Any]
    namespace: str | None = None


Answer = Say | Call
NO_HEADERS: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class Asked:
    """One request as it arrived."""

    path: str
    authorization: str
    body: dict[str, Any]
    attempt: str | None = None  # of which it says it is

    @property
    def model(self) -> str:
        return str(self.body.get("model"))

    @property
    def tools(self) -> set[str]:
        """The names of the tools on offer, whichever protocol names them."""
        listed = [one for tool in self.body.get("tools") or [] for one in tool.get("functionDeclarations", [tool])]
        return {str(tool.get("name") or tool.get("function", {}).get("name")) for tool in listed}

    @property
    def tool_results(self) -> list[str]:
        """What the tools said so far, oldest first."""
        turns = self.body.get("input") or self.body.get("messages") or []
        return [_text(t) for t in turns if t.get("type") == "function_call_output" or t.get("role") == "tool"]


Mind = Callable[[Asked], Answer]


def _text(turn: dict[str, Any]) -> str:
    said = turn.get("output", turn.get("content"))
    return said if isinstance(said, str) else json.dumps(said)


class Server:
    """The running model: where it is, and everything it was asked."""

    def __init__(self, mind: Mind) -> None:
        self.mind = mind
        self.asked: list[Asked] = []
        self._http = _Http(self)

    @property
    def port(self) -> int:
        return int(self._http.server_address[1])

    def asked_at(self, path: str) -> list[Asked]:
        return [asked for asked in self.asked if asked.path.partition("?")[0] == path]

    @contextmanager
    def running(self) -> Iterator[Server]:
        thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield self
        finally:
            self._http.shutdown()
            thread.join()
            self._http.server_close()


class _Http(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, model: Server) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.model = model


class _Handler(BaseHTTPRequestHandler):
    server: _Http
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._note({})
        known = self.path.partition("?")[0] == "/v1/models"
        self._reply(200 if known else 404, "application/json", b'{"object": "list", "data": [], "models": []}')

    def do_CONNECT(self) -> None:
        """A client that takes us for its proxy wants to reach somebody else: noted, and refused."""
        self._note({})
        self._reply(403, "text/plain", b"")

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
        asked = self._note(body)
        match self.path.partition("?")[0]:
            case "/v1/responses":
                self._stream(responses(asked, self.server.model.mind(asked)))
            case "/v1/chat/completions" if body.get("stream"):
                self._stream(chat_chunks(asked, self.server.model.mind(asked)))
            case "/v1/chat/completions":
                answer = chat(asked, self.server.model.mind(asked))
                self._reply(200, "application/json", json.dumps(answer).encode())
            case _:
                self._reply(404, "application/json", b'{"error": {"message": "no such path"}}')

    def _note(self, body: dict[str, Any]) -> Asked:
        asked = Asked(self.path, self.headers.get("authorization", ""), body, self.headers.get("x-fleet-attempt"))
        self.server.model.asked.append(asked)
        return asked

    def _stream(self, events: Iterable[bytes]) -> None:
        self._reply(200, "text/event-stream", b"".join(events))

    def _reply(self, status: int, kind: str, content: bytes, headers: Mapping[str, str] = NO_HEADERS) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing on stderr: the test reads `asked`."""


def responses(asked: Asked, answer: Answer) -> Iterator[bytes]:
    """The Responses API: one item, then the end with its usage."""
    item = _item(answer)
    usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
    whole = {"id": "resp_1", "object": "response", "model": asked.model, "output": [item], "usage": usage}
    yield _event("response.created", {"response": whole | {"status": "in_progress", "output": [], "usage": None}})
    yield _event("response.output_item.added", {"output_index": 0, "item": item})
    yield _event("response.output_item.done", {"output_index": 0, "item": item})
    yield _event("response.completed", {"response": whole | {"status": "completed"}})


def _item(answer: Answer) -> dict[str, Any]:
    match answer:
        case Say(text):
            content = [{"type": "output_text", "text": text, "annotations": []}]
            return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content}
        case Call(tool, arguments, namespace):
            call = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "status": "completed"}
            within = {"namespace": namespace} if namespace else {}
            return call | within | {"name": tool, "arguments": json.dumps(arguments)}


def _event(kind: str, data: dict[str, Any]) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind} | data)}\n\n".encode()


def chat_chunks(asked: Asked, answer: Answer) -> Iterator[bytes]:
    """The chat completions API, streamed: one delta, the reason it stopped, the usage."""
    base = {"id": "chat_1", "object": "chat.completion.chunk", "created": 1, "model": asked.model}
    delta, reason = _message(answer)
    for index, call in enumerate(delta.get("tool_calls", [])):
        call["index"] = index
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    yield _data(base | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
    yield _data(base | {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
    yield _data(base | {"choices": [], "usage": usage})
    yield b"data: [DONE]\n\n"


def chat(asked: Asked, answer: Answer) -> dict[str, Any]:
    message, reason = _message(answer)
    return {
        "id": "chat_1",
        "object": "chat.completion",
        "created": 1,
        "model": asked.model,
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
    }


def _message(answer: Answer) -> tuple[dict[str, Any], str]:
    match answer:
        case Say(text):
            return {"role": "assistant", "content": text}, "stop"
        case Call(tool, arguments):
            function = {"name": tool, "arguments": json.dumps(arguments)}
            call = {"id": "call_1", "type": "function", "function": function}
            return {"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls"


def _data(chunk: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(chunk)}\n\n".encode()
