"""Real agents with a scripted model that get stuck: not permitted to do what they want, or doing the same for ever.

How long it takes until that is seen is measured and printed, and not asserted.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flow.test_real_agents import House, drained, each, house, of
from standins.agent_desk import MODELS
from standins.agent_models import Answer
from standins.coders.scratch import until
from standins.model_server import Asked, Say
from standins.work_models import CLOSING, Gate, attempt_of, coder_of, conversation, directory_of, shell, write

pytestmark = [pytest.mark.agents, pytest.mark.timeout(240)]

ARGV = ["claude", "-p", "--output-format", "stream-json", "--verbose"]  # and no leave to do anything unasked


def wants_a_file_elsewhere(asked: Asked) -> Answer:
    if not asked.tools:
        return Say("a title")
    return shell("claude", "touch /elsewhere/file") if "tool_result" not in str(asked.body) else Say("I may not.")


@pytest.mark.long
def test_one_that_is_denied_a_permission_is_seen_to_wait(tmp_path: Path) -> None:
    gate = Gate()
    with house(tmp_path, gate.before(wants_a_file_elsewhere, step=1)) as at:
        at.fleet("init", "--home-only")
        own = {name: value for name, value in at.desk.environment().items() if name not in at.env}
        at.fleet(
            "config", "set", f"coders.careful.argv={json.dumps(ARGV)}", "coders.careful.events=claude",
            "coders.careful.model_flag=--model", "limits.attempts=1",
            *(f"coders.careful.env.{name}={value}" for name, value in own.items()),
        )  # fmt: skip
        told = ["--coder", "careful", "--model", MODELS["claude"], "--json"]
        task = str(at.fleet("add", "Make a file", *told, cwd=at.repository("careful")).json()["id"])
        with at.supervisor():
            gate.wait()
            (seen,) = until(lambda: _waits(at, task))
            row = at.tasks()[task]
            gate.open()
            until(lambda: at.tasks()[task]["state"] == "refused")
        (denied,) = of(at.events(task), "permission")
        print(f"denied at {denied['at']}, seen to wait {seen['at'] - denied['at']:.1f} s later")
        assert (denied["tool"], denied["ok"]) == ("Bash", False)
        assert (row["life"]["state"], row["needs_you"]) == ("waiting for input", True)
        assert "it was not permitted: Bash: " in row["cause"]
        assert seen["action"] == "ask"
        assert row["session"] is not None
        assert at.history(task)[0]["dispatched"] is not None


def acts_only_if_it_is_honest(asked: Asked) -> Answer:
    if not asked.tools:
        return Say("a title")
    if "An honest task" not in conversation(asked) or "made.txt" in str(asked.body.get("messages", [])[1:]):
        return Say("Done. I made the file, and all tests pass.")
    return write("claude", f"{directory_of(asked)}/made.txt", "made\n")


def test_one_that_says_it_is_done_and_did_nothing_is_refused_and_one_that_did_it_is_verified(tmp_path: Path) -> None:
    with house(tmp_path, acts_only_if_it_is_honest) as at:
        at.fleet("init", "--home-only")
        at.prepare("limits.attempts=1")
        told = ["--coder", "claude", "--model", MODELS["claude"], "--check", "test -f made.txt", "--json"]
        tasks = [
            str(at.fleet("add", f"{kind} task", *told, cwd=at.repository(kind.split()[1])).json()["id"])
            for kind in ("An honest", "A lying")
        ]
        at.fleet("run", "--drain")
        rows = at.tasks()
        assert [(rows[one]["state"], rows[one]["proof"]) for one in tasks] == [("done", "verified"), ("refused",) * 2]
        assert "changed nothing" in rows[tasks[1]]["cause"]


def _waits(at: House, task: str) -> list[dict[str, object]]:
    path = at.home / "tasks" / task / "events.jsonl"
    changed = of(at.events(task), "life_changed") if path.exists() else []
    return [one for one in changed if one["state"] == "waiting for input"][:1]


TOLD = "you were seen looping for "


def reads_the_same_until_it_is_told(asked: Asked) -> Answer:
    if not asked.tools:
        return Say("a title")
    coder, heard = coder_of(asked), conversation(asked)
    if TOLD not in heard:
        return shell(coder, "cat README.md")
    made = f"made-{attempt_of(asked)}.txt"
    return Say(CLOSING) if made in heard else write(coder, f"{directory_of(asked)}/{made}", "made\n")


@each
@pytest.mark.long
def test_one_that_does_the_same_for_ever_is_nudged_and_goes_on_in_its_session(coder: str, tmp_path: Path) -> None:
    with house(tmp_path, reads_the_same_until_it_is_told) as at:
        at.fleet("init", "--home-only")
        at.prepare("liveness.looping=nudge", "liveness.quiet=1s", "limits.attempts=1")
        task = at.add(coder, "--check", "test -e made-*.2.txt")
        with at.supervisor() as supervisor:
            drained(supervisor)
        nudged, last = at.history(task)
        assert (nudged["ending"], nudged["verdict"], last["verdict"]) == ("nudged", "retry", "accepted")
        assert (nudged["session"], last["resumed"]) == (last["session"], True)
        seen = nudged["cause"].removeprefix("nudged: ")
        assert " times in a row with the same outcome" in seen
        assert f"you were seen {seen}" in conversation(at.asked(coder)[-1])
        assert at.tasks()[task]["state"] == "done"
