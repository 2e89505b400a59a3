"""What people see on a real terminal: captured from tmux with its colours, and kept as text beside this test.

A screen that changed on purpose: FLEET_SCREENS=write pytest tests/flow/test_screens.py, then look at the difference.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from standins.coders.scratch import scratch, until
from standins.evening_home import Evening, evening

KEPT = Path(__file__).parent / "screens"
CLOCK = re.compile(r"\d\d:\d\d:\d\d")
DAY = re.compile(r"20\d\d-\d\d-\d\d")
PROCESS = re.compile(r"process \d+")
HOURS = re.compile(r"(\d+h)\d\dm")
TODAY = re.compile(r"(cost today: ).*")
MINUTE = re.compile(r"\d\d:\d\d(?!:)")
SINCE = re.compile(r"running \S+:")
OVER = "all''over"

pytestmark = pytest.mark.tmux


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Evening]:
    with scratch(tmp_path_factory.mktemp("screens")) as home, evening(home) as made:
        yield made


@pytest.fixture(scope="module")
def see(night: Evening) -> Iterator[Callable[..., str]]:
    """What a command leaves on a terminal of this size, with its escapes."""
    socket = night.scratch.root / "tmux"
    (night.scratch.root / "tmux.conf").write_text("set -g status off\n")

    def tmux(*words: str) -> str:
        argv = ["tmux", "-S", str(socket), "-f", str(night.scratch.root / "tmux.conf"), *words]
        return subprocess.run(argv, capture_output=True, text=True, check=True, env=night.scratch.env).stdout

    tmux(
        "new-session", "-d", "-s", "base", "cat"
    )  # without a session the server ends, and the next one comes too early

    def look(command: str, width: int, height: int, shows: str = "allover") -> str:
        line = f"PS1= ; clear; {sys.executable} -m fleet {command}; printf {OVER}; read _"
        size = ("-x", str(width), "-y", str(height))
        tmux("new-session", "-d", "-s", "screen", *size, "-c", str(night.scratch.root), "sh", "-c", line)
        try:
            until(lambda: shows in tmux("capture-pane", "-p", "-t", "screen"))
            return tmux("capture-pane", "-e", "-p", "-t", "screen")
        finally:
            tmux("kill-session", "-t", "screen")

    yield look
    subprocess.run(["tmux", "-S", str(socket), "kill-server"], capture_output=True, check=False)


def same_for_everybody(screen: str, night: Evening) -> str:
    """The screen without what differs from day to day and from machine to machine."""
    text = screen.replace(str(night.scratch.home), "HOME").replace(str(night.scratch.root), "ROOT")
    text = SINCE.sub("running 2h6m:", HOURS.sub(r"\g<1>10m", text))
    text = MINUTE.sub("10:00", TODAY.sub(r"\1$0.96", text))
    text = PROCESS.sub("process N", DAY.sub("2026-11-19", CLOCK.sub("10:00:00", text)))
    return text.rstrip() + "\n"


def compare(name: str, screen: str) -> None:
    path = KEPT / f"{name}.txt"
    written = screen.replace("\x1b", "␛")
    if os.environ.get("FLEET_SCREENS") == "write":
        path.write_text(written)
    assert written == path.read_text(), f"{name} looks different"


SIZES = [(80, 24), (160, 50)]


@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.parametrize(
    ("name", "command", "shows"),
    [
        ("tasks", "tasks", "allover"),
        ("live", "tasks --watch", "TITLE"),
        ("status", "status", "allover"),
        ("morning", "status --since yesterday", "allover"),
    ],
)
def test_the_screens(
    night: Evening, see: Callable[..., str], name: str, command: str, shows: str, width: int, height: int
) -> None:
    screen = same_for_everybody(see(command, width, height, shows), night)
    compare(f"{name}-{width}x{height}", screen)
    assert all(word in screen for word in ("asks you", "refused", "wait", "$"))


def test_figures_agree_wherever_they_are_shown(night: Evening) -> None:
    home = night.scratch
    cost = home.ok("cost", "--json").json()
    total, by_task = cost["total"], {line["name"]: line for line in cost["rows"]}
    rows = home.tasks()
    assert (total["cost"], total["unknown"]) == (1.08, 1)
    for line in by_task.values():
        row = rows[line["name"]]
        assert (row["cost"], row["tokens"], row["cost_unknown"]) == (line["cost"], line["tokens"], line["unknown"])
    assert (rows["t8"]["attempts"], rows["t8"]["cost"], rows["t8"]["cost_unknown"]) == (2, 0.12, 1)
    work = home.ok("status", "--json", "--since", "yesterday").json()["work"]
    assert (work["sums"]["cost"], work["sums"]["unknown"]) == (total["cost"], total["unknown"])
    assert work["sums"]["counts"]["done"] == len(work["done"]) == 3
    since_run = home.ok("status", "--json").json()["work"]
    assert since_run["since"] == pytest.approx(night.now - 3 * 3600, abs=1)
    assert (since_run["done"], since_run["next"]) == ([], "fleet answer t7 TEXT")
    assert [row["id"] for row in since_run["needs_you"]] == ["t7", "t8", "t9"]
    assert home.ok("cost", "--json", "--since", "run").json()["since"] == pytest.approx(since_run["since"], abs=1)


def test_json_keeps_the_old_state_beside_the_one_that_is_shown(night: Evening) -> None:
    rows = night.scratch.tasks()
    shown = {
        name: (rows[name]["state"], rows[name]["shown"], rows[name]["group"]) for name in ("t7", "t8", "t10", "t14")
    }
    assert shown == {
        "t7": ("working", "asks you", "needs you"),
        "t8": ("refused", "refused", "needs you"),
        "t10": ("blocked", "waits", "queued"),
        "t14": ("blocked", "set aside", "queued"),
    }
    assert (rows["t8"]["next"], rows["t7"]["note"]) == (
        "fleet show t8 · retry · accept",
        "EUR or USD, when the column is empty?",
    )


def test_amounts_stand_below_one_another(night: Evening) -> None:
    heads, *rows = night.scratch.ok("cost").out.splitlines()
    ends = {found.end() for line in rows if (found := re.search(r"\$\d+\.\d\d\b", line))}
    assert ends == {heads.index("COST") + len("COST")}
    assert [line.split()[0] for line in rows if "+ 1 unknown" in line] == ["t8", "total"]
