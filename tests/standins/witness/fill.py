"""Puts many tasks in the queue of $FLEET_HOME, each by `fleet add`, in one process: ten thousand would take an hour.

One JSON object a line on stdin: the title, and options by their names. One id a line on stdout.
"""

from __future__ import annotations

import io
import json
import sys
from contextlib import redirect_stdout

from fleet.cli import main

for line in sys.stdin:
    given = json.loads(line)
    title = given.pop("title")
    options = [word for name, value in given.items() for word in (f"--{name}", str(value))]
    with redirect_stdout(io.StringIO()) as said:
        code = main(["add", "--json", *options, "--", title])
    if code:
        sys.exit(code)
    print(json.loads(said.getvalue())["id"])
