"""Tell that an agent CLI has come to its prompt, for one that has no hook for it: an MCP server without any tool.

Run as: python -I -S herald.py <the command that notes down what it is told ...>

It is a program, not a module. An agent CLI starts its MCP servers with its session, when it has asked all that it asks
before: so whoever is greeted by it knows that it is ready. It stays until its input ends, as such servers do.
"""

from __future__ import annotations

import json
import os
import sys

READY = {"hook_event_name": "SessionStart", "source": "herald"}
UNKNOWN = {"code": -32601, "message": "no such method"}


def main(tell: list[str]) -> None:
    while line := sys.stdin.buffer.readline():
        try:
            asked = json.loads(line)
        except ValueError:
            continue
        if isinstance(asked, dict):
            _hear(asked, tell)


def _hear(asked: dict[str, object], tell: list[str]) -> None:
    if asked.get("method") == "notifications/initialized":
        os.spawnv(os.P_WAIT, tell[0], [*tell, json.dumps(READY)])  # noqa: S606 - no shell is the point
    elif "id" in asked:
        answer = _answer(asked)
        reply = {"jsonrpc": "2.0", "id": asked["id"], **answer}
        sys.stdout.buffer.write(json.dumps(reply).encode() + b"\n")
        sys.stdout.buffer.flush()


def _answer(asked: dict[str, object]) -> dict[str, object]:
    match asked:
        case {"method": "initialize", "params": {"protocolVersion": version}}:
            server = {"name": "fleet", "version": "1"}
            return {"result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": server}}
        case {"method": "tools/list"}:
            return {"result": {"tools": []}}
        case {"method": "ping"}:
            return {"result": {}}
        case _:
            return {"error": UNKNOWN}


if __name__ == "__main__":
    main(sys.argv[1:])
