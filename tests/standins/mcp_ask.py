"""A server of the Model Context Protocol with one tool, `ask_human`, that answers at once: on stdin and stdout.

Standard library only. The answer says which task it was asked for, which it knows from its environment.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

TOOL = {
    "name": "ask_human",
    "description": "Asks a person.",
    "inputSchema": {"type": "object", "properties": {"question": {"type": "string"}}, "required": ["question"]},
}


def result(request: dict[str, Any]) -> dict[str, Any]:
    match request["method"]:
        case "initialize":
            version = request["params"]["protocolVersion"]
            return {
                "protocolVersion": version,
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "x", "version": "1"},
            }
        case "tools/list":
            return {"tools": [TOOL]}
        case "tools/call":
            asked = request["params"]["arguments"]["question"]
            text = f"The answer to {asked!r} of {os.environ.get('FLEET_TASK_ID')} is CORMORANT."
            return {"content": [{"type": "text", "text": text}]}
        case _:
            return {}


for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result(asked)}), flush=True)
