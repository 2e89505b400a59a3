"""Puts many tasks in the queue of $FLEET_HOME: one JSON object a line on stdin, one id a line on stdout."""

from __future__ import annotations

import json
import sys

from fleet.app.tasks import Desk, add
from fleet.core.work import NewTask, Spec


def main() -> None:
    desk = Desk.open()
    for line in sys.stdin:
        given = json.loads(line)
        print(add(desk, NewTask(given.pop("title")), Spec(**given)).id)


main()
