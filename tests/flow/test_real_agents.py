"""Claude Code, Codex and OpenCode, the real programs, at work under `fleet run`: only the model is scripted.

The agents of one run share a home and a supervisor. Each has an environment of its own, a HOME that belongs to nobody,
and the scripted model for its proxy: whoever wants to leave this machine is refused there, and seen.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import parts
from standins.agent_desk import MODELS, Desk, desk
from standins.agent_models import Answer, Mind, Reads, Refuse, results
from standins.coders.scratch import Ran
from standins.model_server import Asked, Say
from standins.work_models import (
    CLOSING,
    SECONDS,
    TOKENS,
    Gate,
    attempt_of,
    coder_of,
    commit,
    conversation,
    shell,
    works,
    write,
)

pytestmark = [pytest.mark.agents, pytest.mark.timeout(240)]

each = pytest.mark.parametrize("coder", list(MODELS))
TOOLS = {
    "claude": ["Write", "Bash"],
    "codex": ["command_execution", "command_execution"],
    "opencode": ["write", "bash"],
}
SECRET = "sk-that-only-the-supervisor-has"
WORDS = "Look for the PELICAN, and write down where it is."
CLAUDE_SETTINGS = '{\n  // A comment of my own.\n  "cleanupPeriodDays": 30, /* and another */\n}\n'
OWN_SETTINGS = (".claude/settings.json", ".codex/config.toml", ".config/opencode/opencode.json")


@dataclass(frozen=True)
class House:
    """A fleet home, and whoever works for it."""

    desk: Desk

    @property
    def home(self) -> Path:
        return self.desk.home / ".fleet"

    @property
    def env(self) -> dict[str, str]:
        """What the user has: the programs on the path, proxies, and a secret that is no agent's business."""
        own = self.desk.environment()
        path = os.pathsep.join([str(Path(sys.executable).parent), str(parts.find("bd").bin), own["PATH"]])
        proxies = {name: value for name, value in own.items() if name.lower().endswith("_proxy")}
        fixed = {"HOME": own["HOME"], "FLEET_HOME": str(self.home), "LANG": "C.UTF-8", "SOME_API_KEY": SECRET}
        return {"PATH": path} | proxies | fixed

    def fleet(self, *args: str, cwd: Path | None = None) -> Ran:
        argv, where = [sys.executable, "-m", "fleet", *args], cwd or self.desk.project
        done = subprocess.run(
            argv, cwd=where, env=self.env, stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS, check=False
        )
        ran = Ran(done.returncode, done.stdout.decode(), done.stderr.decode())
        assert ran.code == 0, f"{args}: {ran.err}{ran.out}"
        return ran

    def prepare(self, *settings: str) -> None:
        """Give each agent its environment, the way a user does."""
        own = {name: value for name, value in self.desk.environment().items() if name not in self.env}
        given = [f"coders.{coder}.env.{name}={value}" for coder in MODELS for name, value in own.items()]
        self.fleet("config", "set", *given, *settings)

    def add(self, coder: str, *options: str) -> str:
        """A task for this coder, in a repository of its own."""
        told = ["--coder", coder, "--model", MODELS[coder], "--json"]
        added = self.fleet("add", f"A task for {coder}", "-d", WORDS, *told, *options, cwd=self.repository(coder))
        return str(added.json()["id"])

    def settle_in(self) -> dict[str, bytes]:
        """The user's own settings, as they are once each agent has been used."""
        (self.desk.home / ".claude").mkdir()
        (self.desk.home / ".claude" / "settings.json").write_text(CLAUDE_SETTINGS)
        opencode = self.desk.home / ".config" / "opencode" / "opencode.json"
        schema = {"$schema": "https://opencode.ai/config.json"}  # OpenCode puts it there at its first start
        opencode.write_text(json.dumps(schema | json.loads(opencode.read_text())))
        return {name: (self.desk.home / name).read_bytes() for name in OWN_SETTINGS}

    def repository(self, name: str) -> Path:
        path = self.desk.project / name
        path.mkdir()
        (path / "README.md").write_text("# Empty\n")
        git(path, "init", "--quiet", "--initial-branch=main")
        git(path, "add", "README.md")
        git(path, "-c", "user.name=owner", "-c", "user.email=owner@fleet.invalid", "commit", "--quiet", "-m", "begin")
        return path

    def tasks(self) -> dict[str, dict[str, Any]]:
        return {row["id"]: row for row in self.fleet("tasks", "--all", "--json").json()}

    def history(self, task: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.fleet("show", task, "--json").json()["history"]
        return found

    def events(self, task: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.home / "tasks" / task / "events.jsonl").read_text().splitlines()]

    def asked(self, coder: str) -> list[Asked]:
        """What the model was asked by this coder, but for the titles that some ask for beside their work."""
        return [asked for asked in self.desk.model.asked if asked.tools and coder_of(asked) == coder]

    @contextmanager
    def supervisor(self) -> Iterator[subprocess.Popen[str]]:
        """`fleet run --drain`, which is ended if the test ends before it."""
        argv = [sys.executable, "-m", "fleet", "run", "--drain"]
        child = subprocess.Popen(
            argv,
            cwd=self.desk.project,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        with child:
            try:
                yield child
            finally:
                child.kill()
                if child.stdout is not None and not child.stdout.closed:
                    print(child.stdout.read())  # what it said is shown when the test fails

    def processes(self) -> dict[int, str]:
        """Everything that works for this home: its command line, and its environment."""
        found = {int(name): traces(int(name)) for name in os.listdir("/proc") if name.isdigit()}
        return {pid: text for pid, text in found.items() if str(self.desk.home) in text}

    def end_all(self) -> None:
        for pid in self.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def traces(pid: int) -> str:
    try:
        return "\0".join(Path(f"/proc/{pid}/{name}").read_text(errors="replace") for name in ("cmdline", "environ"))
    except OSError:
        return ""


def command_line(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")


def git(repository: Path, *args: str) -> str:
    argv, env = ["git", "-C", str(repository), *args], {"PATH": os.defpath, "HOME": str(repository)}
    return subprocess.run(argv, env=env, capture_output=True, text=True, check=True).stdout


def hear(pipe: Path, lines: int) -> None:
    """Until so many lines have come out of a pipe."""
    end, heard = os.open(pipe, os.O_RDWR), b""
    try:
        while heard.count(b"\n") < lines:
            assert select.select([end], [], [], SECONDS)[0], f"nothing came after {heard!r}"
            heard += os.read(end, 100)
    finally:
        os.close(end)


def drained(supervisor: subprocess.Popen[str]) -> str:
    """What a supervisor said to its end, which is a good one."""
    out, _ = supervisor.communicate(timeout=SECONDS)
    assert supervisor.returncode == 0, out
    return out


@contextmanager
def house(directory: Path, mind: Mind) -> Iterator[House]:
    with desk(directory, mind) as where:
        made = House(where)
        try:
            yield made
        finally:
            made.end_all()


@dataclass(frozen=True)
class Worked:
    """One run of all three coders, on the embedded tracker: the first attempt of each fails its task's check."""

    house: House
    ids: dict[str, str]
    rows: dict[str, dict[str, Any]]
    seen: dict[int, tuple[str, str]]  # of every process while the agents worked: command line, and all of its traces
    settings: dict[str, bytes]  # the user's own files, before

    def attempts(self, coder: str) -> list[dict[str, Any]]:
        return self.house.history(self.ids[coder])

    def events(self, coder: str, number: int) -> list[dict[str, Any]]:
        task = self.ids[coder]
        return [event for event in self.house.events(task) if event["attempt"] == f"{task}.{number}"]

    def receipt(self, coder: str, number: int | None = None) -> Any:
        """Of one attempt; or what the task as a whole is left with."""
        if number is None:
            return self.house.fleet("task", self.ids[coder], "receipt").json()
        path = self.house.home / "tasks" / self.ids[coder] / "attempts" / str(number) / "receipt.json"
        return json.loads(path.read_text())


@pytest.fixture(scope="module")
def worked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worked]:
    gate = Gate()
    with house(tmp_path_factory.mktemp("worked"), gate.before(works)) as at:
        at.fleet("init", "--home-only")
        at.prepare("max_concurrent=3", "backoff=0s")
        own = at.settle_in()
        ids = {coder: at.add(coder, "--check", "test -e made-*.2.txt") for coder in MODELS}
        with at.supervisor() as supervisor:
            gate.wait(len(ids))
            seen = {pid: (command_line(pid), text) for pid, text in at.processes().items()}
            gate.open()
            drained(supervisor)
        yield Worked(at, ids, at.tasks(), seen, own)


def of(events: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [event for event in events if event["kind"] == kind]


@each
def test_an_agent_finishes_its_task(worked: Worked, coder: str) -> None:
    row = worked.rows[worked.ids[coder]]
    assert (row["state"], row["cause"], row["attempts"]) == ("done", "1 commit, 2 files changed", 2)
    assert (row["coder"], row["model"], row["branch"]) == (coder, MODELS[coder], "main")
    assert row["cwd"] == str(worked.house.desk.project / coder)


@each
def test_its_events_are_kept_as_they_were(worked: Worked, coder: str) -> None:
    for number in (1, 2):
        events = [event for event in worked.events(coder, number) if event["kind"] != "life_changed"]
        assert events[0]["kind"] == "session_started"
        assert events[0]["session"] == worked.rows[worked.ids[coder]]["session"]
        assert [event["tool"] for event in of(events, "tool_called")] == TOOLS[coder]
        assert [event["ok"] for event in of(events, "tool_ended")] == [True, True]
        assert [event["text"] for event in of(events, "said")] == [CLOSING]
        assert [event["ok"] for event in of(events, "result")] == [True]
        assert events[-1]["kind"] == "settled"
        assert any(event.get("usage") or event.get("total") for event in events)


@each
def test_what_it_used_and_what_came_of_it_is_in_its_receipt(worked: Worked, coder: str) -> None:
    repository = worked.house.desk.project / coder
    second, first, begin = git(repository, "log", "--format=%H").split()
    for number, base, head in ((1, begin, first), (2, first, second)):
        receipt, name = worked.receipt(coder, number), f"{worked.ids[coder]}.{number}"
        assert receipt["attempt"]["tools"] == {tool: TOOLS[coder].count(tool) for tool in TOOLS[coder]}
        assert receipt["attempt"]["tokens"] == 3 * TOKENS
        heard, program = receipt["heard"], receipt["program"]
        assert (heard["tools"], heard["calls"], heard["unmatched"]) == (receipt["attempt"]["tools"], 2, 0)
        assert any(f"made-{name}.txt" in command for command in heard["commands"])
        assert heard["words"] == CLOSING
        assert program["sha256"] == hashlib.sha256(Path(program["path"]).read_bytes()).hexdigest()
        assert (receipt["process"]["cause"], receipt["process"]["code"]) == ("exited", 0)
        assert (receipt["result"]["base"], receipt["result"]["head"]) == (base, head)
        assert receipt["result"]["commits"] == [{"id": head, "subject": f"{name} by {coder}"}]
        changes = [(one["path"], one["change"], one["added"]) for one in receipt["result"]["changes"]]
        assert (f"made-{name}.txt", "added", 1) in changes
        assert len(changes) == number, "what an earlier attempt did in the same place is a part of the result"
        assert receipt["result"]["uncommitted"] == []
        assert receipt["checks"][0]["passed"] is (number == 2)
    assert worked.receipt(coder) == worked.receipt(coder, 2)
    assert worked.attempts(coder)[-1] == worked.receipt(coder)["attempt"] | {"receipt": worked.receipt(coder)["hash"]}
    assert worked.house.fleet("verify", worked.ids[coder], "--no-run", "--json").json()["holds"] is True
    assert git(repository, "show", f"HEAD:made-{worked.ids[coder]}.2.txt") == f"made by {coder}\n"
    assert git(repository, "status", "--porcelain") == ""


@each
def test_a_cost_that_nobody_knows_is_not_zero(worked: Worked, coder: str) -> None:
    costs = [attempt["cost"] for attempt in worked.attempts(coder)]
    assert all(cost > 0 for cost in costs) if coder == "claude" else costs == [None, None]
    row = worked.rows[worked.ids[coder]]
    assert coder != "claude" or row["cost"] == pytest.approx(sum(costs)), "of all attempts"
    assert row["cost"] is None or row["cost"] > 0, "where the agent tells tokens, they are estimated as by fleet cost"


@each
def test_a_second_attempt_goes_on_with_the_session(worked: Worked, coder: str) -> None:
    first, second = worked.attempts(coder)
    assert (first["verdict"], first["cause"]) == ("retry", 'check "test -e made-*.2.txt" failed: exit 1')
    assert (first["resumed"], second["resumed"]) == (False, True)
    assert first["session"] == second["session"] is not None
    assert first["dispatched"] is not None
    assert second["dispatched"] is not None
    assert first["nonce"] != second["nonce"]
    assert coder != "claude" or first["session"] == first["nonce"], "it bears the name that it was given"
    began = [asked for asked in worked.house.asked(coder) if results(asked) == 0]
    assert [attempt_of(asked) for asked in began] == [first["id"], second["id"]]
    heard = conversation(began[1])
    cause = json.dumps('check "test -e made-*.2.txt" failed: exit 1')[1:-1]
    assert heard.index("PELICAN") < heard.index(CLOSING) < heard.rindex(cause)  # red before, too


@each
def test_what_a_session_used_is_counted_once(worked: Worked, coder: str) -> None:
    attempts = worked.attempts(coder)
    assert sum(attempt["tokens"] for attempt in attempts) == TOKENS * len(worked.house.asked(coder))
    (said,) = of(worked.events(coder, 2), "result")
    if coder != "opencode":  # which says nothing of a session as a whole
        assert said["total"]["prompt"] + said["total"]["completion"] == sum(attempt["tokens"] for attempt in attempts)
    if coder == "claude":
        assert said["cost"] == pytest.approx(sum(attempt["cost"] for attempt in attempts))


@each
def test_its_prompt_is_on_no_command_line_and_the_supervisors_secrets_are_not_its_own(
    worked: Worked, coder: str
) -> None:
    assert "PELICAN" in conversation(worked.house.asked(coder)[0])
    mark = f"FLEET_ATTEMPT={worked.ids[coder]}.1"
    agents = [(line, text) for line, text in worked.seen.values() if mark in text]
    assert any(coder in line for line, _ in agents)
    assert not [line for line, _ in worked.seen.values() if "PELICAN" in line or "A task for" in line]
    assert not [line for line, text in agents if SECRET in text]
    assert [line for line, text in worked.seen.values() if SECRET in text], "the supervisor's own environment is seen"


def test_no_settings_of_the_user_are_rewritten(worked: Worked) -> None:
    now = {name: (worked.house.desk.home / name).read_bytes() for name in OWN_SETTINGS}
    assert now == worked.settings


def test_nothing_leaves_this_machine_and_nothing_is_left_on_it(worked: Worked) -> None:
    assert worked.house.desk.strangers == []
    assert worked.house.processes() == {}


# With the real bd


@pytest.fixture(scope="module")
def tracked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[House, dict[str, str]]]:
    with house(tmp_path_factory.mktemp("tracked"), works) as at:
        at.fleet("init", "--home-only", "--tracker", "beads")
        at.prepare("max_concurrent=3")
        ids = {"claude": at.add("claude")}
        for coder in ("codex", "opencode"):
            words = ["--title", f"A task for {coder}", "-d", WORDS, "--coder", coder, "--model", MODELS[coder]]
            made = at.fleet("bd", "create", *words, "--silent", cwd=at.repository(coder))
            ids[coder] = made.out.strip()
        with at.supervisor() as supervisor:
            drained(supervisor)
        yield at, ids


@pytest.mark.bd
@each
def test_an_agent_finishes_a_task_of_bd(tracked: tuple[House, dict[str, str]], coder: str) -> None:
    at, ids = tracked
    (issue,) = at.fleet("bd", "show", ids[coder], "--json").json()
    assert (issue["status"], issue["close_reason"]) == ("closed", "1 commit, 1 file changed")
    (attempt,) = at.history(ids[coder])
    assert (attempt["verdict"], attempt["coder"], attempt["model"]) == ("accepted", coder, MODELS[coder])
    assert attempt["tokens"] == 3 * TOKENS
    receipt = at.fleet("task", ids[coder], "receipt").json()
    assert receipt["attempt"] | {"receipt": receipt["hash"]} == attempt
    head = git(at.desk.project / coder, "rev-parse", "HEAD").strip()
    assert receipt["result"]["commits"] == [{"id": head, "subject": f"{ids[coder]}.1 by {coder}"}]
    assert at.desk.strangers == []


@pytest.mark.bd
def test_bd_is_told_of_all_three_in_one_list(tracked: tuple[House, dict[str, str]]) -> None:
    at, ids = tracked
    rows = at.tasks()
    assert {rows[ids[coder]]["coder"] for coder in MODELS} == set(MODELS)
    assert {(row["state"], row["cause"], row["attempts"]) for row in rows.values()} == {
        ("done", "1 commit, 1 file changed", 1)
    }
    assert at.processes() == {}


# When something goes wrong


def refuses(asked: Asked) -> Answer:
    return Refuse(401, "authentication_error", "the key of this test is spent")


@pytest.mark.long
def test_what_a_provider_refused_is_the_cause_and_burns_no_attempt(tmp_path: Path) -> None:
    with house(tmp_path, refuses) as at:
        at.prepare()
        at.fleet("config", "set", "coders.claude.env.CLAUDE_CODE_MAX_RETRIES=0")
        ids = {coder: at.add(coder, "--attempts", "1") for coder in MODELS}
        at.fleet("run", "--once")
        rows = at.tasks()
        for task in ids.values():
            cause = rows[task]["cause"]
            assert rows[task]["state"] == "open"
            assert "the provider answered 401: " in cause
            assert "the key of this test is spent" in cause
            (attempt,) = at.history(task)
            assert (attempt["ending"], attempt["verdict"], attempt["status"]) == ("not logged in", "retry", 401)
            assert attempt["turned"] is False
            assert not attempt["tokens"]
            assert not attempt["cost"]


class Metered:
    """A provider whose five hours are over after one turn, for a few seconds; then it answers as before."""

    def __init__(self) -> None:
        self.resets = 0
        self.refused = 0

    def __call__(self, asked: Asked) -> Answer:
        if asked.tools and results(asked) == 1 and not self.resets:
            self.resets = int(time.time()) + 8
        if asked.tools and self.resets and time.time() >= self.resets:
            return shell("claude", commit("made-*.txt", "gone on with")) if results(asked) == 1 else Say(CLOSING)
        if not self.resets:
            return works(asked)
        self.refused += 1
        window, prefix = {"status": "rejected", "reset": str(self.resets)}, "anthropic-ratelimit-unified"
        told = {f"{prefix}-{name}": value for name, value in window.items()}
        told |= {f"{prefix}-5h-{name}": value for name, value in {"utilization": "1.0", **window}.items()}
        told[f"{prefix}-representative-claim"] = "five_hour"
        return Refuse(429, "rate_limit_error", "This would exceed your account's rate limit.", told)


@pytest.mark.long
def test_claude_waits_until_its_window_resets_and_goes_on_in_the_same_session(tmp_path: Path) -> None:
    """With a subscription, which is what tells of windows: a made-up token in an account of its own."""
    provider = Metered()
    with house(tmp_path, provider) as at:
        at.prepare()
        token = ("accounts.mine.env.CLAUDE_CODE_OAUTH_TOKEN=sk-of-this-test", "accounts.mine.env.ANTHROPIC_AUTH_TOKEN=")
        at.fleet("config", "set", "accounts.mine.coder=claude", *token)
        task = at.add("claude", "--attempts", "1")
        with at.supervisor() as supervisor:
            drained(supervisor)
        first, second = at.history(task)
        assert (first["ending"], first["verdict"], first["account"]) == ("rate limited", "retry", "mine")
        assert (second["verdict"], second["resumed"], second["turned"]) == ("accepted", True, True)
        assert second["session"] == first["session"]
        assert second["started"] >= provider.resets, "not before"
        (window,) = [one for one in at.fleet("quota", "--json").json() if one["window"] == "five_hour"]
        assert (window["account"], window["resets"], window["closed_until"]) == ("mine", provider.resets, None)
        said = (at.home / "tasks" / task / "log.jsonl").read_text()
        assert "account closed" in said
        assert "turn began" in said
        assert at.desk.strangers == []


def test_a_killed_supervisors_agent_is_adopted_and_asked_nothing_twice(tmp_path: Path) -> None:
    gate = Gate()
    with house(tmp_path, gate.before(works)) as at:
        at.prepare()
        task = at.add("claude")
        with at.supervisor() as first:
            gate.wait()
            first.kill()
            first.wait()
        agents = {pid for pid, text in at.processes().items() if f"FLEET_ATTEMPT={task}.1" in text}
        assert agents
        with at.supervisor() as second:
            assert second.stdout is not None
            assert any("agent adopted" in line for line in second.stdout)
            assert agents <= at.processes().keys()
            gate.open()
            drained(second)
        assert at.tasks()[task]["state"] == "done"
        (attempt,) = at.history(task)
        assert attempt["tools"] == {"Write": 1, "Bash": 1}
        assert [results(asked) for asked in at.asked("claude")] == [0, 1, 2]
        assert [event["session"] for event in of(at.events(task), "session_started")] == [attempt["session"]]
        assert len(git(at.desk.project / "claude", "log", "--format=%h").split()) == 2
        assert at.processes() == {}


@pytest.mark.long
def test_a_killed_agents_session_goes_on_and_its_tokens_are_not_taken_off_again(tmp_path: Path) -> None:
    gate = Gate()
    with house(tmp_path, gate.before(works, step=1)) as at:
        at.prepare("backoff=0s")
        task = at.add("claude")
        with at.supervisor() as supervisor:
            gate.wait()
            for pid, text in at.processes().items():
                if f"FLEET_ATTEMPT={task}.1" in text:
                    os.kill(pid, signal.SIGKILL)
            gate.open()
            drained(supervisor)
        killed, second = at.history(task)
        assert (killed["verdict"], killed["cause"]) == ("retry", "the agent was ended by signal 9")
        assert (killed["cost"], killed["tools"]) == (None, {"Write": 1})
        assert (second["verdict"], second["session"]) == ("accepted", killed["session"])
        assert second["tokens"] == 3 * TOKENS
        assert second["cost"] == pytest.approx(of(at.events(task), "result")[-1]["cost"])


@pytest.mark.long
def test_an_abort_in_the_middle_of_a_tool_call_leaves_nothing_alive(tmp_path: Path) -> None:
    started, never = tmp_path / "started", tmp_path / "never"
    os.mkfifo(started)
    os.mkfifo(never)
    waits = f"sh -c 'echo yes > {started}; read word < {never}'"
    command = f"(setsid {waits} &); {waits} & wait"  # one is the shell's own child, one nobody's

    def mind(asked: Asked) -> Answer:
        return Say("over") if results(asked) or not asked.tools else shell("claude", command)

    with house(tmp_path, mind) as at:
        at.prepare()
        task = at.add("claude")
        with at.supervisor() as supervisor:
            hear(started, 2)
            assert sum(command_line(pid).startswith("sh\0-c\0echo yes") for pid in at.processes()) == 2
            at.fleet("abort", task)
            drained(supervisor)
        assert at.processes() == {}
        row = at.tasks()[task]
        assert (row["state"], row["attempts"]) == ("cancelled", 1)
        assert [one["verdict"] for one in at.history(task)] == ["cancelled"]


@pytest.mark.long
def test_the_demonstration_can_be_had_with_the_real_claude_code(tmp_path: Path) -> None:
    """Its scratch home has no settings for an agent: what Claude Code needs is in the user's own, where it belongs."""
    with house(tmp_path, works) as at:
        own = {name: value for name, value in at.desk.environment().items() if name not in at.env}
        (at.desk.home / ".claude").mkdir()
        (at.desk.home / ".claude" / "settings.json").write_text(json.dumps({"env": own}))
        shown = at.fleet("demo", "--coder", "claude", "--json").json()
        assert [(row["coder"], row["state"], row["attempts"]) for row in shown["tasks"]] == [("claude", "done", 1)] * 3
        assert sorted(line.partition(" ")[2] for line in shown["commits"]) == [
            "fleet: begin",
            "scripted: t1.1 by claude",
            "scripted: t2.1 by claude",
            "scripted: t3.1 by claude",
        ]
        assert at.desk.strangers == []
        assert at.processes() == {}


# ---- limits


NOTES = "half of it is made; the PELICAN is in the harbour"


def climbs(asked: Asked) -> Answer:
    """Reads more with each request; interrupted, it writes its notes; and whoever finds notes finishes."""
    said = conversation(asked)
    if not asked.tools or "A costly task" in said:
        return spends(asked)
    if "your context is nearly full" in said:
        path = f"{artifacts_of(said)}/PLAN_AND_STATUS.md"
        return Reads(187_000, Say("Noted.") if results(asked) else write("claude", path, NOTES))
    if "ended because its context was full" not in said:
        return Reads((60_000, 150_000, 186_000)[results(asked)], shell("claude", LATER[results(asked)]))
    return (
        Say(CLOSING) if results(asked) else shell("claude", f"cat {artifacts_of(said)}/PLAN_AND_STATUS.md | tee made")
    )


LATER = ("echo one", "echo two", "tail -f /dev/null")


def artifacts_of(said: str) -> str:
    return str(re.findall(r'Artifact directory: ([^\s"\\]+)', said)[0])


def spends(asked: Asked) -> Answer:
    if not asked.tools:
        return Say("a title")
    number = results(asked)
    return Say(CLOSING) if number == 6 else Reads(20_000 * (number + 1), shell("claude", f"echo {number}"))


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[House, dict[str, str]]]:
    """Claude Code, once with a context that fills, once with little money."""
    with house(tmp_path_factory.mktemp("limited"), climbs) as at:
        at.prepare("backoff=0s", "coder=claude", f"model={MODELS['claude']}")
        full = at.fleet("add", "A long task", "-d", WORDS, "--json", cwd=at.repository("full")).json()["id"]
        costly = ["add", "A costly task", "--cost", "0.2", "--json"]
        ids = {"full": full, "costly": at.fleet(*costly, cwd=at.repository("costly")).json()["id"]}
        with at.supervisor() as supervisor:
            drained(supervisor)
        yield at, ids


