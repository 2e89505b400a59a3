"""An MCP server on stdin and stdout, with one tool: `ask_human` answers every question with HERON."""

from __future__ import annotations

import json
import sys
from typing import Any

ASKED = {"question": {"type": "string"}}
TOOL = {"name": "ask_human", "description": "Ask a person.", "inputSchema": {"type": "object", "properties": ASKED}}


def result(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    match method:
        case "initialize":
            who = {"name": "standin", "version": "1"}
            return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": who}
        case "tools/list":
            return {"tools": [TOOL]}
        case "tools/call":
            return {"content": [{"type": "text", "text": f"HERON: {params['arguments']['question']}"}]}
        case _:
            return None


def main() -> None:
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" in asked:
            found = result(asked["method"], asked.get("params") or {})
            unknown = {"error": {"code": -32601, "message": "no such method"}}
            answer = {"result": found} if found is not None else unknown
            print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer}), flush=True)


if __name__ == "__main__":
    main()
