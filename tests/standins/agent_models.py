"""The scripted model for any of the agent CLIs: `model_server`, and besides it the APIs of Anthropic and Google.

Claude Code asks `POST /v1/messages` (streamed) and `POST /v1/messages/count_tokens`; Gemini CLI `POST
/v1beta/models/NAME:streamGenerateContent`. It can also refuse, as a provider does a bad key or a spent quota, in
the words and with the status of each protocol.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from standins import model_server
from standins.model_server import Asked, Call, Say


@dataclass(frozen=True, slots=True)
class Refuse:
    """The model does not answer: an HTTP error with the provider's words."""

    status: int
    kind: str
    message: str
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reads:
    """An answer to a request that was so many tokens long, for Claude Code: what it says of the conversation's size."""

    prompt: int
    answer: Say | Call


Answer = Say | Call | Refuse | Reads
Mind = Callable[[Asked], Answer]
GEMINI = "/v1beta/models/"
CACHED = {"cache_creation_input_tokens": 100, "cache_read_input_tokens": 1000}


class Server(model_server.Server):
    """The running model: where it is, and everything it was asked."""

    def __init__(self, mind: Mind) -> None:
        super().__init__(lambda asked: Say("never asked"))
        self._http.server_close()
        self.answers = mind
        self._http = _Http(self)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"


class _Http(model_server._Http):
    def __init__(self, model: Server) -> None:
        super().__init__(model)
        self.RequestHandlerClass = _Handler
        self.answers = model


class _Handler(model_server._Handler):
    server: _Http

    def do_HEAD(self) -> None:  # noqa: N802
        self._reply(200, "text/plain", b"")

    def do_POST(self) -> None:  # noqa: N802
        body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
        asked = self._note(body)
        match self.path.partition("?")[0]:
            case "/v1/messages/count_tokens":
                self._reply(200, "application/json", b'{"input_tokens": 10}')
            case "/v1/messages" | "/v1/responses" | "/v1/chat/completions" as path:
                self._answer(path, asked, self.server.answers.answers(asked))
            case path if path.startswith(GEMINI) and path.endswith(":streamGenerateContent"):
                self._answer(path, asked, self.server.answers.answers(asked))
            case _:
                self._reply(404, "application/json", b'{"error": {"message": "no such path"}}')

    def _answer(self, path: str, asked: Asked, answer: Answer) -> None:
        match answer:
            case Refuse():
                self._refuse_as_google(answer) if path.startswith(GEMINI) else self._refuse(answer)
            case Reads() if path == "/v1/messages":
                self._stream(messages(asked, answer.answer, answer.prompt))
            case Reads():
                self._say(path, asked, answer.answer)
            case _:
                self._say(path, asked, answer)

    def _say(self, path: str, asked: Asked, answer: Say | Call) -> None:
        match path:
            case "/v1/messages":
                self._stream(messages(asked, answer))
            case path if path.startswith(GEMINI):
                self._stream([b"data: " + json.dumps(content(answer)).encode() + b"\n\n"])
            case "/v1/responses":
                self._stream(from_cache(asked, model_server.responses(asked, answer)))
            case _ if asked.body.get("stream"):
                self._stream(from_cache(asked, model_server.chat_chunks(asked, answer)))
            case _:
                whole = json.dumps(model_server.chat(asked, answer)).encode()
                self._reply(200, "application/json", b"".join(from_cache(asked, [whole])))

    def _refuse(self, answer: Refuse) -> None:
        error = {"type": answer.kind, "message": answer.message, "code": answer.kind}
        content = json.dumps({"type": "error", "error": error}).encode()
        self._reply(answer.status, "application/json", content, answer.headers)

    def _refuse_as_google(self, answer: Refuse) -> None:
        error = {"code": answer.status, "message": answer.message, "status": answer.kind}
        self._reply(answer.status, "application/json", json.dumps({"error": error}).encode())


