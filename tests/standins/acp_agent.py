"""An agent that speaks the Agent Client Protocol, as badly as its first argument says: `acp_agent.py MIND [LOG]`.

Standard library only, JSON-RPC by hand, so that it can break every rule. What it is sent is appended to LOG.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

Message = dict[str, Any]
SESSION = "session-of-a-stand-in"
OPTIONS = [
    {"optionId": "for-ever", "name": "Always", "kind": "allow_always"},
    {"optionId": "this-time", "name": "Yes", "kind": "allow_once"},
    {"optionId": "never", "name": "No", "kind": "reject_once"},
]
MODELS = {"currentModelId": "small", "availableModels": [{"modelId": "small"}, {"modelId": "large"}]}
MIND, LOG = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else os.devnull


def main() -> None:
    if MIND == "stubborn":
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
    for message in incoming():
        if message.get("method") in ANSWERS:
            ANSWERS[message["method"]](message)
    if MIND == "stubborn":
        signal.pause()


def incoming() -> Iterator[Message]:
    for line in sys.stdin:
        with open(LOG, "a") as log:
            log.write(line)
        yield json.loads(line)


def initialize(message: Message) -> None:
    match MIND:
        case "mute":
            return
        case "babbles":
            sys.stdout.write("hello\n[1]\nnull\n{\n\x1b[31mred\n" + "[" * 100_000 + "\n")
        case "shouts":
            sys.stdout.write("x" * 20_000_000)
            sys.stdout.flush()
            return
        case "confuses":
            send({"id": 99, "result": {}})
            return
        case "mumbles":
            send({"id": message["id"], "error": "no"})
            return
    version = 2 if MIND == "newer" else 1
    answer(message, {"protocolVersion": version, "agentCapabilities": {"loadSession": MIND != "forgets"}})


def begin(message: Message) -> None:
    match MIND:
        case "locked":
            send({"id": message["id"], "error": {"code": -32000, "message": "Authentication required"}})
        case "nameless":
            answer(message, {"sessionId": 5})
        case _:
            answer(message, {"sessionId": SESSION, "models": MODELS})


def load(message: Message) -> None:
    tool("completed", rawInput={"path": "a replay"})
    answer(message, {"models": MODELS})


def set_model(message: Message) -> None:
    if message["params"]["modelId"] == "large":
        answer(message, {})
    else:
        send({"id": message["id"], "error": {"code": -32602, "message": "no such model"}})


def prompt(message: Message) -> None:
    match MIND:
        case "dies":
            sys.exit(3)
        case "leaves":  # what it leaves behind holds its output open
            subprocess.Popen(["sleep", "600"])
            os._exit(3)
        case "waits" | "stubborn":
            tool("in_progress", rawInput={"command": f"wait for ever as {os.getpid()}"})
            if MIND == "waits":
                next(one for one in incoming() if one.get("method") == "session/cancel")
                answer(message, {"stopReason": "cancelled"})
        case "refuses":
            answer(message, {"stopReason": "refusal"})
        case "stranger":
            send({"id": 7, "method": "fs/write_text_file", "params": {"path": "/etc/passwd", "content": "x"}})
            refused = next(incoming())
            say(json.dumps(refused["error"]))
            answer(message, {"stopReason": "end_turn"})
        case _:
            work(message)


def work(message: Message) -> None:
    """In the order that agents do it in: the call first, its input later, and then may it, please?"""
    for piece in ("I will ", "make ", "it."):
        say(piece, "first")
    tell({"sessionUpdate": "tool_call", "toolCallId": "call-1", "title": "Preparing…", "kind": "edit", "rawInput": {}})
    tool("pending", rawInput={"path": "made.txt"}, title="Write made.txt")
    call = {"toolCallId": "call-1", "title": "Write made.txt"}
    send({"id": "may-i", "method": "session/request_permission", "params": {"toolCall": call, "options": OPTIONS}})
    outcome = next(incoming())["result"]["outcome"]
    if outcome.get("optionId") in ("this-time", "for-ever"):
        with open("made.txt", "w") as made:
            made.write(f"{outcome['optionId']}\n")
    tool("completed" if os.path.exists("made.txt") else "failed", rawOutput="over")
    tool("completed", rawOutput="over")
    tell({"sessionUpdate": "usage_update", "used": 900, "size": 1000, "cost": {"amount": 0.25, "currency": "USD"}})
    say("Made it.", "second")
    tell({"sessionUpdate": "usage_update", "used": 950, "size": 1000, "cost": {"amount": 0.75, "currency": "USD"}})
    tell({"sessionUpdate": "of_next_year", "what": 5})
    used = {"inputTokens": 10, "cachedReadTokens": 1000, "outputTokens": 5, "totalTokens": 1015}
    answer(message, {"stopReason": "end_turn", "usage": used})


def say(text: str, message: str | None = None) -> None:
    content = {"type": "text", "text": text}
    tell({"sessionUpdate": "agent_message_chunk", "content": content, "messageId": message})


def tool(status: str, **more: Any) -> None:
    tell({"sessionUpdate": "tool_call_update", "toolCallId": "call-1", "status": status, **more})


def tell(update: Message) -> None:
    send({"method": "session/update", "params": {"sessionId": SESSION, "update": update}})


def answer(message: Message, result: Message) -> None:
    send({"id": message["id"], "result": result})


def send(message: Message) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0"} | message) + "\n")
    sys.stdout.flush()


ANSWERS: dict[str, Callable[[Message], None]] = {
    "initialize": initialize,
    "session/new": begin,
    "session/load": load,
    "session/set_model": set_model,
    "session/prompt": prompt,
}

if __name__ == "__main__":
    main()