@pytest.mark.long
def test_a_full_session_is_taken_up_once_more_to_write_its_notes(limited: tuple[House, dict[str, str]]) -> None:
    at, ids = limited
    task = ids["full"]
    first, second = at.history(task)
    assert (at.tasks()[task]["state"], first["ending"], first["handover"]) == ("done", "context full", "done")
    assert first["cause"] == "its context was 93 % full (of 200k tokens, according to fleet's default)"
    turns = [conversation(asked) for asked in at.asked("claude") if task in conversation(asked)]
    (last,) = [said for said in turns if "your context is nearly full" in said and "Noted" not in said][-1:]
    assert "PELICAN" in last.partition("your context is nearly full")[0], "it is the same session"
    assert (second["resumed"], second["context_from"]) == (False, "the agent")
    assert second["session"] != first["session"]
    assert NOTES in turns[-1], "and the next one has read its notes"
    assert "your context is nearly full" not in turns[-1]
    assert first["tokens"] == 60_000 + 150_000 + 186_000 + 2 * 187_000 + 5 * 5
    assert first["cost"] > 0


@pytest.mark.long
def test_what_a_task_may_cost_is_kept_by_the_agent_itself(limited: tuple[House, dict[str, str]]) -> None:
    at, ids = limited
    row, (attempt,) = at.tasks()[ids["costly"]], at.history(ids["costly"])
    assert (row["state"], row["attempts"]) == ("failed", 1)
    assert (attempt["ending"], attempt["verdict"]) == ("cost limit", "failed")
    said = row["cause"].replace(", estimated", "")  # which is heard first, unless its own word comes with it
    assert said.startswith("$0.35 spent (limit cost $0.20, set by the task); your turn (1 try): ")
    assert len([asked for asked in at.asked("claude") if "A costly task" in conversation(asked)]) == 3