def from_cache(asked: Asked, stream: Iterable[bytes]) -> Iterator[bytes]:
    """The same stream where most of the prompt came from a cache, and where each call has an id of its own."""
    for part in stream:
        for name in (b"input_tokens", b"prompt_tokens"):
            cached = b'"%s": 1110, "%s_details": {"cached_tokens": 1000}' % (name, name)
            part = part.replace(b'"%s": 10' % name, cached)
        yield part.replace(b'"call_1"', f'"call_{mark(asked)}"'.encode())


def messages(asked: Asked, answer: Say | Call, prompt: int = 1110) -> Iterator[bytes]:
    """Anthropic's stream: one block, why it stopped, what it used."""
    start = {"input_tokens": prompt - 1100, "output_tokens": 1, **CACHED}
    whole: dict[str, Any] = {"id": f"msg_{mark(asked)}", "type": "message", "role": "assistant", "model": asked.model}
    empty: dict[str, Any] = {"content": [], "stop_reason": None, "stop_sequence": None, "usage": start}
    block, delta, reason = _block(asked, answer)
    yield _event("message_start", {"message": whole | empty})
    yield _event("content_block_start", {"index": 0, "content_block": block})
    yield _event("content_block_delta", {"index": 0, "delta": delta})
    yield _event("content_block_stop", {"index": 0})
    stopped = {"delta": {"stop_reason": reason, "stop_sequence": None}, "usage": {"output_tokens": 5}}
    yield _event("message_delta", stopped)
    yield _event("message_stop", {})


def _block(asked: Asked, answer: Say | Call) -> tuple[dict[str, Any], dict[str, Any], str]:
    match answer:
        case Say(text):
            return {"type": "text", "text": ""}, {"type": "text_delta", "text": text}, "end_turn"
        case Call(tool, arguments):
            block = {"type": "tool_use", "id": f"toolu_{mark(asked)}", "name": tool, "input": {}}
            return block, {"type": "input_json_delta", "partial_json": json.dumps(arguments)}, "tool_use"


def content(answer: Say | Call) -> dict[str, Any]:
    """Google's stream: a single piece, with what it used."""
    used = {"promptTokenCount": 1110, "cachedContentTokenCount": 1000, "candidatesTokenCount": 5}
    whole = {"role": "model", "parts": [_part(answer)]}
    candidate = {"content": whole, "finishReason": "STOP", "index": 0}
    return {"candidates": [candidate], "usageMetadata": used | {"totalTokenCount": 1115}, "responseId": "r1"}


def _part(answer: Say | Call) -> dict[str, Any]:
    match answer:
        case Say(text):
            return {"text": text}
        case Call(tool, arguments):
            return {"functionCall": {"name": tool, "args": arguments}}


def _event(kind: str, data: dict[str, Any]) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind} | data)}\n\n".encode()


def mark(asked: Asked) -> str:
    """What tells this request from every other."""
    return sha256(json.dumps(asked.body).encode()).hexdigest()[:12]


def turns(asked: Asked) -> list[dict[str, Any]]:
    """The conversation so far, whichever protocol carries it."""
    return list(asked.body.get("input") or asked.body.get("messages") or asked.body.get("contents") or [])


def results(asked: Asked) -> int:
    """How many tool results the conversation holds since the last words of the user."""
    said = turns(asked)
    return sum(_results(turn) for turn in said[_last_prompt(said) :])


def _last_prompt(said: list[dict[str, Any]]) -> int:
    return max((n for n, turn in enumerate(said) if turn.get("role") == "user" and not _results(turn)), default=0)


def _results(turn: dict[str, Any]) -> int:
    if turn.get("type") == "function_call_output" or turn.get("role") == "tool":
        return 1
    content = turn.get("content") or turn.get("parts")
    blocks = content if isinstance(content, list) else []
    return sum(isinstance(block, dict) and _is_result(block) for block in blocks)


def _is_result(block: dict[str, Any]) -> bool:
    return block.get("type") == "tool_result" or "functionResponse" in block


def script(*answers: Answer) -> Mind:
    """One answer a tool result, for whoever has tools; the last one for ever."""

    def mind(asked: Asked) -> Answer:
        if not asked.tools:
            return Say("a title")
        return answers[min(results(asked), len(answers) - 1)]

    return mind
