"""Limits and full contexts, through the real program: what an agent is ended for, what is said, and who goes on."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from fleet.core.work import Ending
from fleet.evidence.ledger import Ledger
from standins.coders.scratch import HERE, Record, Scratch, Supervisor, scratch, until

FLEET_YAML = """\
project: {name: limited}
nodes: {only: {endpoint: "http://127.0.0.1:9"}}
models: {m: {node: only, ollama_model: "demo:7b", litellm_alias: x}}
agents: {a: {model: m, description: does things}}
"""
FILLS = {
    "argv": [str(HERE / "fills")],
    "events": "jsonl",
    "context_limit": 1000,
    "resume_flag": "--resume",
}
STAYS = "exec sleep 100000"
FAILS_FIRST = f'[ "${{FLEET_ATTEMPT##*.}}" = 1 ] && exit 3; {STAYS}'
SAYS_DONE = """echo '{"kind":"result","ok":true,"total":{"prompt":2400,"completion":100}}'"""


def spends(times: int, then: str) -> Record:
    argv = [str(HERE / "spends")]
    return {"argv": argv, "events": "jsonl", "env.SPENDS": str(times), "env.SPENDS_THEN": then}


@dataclass
class Night:
    home: Scratch
    ids: dict[str, str]
    said: list[Record]
    rows: dict[str, Record]

    def row(self, name: str) -> Record:
        return self.rows[self.ids[name]]

    def outcome(self, name: str) -> tuple[str, int, str]:
        row = self.row(name)
        return row["state"], row["attempts"], row["cause"].partition("; your turn (")[0]

    def history(self, name: str) -> list[Record]:
        history: list[Record] = self.home.shown(self.ids[name])["history"]
        return history

    def kept(self, name: str, what: str) -> str:
        return self.home.artifact(self.ids[name], what).read_text()

    def heard(self, event: str, name: str) -> list[Record]:
        return [one for one in self.said if one["event"] == event and one.get("task") == self.ids[name]]


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Night]:
    """Every limit at once, each with an agent that reaches it."""
    with scratch(tmp_path_factory.mktemp("night")) as home:
        home.settle(
            "coder=ok", "model=", "max_concurrent=12", "backoff=0s",
            coders={
                "ok": {}, "fills": FILLS, "quiet": {"events": "jsonl", "resume_flag": "--resume"}, "silent": {},
                "forgets": {name: value for name, value in FILLS.items() if name != "resume_flag"},
                "spends": spends(4, STAYS), "fails": spends(3, FAILS_FIRST), "finishes": spends(1, SAYS_DONE),
                "mutters": {}, "asks": {"argv": [str(HERE / "mutters")], "events": "jsonl", "env.MUTTERS": "ask"},
            },
        )  # fmt: skip
        project = home.place("project")
        (project / "fleet.yaml").write_text(FLEET_YAML + "limits: {cost: 0.75, tokens: none}\n")
        wanted = {
            "full": ("fills",),
            "full, and cannot resume": ("forgets",),
            "tokens": ("spends", "--tokens", "2k"),
            "tokens of all attempts": ("fails", "--tokens", "2k"),
            "used up": ("finishes", "--tokens", "2k", "--check", "false"),
            "silent": ("silent", "--silence", "1s", "--attempts", 1),
            "silent once": ("quiet", "--silence", "1s"),
            "mutters": ("mutters", "--silence", "4s"),
            "asks": ("asks", "--silence", "2s"),
            "cannot be kept": ("ok", "--tokens", "2k", "--cost", "$5"),
        }
        tasks = {name: ("--cwd", home.place(f"p{n}"), "--coder", *how) for n, (name, how) in enumerate(wanted.items())}
        ids = home.add_all(tasks | {"cost": ("--cwd", project, "--coder", "spends")})
        said = home.drain()
        yield Night(home, ids, said, home.tasks())


def test_a_task_that_uses_too_many_tokens_is_ended_and_not_tried_again(night: Night) -> None:
    cause = "2k tokens (limit tokens 2k, set by the task)"
    assert night.outcome("tokens") == ("failed", 1, cause)
    (attempt,) = night.history("tokens")
    assert (attempt["ending"], attempt["verdict"], attempt["limits"]["tokens"]) == ("token limit", "failed", 2000)
    (told,) = night.heard("agent ended", "tokens")
    assert (told["ending"], told["cause"]) == ("token limit", cause)


def test_tokens_are_those_of_all_attempts_together(night: Night) -> None:
    state, attempts, cause = night.outcome("tokens of all attempts")
    assert (state, attempts, cause) == ("failed", 2, "3k tokens (limit tokens 2k, set by the task)")
    assert [one["ending"] for one in night.history("tokens of all attempts")] == ["crashed", "token limit"]


def test_a_task_that_has_used_up_its_limit_is_not_started_again(night: Night) -> None:
    cause = "2.5k tokens (limit tokens 2k, set by the task); used by earlier attempts"
    assert night.outcome("used up") == ("failed", 2, cause)
    first, second = night.history("used up")
    assert (first["cause"], second["started"], second["tokens"]) == ('check "false" failed: exit 1', None, None)
    assert len(night.heard("agent started", "used up")) == 1


def test_a_project_limits_what_its_tasks_cost(night: Night) -> None:
    assert night.outcome("cost") == ("failed", 1, "$1.00 spent (limit cost $0.75, set by fleet.yaml)")


def test_an_agent_that_says_nothing_for_too_long_has_failed(night: Night) -> None:
    cause = "silent for 1s (limit silence, set by the task)"
    assert night.outcome("silent") == ("failed", 1, cause)
    assert night.history("silent")[0]["ending"] == "silent"


def test_one_that_was_silent_is_taken_up_again_and_told_why(night: Night) -> None:
    assert night.outcome("silent once")[:2] == ("done", 2)
    assert night.history("silent once")[1]["resumed"]
    assert "silent for 1s (limit silence" in night.kept("silent once", f"prompt.{night.ids['silent once']}.2")


def test_half_a_line_is_not_silence_and_neither_is_waiting_for_a_person(night: Night) -> None:
    assert night.outcome("mutters")[:2] == ("done", 1)
    assert night.outcome("asks")[:2] == ("done", 1)
    assert night.history("asks")[0]["asking"] is None


def test_a_limit_that_cannot_be_kept_is_said_not_to_be(night: Night) -> None:
    assert night.outcome("cannot be kept")[:2] == ("done", 1)
    told = {one["limit"]: one["text"] for one in night.heard("limit not kept", "cannot be kept")}
    assert told == {"tokens": "ok does not tell its tokens while it works", "cost": "ok does not tell its cost"}
    task = night.ids["cannot be kept"]
    events = [json.loads(line) for line in night.home.ok("task", task, "events").out.splitlines()]
    assert [one["limit"] for one in events if one["kind"] == "limit_not_kept"] == ["tokens", "cost"]
    shown = night.home.ok("show", task).out
    assert "tokens:    unknown of 2k, set by the task; not kept: ok does not tell its tokens while it works\n" in shown
    assert "cost:      unknown of $5.00, set by the task; not kept: ok does not tell its cost\n" in shown
    assert not night.heard("limit not kept", "tokens")


def test_a_full_context_is_handed_over_once_and_the_next_attempt_has_the_notes(night: Night) -> None:
    task = night.ids["full"]
    assert night.outcome("full")[:2] == ("done", 2)
    first, second = night.history("full")
    cause = "its context was 95 % full (of 1k tokens, according to runtime.toml)"
    assert (first["ending"], first["verdict"], first["cause"], first["handover"]) == (
        "context full",
        "retry",
        cause,
        "done",
    )
    assert night.kept("full", "turns").split() == [f"{task}.1", f"{task}.1.again", f"{task}.2"]
    assert (second["resumed"], second["session"], second["handover"]) == (False, f"session-{task}.2", None)
    assert (night.home.root / "p0" / "work.txt").read_text() == f"half of it, by {task}.1\n"
    handover, prompt = night.kept("full", f"prompt.{task}.1.again"), night.kept("full", f"prompt.{task}.2")
    assert "PLAN_AND_STATUS.md up to date" in handover
    assert "Title: " not in handover
    assert "ended because its context was full" in prompt
    assert "was not accepted" not in prompt
    assert first["tokens"] == 300 + 700 + 950 + 960 + 4 * 10, "what the handover used is counted"


def test_one_that_cannot_be_taken_up_again_is_ended_at_once(night: Night) -> None:
    assert night.outcome("full, and cannot resume")[:2] == ("done", 2)
    first, second = night.history("full, and cannot resume")
    assert (first["ending"], first["handover"], second["ending"]) == ("context full", None, "finished")
    task = night.ids["full, and cannot resume"]
    assert night.kept("full, and cannot resume", "turns").split() == [f"{task}.1", f"{task}.2"]


def test_how_full_each_context_was_is_shown_and_unknown_is_unknown(night: Night) -> None:
    shown = night.home.ok("show", night.ids["full"]).out
    first, second = [line for line in shown.splitlines() if line.startswith("attempt ")]
    assert "  context 96% of 1k  " in first
    assert "  context 10% of 1k  " in second
    assert "  context unknown  " in night.home.ok("show", night.ids["silent"]).out
    assert (night.row("full")["peak_context_pct"], night.row("silent")["peak_context_pct"]) == (10, None)


# ---- while it hands over


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Scratch]:
    with scratch(tmp_path) as made:
        made.settle("model=", "backoff=0s", coders={"fills": FILLS | {"env.FILLS_GATE": "1"}})
        yield made


def handing_over(home: Scratch, *args: str) -> tuple[str, Supervisor]:
    """A task whose session is about to write its notes."""
    task = home.add("fill up", "--coder", "fills", "--cwd", home.place("p"))
    supervisor = home.run(*args)
    until(home.artifact(task, "gate").exists)
    return task, supervisor


def test_a_handover_outlives_its_supervisor_and_is_done_once(home: Scratch) -> None:
    task, first = handing_over(home)
    row = home.task(task)
    assert (row["state"], row["attempts"]) == ("working", 1)
    assert "its session writes its notes" in row["cause"]
    first.stop(signal.SIGKILL)
    second = home.run("--drain")
    second.hear("agent adopted", task=task)
    home.open_gate(task)
    assert second.wait() == 0
    assert home.task(task)["state"] == "done"
    assert home.artifact(task, "turns").read_text().split() == [f"{task}.1", f"{task}.1.again", f"{task}.2"]
    assert [one["text"] for one in second.all("handed over")] == ["done"]


def test_a_task_is_aborted_while_it_hands_over(home: Scratch) -> None:
    task, supervisor = handing_over(home)
    home.ok("abort", task)
    supervisor.hear("settled", task=task, verdict="cancelled")
    assert home.agents() == []
    assert home.task(task)["state"] == "cancelled"


def test_a_handover_that_is_lost_changes_nothing_else(home: Scratch) -> None:
    task, supervisor = handing_over(home, "--drain")
    for pid in home.keepers():
        os.kill(pid, signal.SIGKILL)
    assert supervisor.wait() == 0
    first, second = home.shown(task)["history"]
    assert (first["ending"], first["handover"]) == ("context full", "lost: its keeper was killed")
    assert second["verdict"] == "accepted"
    assert (home.root / "p" / "work.txt").read_text() == "no notes\n"


def test_what_one_supervisor_decided_the_next_one_does(home: Scratch) -> None:
    """The first was killed after it wrote down why an agent is to end, and before it told the keeper."""
    home.settle("limits.attempts=1", coders={"waits": {}})
    task = home.add("wait", "--coder", "waits", "--cwd", home.place("w"))
    first = home.run()
    until(home.artifact(task, "gate").exists)
    until(lambda: home.task(task)["state"] == "working")
    first.stop(signal.SIGKILL)
    ledger = Ledger(home.home)
    ledger.save(replace(ledger.get(f"{task}.1"), ending=Ending.TOKENS, cause="2M tokens (limit tokens 2M)"))
    home.drain()
    assert (home.task(task)["state"], home.task(task)["note"]) == ("failed", "2M tokens (limit tokens 2M)")
    assert home.agents() == []


def test_a_built_in_coder_can_be_told_how_much_its_model_reads(tmp_path: Path) -> None:
    """Of some agent CLIs nobody tells the limit, so that their context is never full unless the user says it."""
    with scratch(tmp_path) as home:
        program = home.user / "bin" / "opencode"
        program.parent.mkdir()
        program.write_text("#!/bin/sh\ncat >/dev/null\necho made >made\n")
        program.chmod(0o755)
        home.env["PATH"] = f"{program.parent}:{home.env['PATH']}"
        home.settle("coder=opencode", "model=", "coders.opencode.context_limit=5000")
        task = home.add("one", "--cwd", home.place("here"))
        home.drain()
        (attempt,) = home.shown(task)["history"]
        assert (attempt["context_limit"], attempt["context_from"]) == (5000, "runtime.toml")
