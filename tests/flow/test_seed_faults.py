"""Every fault that was reproduced in the fleet this one grew from, and is not to be true of ours: one test a line.

Lines about the web, the bench and the real agents are elsewhere: what is here needs only stand-ins and, where it says
so, the real bd.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import parts
from standins.coders.scratch import HERE, TRANSCRIPTS, Scratch, alive, pids, scratch, until

FOLLOWS = """\
cat >"$FLEET_ARTIFACT_DIR/prompt.$FLEET_ATTEMPT"
case $FLEET_ATTEMPT in
    *.1) echo "## Q: which?" >>"$FLEET_ARTIFACT_DIR/Q&A.md"
         {bd} update "$FLEET_TASK_ID" --status blocked --notes "QUESTION: which?" || echo "so be it" ;;
    *)   echo "$FLEET_ATTEMPT" >>work.txt ;;
esac
"""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Scratch]:
    with scratch(tmp_path) as made:
        yield made


@pytest.fixture(scope="module")
def beads(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scratch]:
    """One home with the real beads for all, since making one takes bd many seconds."""
    with scratch(tmp_path_factory.mktemp("beads")) as made:
        made.env["PATH"] = f"{parts.find('bd').bin}:{made.env['PATH']}"
        made.ok("init", "--home-only", "--tracker", "beads")
        bd = f'cd "{made.home}" && bd'
        meddles = {"argv": [str(HERE / "meddles")]}
        made.settle(
            "coder=ok", "max_concurrent=3", "backoff=0s",
            coders={
                "ok": {},
                "closes": meddles | {"env.MEDDLES": f'{bd} close "$0" --force --reason "all done, trust me"'},
                "opens": meddles | {"env.MEDDLES": f'{bd} update "$0" --status open --assignee ""'},
                "follows": {"argv": ["/bin/sh", "-c", FOLLOWS.format(bd=bd)]},
            },
        )  # fmt: skip
        yield made


# ---- with the real beads


@pytest.mark.bd
def test_beads_many_tasks_go_through_few_slots_and_none_wedges(beads: Scratch) -> None:
    """It released under another actor than it claimed with; the exception killed the loop, and slots leaked."""
    place = beads.place("many")
    ids = [
        beads.add(f"task {n}", "--cwd", place, "--check", "true" if n % 2 else "false", "--attempts", 2)
        for n in range(5)
    ]
    said = beads.drain()
    rows = beads.tasks()
    assert [(rows[one]["state"], rows[one]["attempts"]) for one in ids] == [
        ("refused", 2), ("done", 1), ("refused", 2), ("done", 1), ("refused", 2),
    ]  # fmt: skip
    assert not [one for one in said if one["level"] != "info" and one["event"] != "engine said"]


@pytest.mark.bd
def test_beads_a_bd_that_fails_for_a_while_ends_no_loop_and_is_seen(beads: Scratch, tmp_path: Path) -> None:
    """One failed `bd` call ended the claim loop in silence."""
    broken = tmp_path / "broken"
    (tmp_path / "bin").mkdir()
    wrapper = tmp_path / "bin" / "bd"
    real = parts.find("bd").bin / "bd"
    wrapper.write_text(
        f'#!/bin/sh\n[ -e "{broken}" ] && {{ echo "the database is on fire" >&2; exit 1; }}\nexec "{real}" "$@"\n'
    )
    wrapper.chmod(0o755)
    task = beads.add("in spite of it", "--cwd", beads.place("spite"))
    broken.touch()
    supervisor = beads.run(env={"PATH": f"{tmp_path / 'bin'}:{beads.env['PATH']}"})
    assert "on fire" in supervisor.hear("tracker failed", level="error")["text"]
    broken.unlink()
    supervisor.hear("settled", task=task, verdict="accepted")
    assert supervisor.stop() == 0


def meddled(place: Path) -> str:
    """What came of it when the agent that works there meddled."""
    file = place / "meddled.txt"
    until(lambda: file.exists() and "exit" in file.read_text())
    return file.read_text()


@pytest.mark.bd
def test_beads_a_task_that_is_opened_while_its_agent_runs_is_not_started_again(beads: Scratch) -> None:
    """Eight agents worked on one task: it was open again, and nobody looked whether its agent still ran.

    An agent cannot open it any more, so somebody else does.
    """
    place = beads.place("opens")
    task = beads.add("opens", "--cwd", place, "--coder", "opens", "--attempts", 1)
    other = beads.add("meanwhile", "--cwd", beads.place("meanwhile"))
    supervisor = beads.run()
    said = meddled(place)
    assert ("an agent cannot change the queue" in said, said[-7:]) == (True, "exit 1\n")
    beads.ok("bd", "update", task, "--status", "blocked", "--notes", "QUESTION: which?")
    beads.ok("bd", "update", task, "--status", "open", "--assignee", "")
    supervisor.hear("settled", task=other)
    later = beads.add("and later", "--cwd", place)
    supervisor.hear("settled", task=later)
    assert (place / "witness.txt").read_text() == f"{task}.1\n"
    beads.open_gate(task, f"gate.{task}.1")
    supervisor.hear("settled", attempt=f"{task}.1")
    assert supervisor.stop() == 0


@pytest.mark.bd
def test_beads_a_question_is_answered_in_the_file_or_while_it_is_settled(beads: Scratch) -> None:
    """The agent would block its task itself, and is not let; a person edits the file and opens the task through bd.

    The other agent is answered between its end and its verdict, in the moment of the check.
    """
    places = beads.place("by hand"), beads.place("in between")
    check = f"{beads.waits_for_an_answer}; test -e work.txt"
    by_hand = beads.add("follows", "--cwd", places[0], "--coder", "follows")
    between = beads.add("follows", "--cwd", places[1], "--coder", "follows", "--check", check)
    supervisor = beads.run("--drain")
    beads.answer_in_its_check(between, "green")
    assert supervisor.wait() == 0
    rows = beads.tasks()
    assert (rows[by_hand]["state"], rows[by_hand]["cause"]) == ("blocked", "asks: which?")
    assert (rows[between]["state"], rows[between]["attempts"]) == ("done", 2)
    with beads.artifact(by_hand, "Q&A.md").open("a") as file:
        file.write("\n## A: 2026-05-03 14:10\n\ngreen\n")
    beads.ok("bd", "update", by_hand, "--status", "open", "--assignee", "")
    beads.drain()
    rows = beads.tasks()
    for task, place in zip((by_hand, between), places, strict=True):
        assert (rows[task]["state"], rows[task]["attempts"]) == ("done", 2)
        assert "Question 1: which?\n\nAnswer: green\n" in beads.artifact(task, f"prompt.{task}.2").read_text()
        assert (place / "work.txt").read_text() == f"{task}.2\n"


@pytest.mark.bd
def test_beads_an_agent_that_closes_its_own_task_is_not_believed(beads: Scratch) -> None:
    place = beads.place("closes")
    task = beads.add("closes", "--cwd", place, "--coder", "closes", "--attempts", 1, "--check", "false")
    supervisor = beads.run()
    said = meddled(place)
    assert ("an agent cannot change the queue" in said, said[-7:]) == (True, "exit 1\n")
    beads.ok("bd", "close", task, "--force", "--reason", "all done, trust me")  # as if it had got through
    beads.open_gate(task, f"gate.{task}.1")
    supervisor.hear("settled", task=task)
    assert supervisor.stop() == 0
    assert beads.task(task)["state"] == "refused"


# ---- two supervisors, and none


def test_of_many_supervisors_started_at_once_one_runs_and_every_task_once(home: Scratch) -> None:
    """Two supervisors ran every task twice: their actor name was constant."""
    home.settle("coder=ok", "max_concurrent=2", coders={"ok": {}})
    place = home.place("p")
    ids = [home.add(f"task {n}", "--cwd", place) for n in range(4)]
    with ThreadPoolExecutor(4) as pool:
        ran = list(pool.map(lambda _: home.fleet("run", "--drain"), range(4)))
    refused = [one for one in ran if one.code]
    assert len(refused) < len(ran)
    assert all("a supervisor already runs" in one.err for one in refused)
    home.drain()
    assert sorted((place / "work.txt").read_text().split()) == sorted(f"{task}.1" for task in ids)


def test_each_start_of_a_supervisor_has_a_name_of_its_own(home: Scratch) -> None:
    names = {home.drain()[0]["actor"] for _ in range(2)}
    assert len(names) == 2


def test_an_agent_that_opens_its_own_task_is_not_started_again_while_it_runs(home: Scratch) -> None:
    meddle = {"env.MEDDLES": 'fleet retry "$0"', "env.FLEET_HOME": str(home.home)}
    home.settle("coder=meddles", "max_concurrent=5", coders={"meddles": meddle, "ok": {}})
    place = home.place("p")
    task = home.add("meddles", "--cwd", place, "--attempts", 1)
    supervisor = home.run()
    said = meddled(place)
    assert ("an agent cannot change the queue" in said, said[-7:]) == (True, "exit 1\n")
    by_hand = home.fleet("retry", task)
    assert (by_hand.code, f"{task} is being worked on" in by_hand.err) == (1, True)
    other = home.add("another", "--cwd", place, "--coder", "ok")
    supervisor.hear("settled", task=other)
    assert (place / "witness.txt").read_text() == f"{task}.1\n"


def test_after_kill_9_of_the_supervisor_the_agent_is_taken_up_again(home: Scratch) -> None:
    """The agent lived on unwatched, and its task stayed in progress for ever."""
    home.settle("coder=waits", coders={"waits": {}, "ok": {}})
    place = home.place("p")
    running, ended = home.add("runs on", "--cwd", place), home.add("ends meanwhile", "--cwd", place)
    supervisor = home.run()
    for task in (running, ended):
        supervisor.hear("agent started", task=task)
        until(home.artifact(task, "gate").exists)
    supervisor.stop(signal.SIGKILL)
    home.open_gate(ended)
    until(lambda: (place / f"{ended}.txt").exists() and len(home.agents()) == 1)
    assert home.task(running)["cause"] == "no supervisor runs"
    again = home.run("--drain")
    again.hear("agent adopted", task=running)
    again.hear("settled", task=ended, verdict="accepted")
    home.open_gate(running)
    assert again.wait() == 0
    assert {(row["state"], row["attempts"]) for row in home.tasks().values()} == {("done", 1)}
    assert sorted((place / "witness.txt").read_text().split()) == sorted((f"{running}.1", f"{ended}.1"))


# ---- endings


def test_exit_0_without_effect_counts_and_comes_to_an_end(home: Scratch) -> None:
    """An agent that exits 0 and does nothing was started again without end."""
    home.settle("backoff=0s", coders={"lies": {"events": "claude"}})
    task = home.add("nothing", "--cwd", home.place("p", git=True), "--coder", "lies", "--check", "true")
    said = home.drain()
    assert len([one for one in said if one["event"] == "agent started"]) == 3
    row = home.task(task)
    assert (row["state"], row["cause"]) == (
        "refused",
        f"the agent exited with 0 and changed nothing; your turn (3 tries): fleet show {task} · retry · accept",
    )  # fmt: skip


def test_an_error_that_the_agent_reports_is_heard_even_with_exit_0(home: Scratch) -> None:
    """`is_error` was ignored."""
    home.settle("limits.attempts=1", coders={"errs": {"events": "claude"}})
    task = home.add("errs", "--cwd", home.place("p"), "--coder", "errs")
    home.drain()
    row = home.task(task)
    assert row["state"] == "failed"
    assert row["cause"].startswith("the agent exited with 0 and reported a failure: the model is on fire")


def test_an_agent_that_never_ends_is_ended_and_its_silence_is_seen_before(home: Scratch) -> None:
    """There was no timeout."""
    home.settle(coders={"silent": {}})
    task = home.add("silent", "--cwd", home.place("p"), "--coder", "silent", "--timeout", "3s", "--attempts", 1)
    supervisor = home.run("--drain")
    supervisor.hear("agent started", task=task)
    until(lambda: (home.task(task)["idle"] or 0) > 1)
    assert supervisor.wait() == 0
    row = home.task(task)
    assert (row["state"], "time limit" in row["cause"], row["idle"]) == ("failed", True, None)
    assert home.agents() == []


def test_a_background_child_that_holds_the_output_holds_no_slot_and_is_ended(home: Scratch) -> None:
    """`npm run dev &` leaked the slot for ever."""
    home.settle("max_concurrent=1", coders={"litters": {}})
    place = home.place("p")
    first, second = (home.add(f"litters {n}", "--cwd", place, "--coder", "litters") for n in range(2))
    home.drain()
    assert {row["state"] for row in home.tasks().values()} == {"done"}
    left = pids(place / "pids.txt")
    assert len(left) == 4
    assert not [pid for pid in left if alive(pid)]
    assert home.receipt(first)["process"]["leftovers"] == 2
    assert home.shown(second)["history"][0]["ending"] == "finished"


@pytest.mark.long
def test_abort_ends_the_whole_tree_however_deaf_it_is(home: Scratch) -> None:
    """Kill left grandchildren."""
    home.settle(coders={"stubborn": {}})
    place = home.place("p")
    task = home.add("stubborn", "--cwd", place, "--coder", "stubborn")
    supervisor = home.run()
    until(lambda: (place / "pids.txt").exists() and len(pids(place / "pids.txt")) == 2)
    started = pids(place / "pids.txt")
    assert all(map(alive, started))
    home.ok("abort", task)
    assert not [pid for pid in started if alive(pid)]
    supervisor.hear("settled", task=task, verdict="cancelled")


def test_graceful_stops_are_no_failures(home: Scratch) -> None:
    """Two graceful stops blocked a task as "retry limit exhausted"."""
    home.settle("limits.attempts=1", coders={"waits": {}})
    task = home.add("waits", "--cwd", home.place("p"), "--coder", "waits")
    for stop in range(3):
        supervisor = home.run()
        supervisor.hear("agent adopted" if stop else "agent started", task=task)
        assert supervisor.stop() == 0
    last = home.run("--drain")
    home.open_gate(task)
    assert last.wait() == 0
    assert (home.task(task)["state"], home.task(task)["attempts"]) == ("done", 1)


# ---- settings and words


def test_a_value_with_a_quote_breaks_nothing_and_nonsense_is_refused(home: Scratch) -> None:
    """A quote in `config set` made every later command crash; max_concurrent=-5 was accepted."""
    value = 'it\'s "quoted" \\ and # odd'
    home.ok("config", "set", f"model={value}")
    assert home.tasks() == {}
    task = home.add("x", "--cwd", home.place("p"))
    assert home.task(task)["model"] == value
    before = (home.home / "runtime.toml").read_bytes()
    for wrong in ("max_concurrent=-5", "max_concurrent=0", "max_concurrent=many", "no_such_key=1"):
        assert home.fleet("config", "set", wrong).code == 2, wrong
    assert (home.home / "runtime.toml").read_bytes() == before


def test_tool_calls_cost_and_context_are_seen_in_the_real_stream(home: Scratch) -> None:
    """`tool_use` sits inside assistant messages, `tool_result` inside user messages; cost was never read."""
    replays = {"argv": [str(HERE / "replays"), str(TRANSCRIPTS / "claude" / "works.jsonl")], "events": "claude"}
    home.settle(coders={"replays": replays, "counts": {"events": "jsonl", "context_limit": 10_000}})
    where = ("--cwd", home.place("p"), "--coder")
    task, counted = home.add("replayed", *where, "replays"), home.add("counted", *where, "counts")
    home.drain()
    row, attempt = home.task(task), home.shown(task)["history"][0]
    assert attempt["tools"] == {"Write": 1, "Bash": 1}
    kinds = [json.loads(line)["kind"] for line in home.ok("task", task, "events").out.splitlines()]
    assert (kinds.count("tool_called"), kinds.count("tool_ended")) == (2, 2)
    assert (row["cost"], row["session"]) == (0.00234, "efaff47a-d192-4fbe-bfd0-c27ab4dab58a")
    assert row["tokens"] > 0
    assert row["peak_context_pct"] is not None
    assert home.task(counted)["peak_context_pct"] == 25, "the limit that runtime.toml declares, for any coder"


# ---- where agents work, and what they are given


def test_the_users_own_agent_settings_are_never_written(home: Scratch) -> None:
    """It rewrote .claude/settings.json and erased permissions when that file had comments."""
    path = home.root / "bin"
    path.mkdir()
    (path / "claude").symlink_to(HERE / "replays")
    place = home.place("p")
    content = b'{\n  // mine\n  "permissions": {"deny": ["Bash(rm *)"]}\n}\n'
    settings = [home.user / ".claude" / "settings.json", place / ".claude" / "settings.json"]
    for file in settings:
        file.parent.mkdir()
        file.write_bytes(content)
    home.settle("limits.attempts=1", coders={})  # the built-in claude, which here is a stand-in
    home.add("with claude", "--cwd", place)
    home.drain(env={"PATH": f"{path}:{home.env['PATH']}"})
    assert [file.read_bytes() for file in settings] == [content, content]
    assert [sorted(os.listdir(file.parent)) for file in settings] == [["settings.json"], ["settings.json"]]


def test_a_missing_directory_is_not_made_and_a_corrupt_task_runs_nowhere(home: Scratch) -> None:
    home.settle("coder=ok", coders={"ok": {}})
    missing, corrupt = home.place("missing"), home.place("corrupt")
    first, second = home.add("missing", "--cwd", missing), home.add("corrupt", "--cwd", corrupt)
    missing.rmdir()
    (home.home / "tasks" / second / "task.json").write_bytes(b"\xff\xfe{")
    said = home.drain()
    assert not [one for one in said if one["event"] == "agent started"]
    assert not missing.exists()
    rows = home.tasks()
    assert {rows[first]["state"], rows[second]["state"]} == {"failed"}
    assert "does not exist" in rows[first]["cause"]
    assert "task.json" in rows[second]["cause"]
    assert not list(home.root.rglob("work.txt"))


@pytest.mark.parametrize("name", ["..", "../", "../../etc", "t1/../..", "/etc", ".", "", "t1\n", "-x"])
def test_nothing_outside_of_a_tasks_directory_is_read(home: Scratch, name: str) -> None:
    """`fleet task ../ plan` read outside."""
    (home.home / "artifacts").mkdir(parents=True)
    (home.home / "artifacts" / "PLAN_AND_STATUS.md").write_text("a secret")
    for command in (["task", "--", name, "plan"], ["show", "--", name], ["abort", "--", name], ["retry", "--", name]):
        ran = home.fleet(*command)
        assert ran.code in (2, 3), command
        assert "secret" not in ran.out + ran.err


def test_a_link_that_an_agent_planted_is_not_followed(home: Scratch) -> None:
    task = home.add("x", "--cwd", home.place("p"))
    (home.root / "secret").write_text("a secret")
    artifacts = home.home / "tasks" / task / "artifacts"
    artifacts.mkdir()
    (artifacts / "PLAN_AND_STATUS.md").symlink_to(home.root / "secret")
    os.mkfifo(artifacts / "KNOWLEDGE.md")
    for what in ("plan", "knowledge"):
        ran = home.fleet("task", task, what)
        assert (ran.code, ran.out) == (1, ""), what
    (artifacts / "PLAN_AND_STATUS.md").unlink()
    (artifacts / "KNOWLEDGE.md").unlink()
    artifacts.rmdir()
    artifacts.symlink_to(home.root)
    (home.root / "PLAN_AND_STATUS.md").write_text("a secret")
    assert home.fleet("task", task, "plan").code == 1


def test_a_prompt_longer_than_an_argument_can_be_reaches_the_agent_and_no_secret_does(home: Scratch) -> None:
    """The whole environment went to the agent; the prompt was one argument, seen in `ps`, 128 kB at most."""
    home.settle(coders={"tells": {}})
    text = "0123456789abcdef\n" * 11_000
    task = home.add("long", "--cwd", home.place("p"), "--coder", "tells", "-d", "-", stdin=text)
    secret = "hunter2-" * 3
    home.drain(env={"OPENAI_API_KEY": secret, "DATABASE_URL": secret, "SSH_AUTH_SOCK": secret, "FLEET_TOKEN": secret})
    assert home.task(task)["state"] == "done"
    assert text.rstrip() in home.artifact(task, f"prompt.{task}.1").read_text()
    assert "0123456789abcdef" not in home.artifact(task, f"argv.{task}.1").read_text()
    assert secret not in home.artifact(task, f"env.{task}.1").read_text()


def test_as_many_agents_as_there_are_slots_run_at_the_same_time(home: Scratch) -> None:
    """It started one agent every 5.5 seconds whatever the cap: fifty took 278 s."""
    many = 12
    home.settle("coder=waits", f"max_concurrent={many}", coders={"waits": {}})
    place = home.place("p")
    ids = home.add_all({f"task {n}": ("--cwd", place) for n in range(many + 1)}).values()
    supervisor = home.run("--drain")
    until(lambda: (place / "witness.txt").exists() and len((place / "witness.txt").read_text().split()) == many)
    claims = [one["at"] for one in supervisor.all("claimed")]
    assert len(claims) == many
    assert not [one for one in supervisor.records if one["event"] == "settled"], "all of them wait at their gates"
    for task in ids:
        home.open_gate(task)
    assert supervisor.wait() == 0
    assert {row["state"] for row in home.tasks().values()} == {"done"}
