"""Prints what no reader should choke on, then one honest line. usage: poison.py MEGABYTES SECONDS"""

import json
import os
import sys
import time

MEGABYTES, SECONDS = int(sys.argv[1]), float(sys.argv[2])
CHUNK = b"x" * (1 << 20)


def put(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


def said(text: str, *more: object) -> bytes:
    message = {"role": "assistant", "content": [{"type": "text", "text": text}, *more]}
    return json.dumps({"type": "assistant", "message": message}).encode() + b"\n"


put(said("the first"))
put(b'{"type": "assistant", "text": "')
for _ in range(MEGABYTES):
    put(CHUNK)
put(b"\n")
put(b"\xff\xfe\x80 not utf-8 \xc3\x28\n")
put(b"\0" * 5000 + b"\n")
put(b'{"type": "assistant", "message": {"role": \n')
put(b"[" * 100_000 + b"\n" + b'{"a":' * 100_000 + b"\n")
put(b'{"type": "result", "total_cost_usd": 1e999, "usage": {"input_tokens": -1, "output_tokens": 1e400}}\n')
put(b'{"type": ["assistant"], "message": 7}\n"just text"\n17\nnull\n')
put(said("\ud800 \0 \x1b[2J"))
put(said("in the middle"))
line, end, sent, began = said("y" * 2000), time.monotonic() + SECONDS, 0, time.monotonic()
block = line * 500
while time.monotonic() < end:
    put(block)
    sent += len(block)
    time.sleep(max(0.0, began + sent / 50e6 - time.monotonic()))
put(said("the very last", {"type": "tool_use", "id": "1", "name": "Write", "input": {}}))
with open(os.environ["FLEET_ATTEMPT"] + ".done", "w") as file:
    file.write(str(sent))
put(json.dumps({"type": "result", "subtype": "success", "is_error": False, "result": "all said"}).encode())
