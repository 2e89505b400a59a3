"""What every tracker promises, kept by each of them; and what each does when what it stands on fails."""

from __future__ import annotations

import json
import os
import select
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import parts
from fleet import tracker as room
from fleet.app.plan import Checked, put
from fleet.core import BadConfig, FleetError, NotFound, ToolMissing, Unavailable
from fleet.core.task import CANCELLED, NewTask, NewWords, Spec, Status
from fleet.host import database, run
from fleet.tracker import Tracker, envelope, local, spec
from fleet.tracker.beads import Beads, check_version
from fleet.tracker.local import Local
from fleet.tracker.plan import order, read

BD = str(parts.find("bd").bin / "bd")
STANDINS = Path(__file__).parents[1] / "standins" / "bd"


@pytest.fixture(scope="module")
def beads_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One beads home for all, because making one takes bd many seconds; each test adds tasks of its own."""
    home = tmp_path_factory.mktemp("beads")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(tmp_path_factory.mktemp("user")))
        Beads.init(home, program=BD)
        yield home


@pytest.fixture(params=["local", pytest.param("beads", marks=pytest.mark.bd)])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    found: Path = request.getfixturevalue("beads_home") if request.param == "beads" else tmp_path / "home"
    return found


@pytest.fixture
def tracker(request: pytest.FixtureRequest, home: Path) -> Tracker:
    if "beads" in request.node.name:
        return Beads(home, program=BD)
    return Local(home)


Add = Callable[..., str]


@pytest.fixture
def add(tracker: Tracker, home: Path) -> Add:
    def call(title: str = "A task", **facts: object) -> str:
        new = NewTask(title, **facts)  # type: ignore[arg-type]
        return tracker.add(new, lambda task: spec.write(home, task, Spec(cwd="/tmp"))).id

    return call


def is_ready(tracker: Tracker, *mine: str) -> list[str]:
    return [task.id for task in tracker.ready() if task.id in mine]


# --- the promise ------------------------------------------------------------------------------------------------------


def test_a_task_is_recorded_before_anybody_can_claim_it(tracker: Tracker, home: Path) -> None:
    seen: list[str] = []

    def record(task: str) -> None:
        assert task not in [one.id for one in tracker.all()]
        spec.write(home, task, Spec(cwd="/work", coder="codex"))
        seen.append(task)

    task = tracker.add(NewTask("Recorded"), record)
    assert seen == [task.id]
    assert spec.read(home, task.id) == Spec(cwd="/work", coder="codex")
    assert is_ready(tracker, task.id) == [task.id]


def test_a_task_whose_record_fails_is_not_added_and_leaves_nothing(tracker: Tracker, home: Path) -> None:
    def fail(task: str) -> None:
        spec.write(home, task, Spec(cwd="/tmp"))
        raise FleetError("the disk is full")

    before = sorted((home / "tasks").iterdir()) if (home / "tasks").exists() else []
    with pytest.raises(FleetError, match="disk is full"):
        tracker.add(NewTask("Never"), fail)
    assert "Never" not in [task.title for task in tracker.all()]
    assert sorted((home / "tasks").iterdir()) == before


@pytest.mark.parametrize(
    ("title", "description"),
    [
        ("--help", "--version"),
        ("$(touch x) `id` ' \" \\ ;", 'line one\n\n  "quoted"\n\ttabbed 100% ${HOME}\n'),
        ("Größe 日本語 👩‍🚀", "é" * 60_000),
    ],
)
def test_words_come_back_as_they_were(tracker: Tracker, add: Add, title: str, description: str) -> None:
    task = tracker.get(add(title, description=description, priority=4))
    assert (task.title, task.description) == (title, description)
    assert (task.priority, task.status, task.assignee) == (4, Status.OPEN, "")
    assert task.created > 0


@pytest.mark.parametrize(
    ("new", "why"),
    [
        (NewTask(""), "title is empty"),
        (NewTask("  "), "title is empty"),
        (NewTask("two\nlines"), "one line"),
        (NewTask("\x1b[31mred"), "control characters"),
        (NewTask("half \ud800"), "control characters"),
        (NewTask("x" * 501), "501 characters long"),
        (NewTask("x", "a\0b"), "NUL"),
        (NewTask("x", "d" * 200_001), "200,001 characters long"),
        (NewTask("x", "half \ud800"), "not valid UTF-8"),
        (NewTask("x", priority=5), "priority is 0"),
        (NewTask("x", priority=-1), "priority is 0"),
    ],
)
def test_words_that_cannot_be_kept_are_refused(tracker: Tracker, home: Path, new: NewTask, why: str) -> None:
    with pytest.raises(BadConfig, match=why):
        tracker.add(new, lambda task: pytest.fail("nothing is recorded"))
    with pytest.raises(BadConfig, match=why):
        tracker.check(new)


def test_a_plan_is_kept_with_what_each_task_waits_for(tracker: Tracker, home: Path, add: Add) -> None:
    before = add("Before")
    text = (
        f"- [ ] Last (after: {before})\n  - [ ] Second (after: first; model: big)\n- [ ] First (id: first)\n  Words\n"
    )
    plan = read(text, "md", NewTask(""), Spec(cwd="/tmp"))
    first, second, last = put(Checked(home, tracker, plan, tuple(order(plan.tasks))), lambda _: None)
    found = {task.title: tracker.get(task.id or "") for task in (first, second, last)}
    assert found["First"].description == "Words"
    assert set(found["Second"].waits_for) == {first.id, before}
    assert set(found["Last"].waits_for) == {second.id, before}
    assert spec.read(home, found["Second"].id).model == "big"
    assert is_ready(tracker, *(task.id for task in found.values())) == [first.id]


def test_beads_counts_the_bytes_of_a_title_before_it_calls_bd(tmp_path: Path) -> None:
    Beads(tmp_path, program="/nowhere/bd").check(NewTask("é" * 250))
    with pytest.raises(BadConfig, match="titles of 500 bytes"):
        Beads(tmp_path, program="/nowhere/bd").check(NewTask("é" * 251))


def test_the_most_urgent_is_ready_first_then_the_oldest(tracker: Tracker, add: Add) -> None:
    low, first, second, urgent = add(priority=3), add(priority=2), add(priority=2), add(priority=0)
    assert is_ready(tracker, low, first, second, urgent) == [urgent, first, second, low]
    ahead = tracker.ready()
    assert tracker.ready(limit=2) == ahead[:2]
    made = [task.id for task in tracker.all() if task.id in (low, first, second, urgent)]
    assert made == [low, first, second, urgent]


def test_a_task_waits_until_what_it_needs_is_done(tracker: Tracker, add: Add) -> None:
    one, other = add("One"), add("Other")
    task = add("Later", after=(one, other))
    assert set(tracker.get(task).after) == {one, other}
    assert set(tracker.get(task).waits_for) == {one, other}
    assert is_ready(tracker, task, one) == [one]
    tracker.close(one, "done")
    assert tracker.get(task).waits_for == (other,)
    tracker.close(other, "done")
    assert is_ready(tracker, task) == [task]
    listed = next(found for found in tracker.unfinished() if found.id == task)
    assert (set(listed.after), listed.waits_for) == ({one, other}, ())


def test_those_who_wait_for_a_cancelled_task_wait_on_and_say_so(tracker: Tracker, add: Add) -> None:
    one = add("One")
    task = add("Later", after=(one,))
    tracker.close(one, f"{CANCELLED}: nobody wants it")
    assert is_ready(tracker, task) == []
    assert tracker.get(task).waits_for == (one,)
    assert next(found for found in tracker.all() if found.id == task).waits_for == (one,)
    tracker.open(one)
    tracker.close(one, "done after all")
    assert is_ready(tracker, task) == [task]


def test_a_circle_is_refused(tracker: Tracker, add: Add) -> None:
    one, two, three = add("One"), add("Two"), add("Three")
    tracker.depend(two, one)
    tracker.depend(two, one)
    tracker.depend(three, two)
    assert tracker.get(two).waits_for == (one,)
    with pytest.raises(BadConfig, match="already waits"):
        tracker.depend(one, three)
    with pytest.raises(BadConfig, match="cannot wait for itself"):
        tracker.depend(one, one)
    assert tracker.get(one).after == ()
    tracker.close(three, CANCELLED)  # one that waits can be given up
    assert tracker.get(three).status is Status.CLOSED


def test_a_task_waits_no_more_for_what_it_is_not_to_wait_for(tracker: Tracker, add: Add) -> None:
    one, other = add("One"), add("Other")
    task = add("Later", after=(one, other))
    tracker.undepend(task, one)
    tracker.undepend(task, one)
    assert tracker.get(task).after == (other,)
    tracker.undepend(task, other)
    assert is_ready(tracker, task) == [task]


def test_words_are_changed_and_what_is_not_named_stays(tracker: Tracker, add: Add) -> None:
    task = add("Before", description="one\n", priority=3)
    tracker.reword(task, NewWords(title="--after", priority=0))
    now = tracker.get(task)
    assert (now.title, now.description, now.priority) == ("--after", "one\n", 0)
    tracker.reword(task, NewWords(description=""))
    assert (tracker.get(task).title, tracker.get(task).description) == ("--after", "")
    with pytest.raises(BadConfig, match="title is empty"):
        tracker.reword(task, NewWords(title=" "))


def test_of_two_who_claim_one_gets_it_and_keeps_it(tracker: Tracker, add: Add) -> None:
    task = add()
    assert tracker.claim(task, "ann")
    assert not tracker.claim(task, "bob")
    assert tracker.claim(task, "ann")
    held = tracker.get(task)
    assert (held.status, held.assignee) == (Status.IN_PROGRESS, "ann")
    assert is_ready(tracker, task) == []


def test_of_many_who_claim_at_once_exactly_one_gets_it(tracker: Tracker, add: Add) -> None:
    task = add()
    with ThreadPoolExecutor(4) as pool:
        got = list(pool.map(lambda actor: tracker.claim(task, actor), ["a", "b", "c", "d"]))
    assert sorted(got) == [False, False, False, True]
    assert tracker.get(task).assignee == "abcd"[got.index(True)]


def test_a_claimed_task_is_released_whoever_held_it(tracker: Tracker, add: Add) -> None:
    task = add()
    tracker.claim(task, "somebody who died")
    tracker.release(task, "its supervisor is gone")
    free = tracker.get(task)
    assert (free.status, free.assignee, free.notes) == (Status.OPEN, "", "its supervisor is gone")
    assert tracker.claim(task, "another")


def test_a_release_that_comes_late_changes_nothing(tracker: Tracker, add: Add) -> None:
    task = add()
    tracker.claim(task, "ann")
    tracker.block(task, "QUESTION: which way?")
    tracker.release(task, "late")
    held = tracker.get(task)
    assert (held.status, held.assignee, held.notes) == (Status.BLOCKED, "", "QUESTION: which way?")
    tracker.close(task, "done")
    tracker.release(task, "late")
    tracker.block(task, "late")
    assert tracker.get(task).status is Status.CLOSED


def test_a_blocked_task_waits_for_a_person(tracker: Tracker, add: Add) -> None:
    task = add()
    tracker.block(task, "not now")
    assert not tracker.claim(task, "ann")
    assert is_ready(tracker, task) == []
    tracker.open(task)
    assert is_ready(tracker, task) == [task]


def test_a_closed_task_keeps_its_reason_until_it_is_opened(tracker: Tracker, add: Add) -> None:
    task = add()
    tracker.close(task, "accepted: --force 'it'")
    tracker.close(task, "again")
    closed = tracker.get(task)
    assert (closed.status, closed.reason) == (Status.CLOSED, "accepted: --force 'it'")
    assert not tracker.claim(task, "ann")
    assert task not in [one.id for one in tracker.unfinished()]
    assert task in [one.id for one in tracker.all()]
    tracker.open(task)
    assert (tracker.get(task).status, tracker.get(task).reason) == (Status.OPEN, "")


def test_our_own_notes_are_mended_never_refused(tracker: Tracker, add: Add) -> None:
    task = add()
    tracker.block(task, "--notes\0 \ud800 " + "x" * 20_000)
    notes = tracker.get(task).notes
    assert notes.startswith("--notes\N{REPLACEMENT CHARACTER} ? xxx")
    assert len(notes) == 16_000


def test_comments_are_kept_in_order(tracker: Tracker, add: Add) -> None:
    task = add()
    assert tracker.comments(task) == []
    tracker.comment(task, "--help\n'two' lines\n", "ann")
    tracker.comment(task, "日本語", 'Bob "B"')
    said = [(comment.author, comment.text) for comment in tracker.comments(task)]
    assert said == [("ann", "--help\n'two' lines"), ('Bob "B"', "日本語")]
    assert all(comment.at > 0 for comment in tracker.comments(task))
    for wrong in ("", " \n", "a\0b"):
        with pytest.raises(BadConfig):
            tracker.comment(task, wrong, "ann")


def test_a_task_that_is_not_there_is_not_found(tracker: Tracker, add: Add) -> None:
    task = add("Untouched")
    part = task[:-1]  # bd takes the beginning of an id for the whole of it
    calls: list[Callable[[], object]] = [
        lambda: tracker.get(part),
        lambda: tracker.claim(part, "ann"),
        lambda: tracker.release(part, "x"),
        lambda: tracker.block(part, "x"),
        lambda: tracker.open(part),
        lambda: tracker.close(part, "x"),
        lambda: tracker.depend(part, task),
        lambda: tracker.depend(task, part),
        lambda: tracker.undepend(part, task),
        lambda: tracker.reword(part, NewWords("x")),
        lambda: tracker.comment(part, "x", "ann"),
        lambda: tracker.comments(part),
        lambda: add("After", after=(part,)),
    ]
    for call in calls:
        with pytest.raises((NotFound, BadConfig)) as refused:
            call()
        assert refused.type is NotFound or part == "t"
    assert tracker.get(task).status is Status.OPEN


# --- local ------------------------------------------------------------------------------------------------------------

WORKER = """
import sys
from pathlib import Path
from fleet.core.task import NewTask
from fleet.tracker.local import Local
from fleet.tracker.plan import order, read
tracker, actor = Local(Path(sys.argv[1]), patience=60), sys.argv[2]
print("up", flush=True)
sys.stdin.readline()
if sys.argv[3] == "add":
    print(*(tracker.add(NewTask("x"), lambda task: None).id for _ in range(10)))
else:
    print(*(task.id for task in tracker.ready() if tracker.claim(task.id, actor)))
"""


def at_once(home: Path, what: str, workers: int = 8) -> list[list[str]]:
    """What each of several processes, let go at the same moment, added or claimed."""
    started = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, str(home), f"worker-{n}", what],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for n in range(workers)
    ]
    for process in started:
        assert process.stdout
        assert process.stdout.readline() == "up\n"
    for process in started:
        assert process.stdin
        process.stdin.write("go\n")
        process.stdin.flush()
    said = [process.communicate()[0].split() for process in started]
    assert [process.returncode for process in started] == [0] * workers
    return said


def test_eight_processes_claim_each_task_once(tmp_path: Path) -> None:
    tracker = Local(tmp_path)
    for _ in range(200):
        tracker.add(NewTask("x"), lambda task: None)
    claimed = [task for one in at_once(tmp_path, "claim") for task in one]
    assert len(claimed) == 200
    assert set(claimed) == {f"t{n}" for n in range(1, 201)}


def test_eight_processes_that_add_to_a_new_home_share_no_id(tmp_path: Path) -> None:
    added = [task for one in at_once(tmp_path / "new", "add") for task in one]
    assert set(added) == {f"t{n}" for n in range(1, 81)}
    assert len(Local(tmp_path / "new").all()) == len(added) == 80


def test_a_reserved_id_is_left_to_whoever_reserved_it(tmp_path: Path) -> None:
    (tmp_path / "tasks" / "t1").mkdir(parents=True)
    assert Local(tmp_path).add(NewTask("x"), lambda task: None).id == "t2"


@pytest.mark.parametrize("there_before", [False, True])
def test_the_database_is_for_its_owner_alone(tmp_path: Path, there_before: bool) -> None:
    home = tmp_path / "home"
    if there_before:
        home.mkdir()
        (home / "fleet.db").touch(mode=0o644)
    with database.changing(database.path(home)) as db:
        db.execute("CREATE TABLE x (y)")
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in home.glob("fleet.db*")}
    assert modes == {"fleet.db": 0o600, "fleet.db-wal": 0o600, "fleet.db-shm": 0o600}
    Local(home).add(NewTask("x"), lambda task: None)
    assert stat.S_IMODE((home / "tasks" / "t1").stat().st_mode) == 0o700


def test_a_change_that_fails_is_not_made(tmp_path: Path) -> None:
    Local(tmp_path).add(NewTask("x"), lambda task: None)

    def change() -> None:
        with database.changing(database.path(tmp_path)) as db:
            db.execute("UPDATE tasks SET title = 'y'")
            raise KeyError

    with pytest.raises(KeyError):
        change()
    assert Local(tmp_path).get("t1").title == "x"


def test_a_database_that_is_busy_is_said_to_be(tmp_path: Path) -> None:
    tracker = Local(tmp_path, patience=0.05)
    tracker.add(NewTask("x"), lambda task: None)
    with database.changing(database.path(tmp_path)):
        with pytest.raises(Unavailable, match=r"fleet.db is busy") as refused:
            tracker.claim("t1", "ann")
        assert tracker.get("t1").title == "x"  # who only reads does not wait
    assert refused.value.hint
    assert tracker.claim("t1", "ann")


def test_a_damaged_database_is_said_to_be_and_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "fleet.db").write_bytes(b"this is no database" * 100)
    with pytest.raises(FleetError, match=r"fleet.db is damaged") as refused:
        Local(tmp_path).all()
    assert refused.value.hint == f"put it aside: mv {tmp_path}/fleet.db {tmp_path}/fleet.db.damaged"
    assert (tmp_path / "fleet.db").read_bytes() == b"this is no database" * 100


def test_a_full_disk_is_said_to_be(tmp_path: Path) -> None:
    def fill() -> None:
        with database.changing(database.path(tmp_path), local.SCHEMA) as db:
            db.execute("PRAGMA max_page_count = 1")
            db.execute("CREATE TABLE more (text TEXT)")

    with pytest.raises(FleetError, match="the disk is full") as refused:
        fill()
    assert refused.value.hint == f"df -h {tmp_path}"


def test_what_is_ready_is_found_by_the_index_alone(tmp_path: Path) -> None:
    with database.reading(database.path(tmp_path), local.SCHEMA) as db:
        plan = [row["detail"] for row in db.execute(f"EXPLAIN QUERY PLAN {local.READY}", {"priority": 2, "limit": 10})]
    assert plan[0] == "SEARCH t USING INDEX tasks_in_turn (status=? AND priority=?)"
    assert not [step for step in plan if "SCAN" in step or "TEMP B-TREE" in step]


def test_other_tables_of_the_file_are_left_alone(tmp_path: Path) -> None:
    with database.changing(database.path(tmp_path)) as db:
        db.execute("CREATE TABLE theirs (x)")
    Local(tmp_path).add(NewTask("x"), lambda task: None)
    with sqlite3.connect(database.path(tmp_path)) as other:
        names = {row[0] for row in other.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        assert names == {"theirs", "tasks", "dependencies", "comments"}
        assert other.execute("PRAGMA user_version").fetchone() == (0,)
    other.close()


# --- beads ------------------------------------------------------------------------------------------------------------


def standin(home: Path, name: str, timeout: float = 30.0) -> Beads:
    (home / ".beads").mkdir(parents=True)
    return Beads(home, program=str(STANDINS / name), timeout=timeout)


@pytest.mark.bd
def test_bd_is_made_once_and_touches_nothing_around_it(beads_home: Path) -> None:
    Beads.init(beads_home, program="not called again")
    ours = {".beads", ".beads.gate.lock", "tasks"}
    assert {path.name for path in beads_home.iterdir()} <= ours
    assert [path.name for path in Path(os.environ["HOME"]).iterdir()] == [".dolt"]


@pytest.mark.bd
def test_tasks_of_other_people_are_tasks_too(beads_home: Path) -> None:
    tracker = Beads(beads_home, program=BD)

    def by_hand(*args: str) -> str:
        env = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "BD_DISABLE_METRICS": "1"}
        where = env | {"BEADS_DIR": str(beads_home / ".beads")}
        argv = [BD, "create", *args, "--silent"]
        return subprocess.run(
            argv, env=where, cwd=beads_home, check=True, capture_output=True, text=True
        ).stdout.strip()

    epic = by_hand("An epic", "--type=epic")
    child = by_hand("A part of it", f"--parent={epic}")
    assigned = by_hand("For a person", "--assignee=ann")
    later = by_hand("Later", "--defer=+2w", "--status=deferred")
    assert child == f"{epic}.1"
    assert is_ready(tracker, epic, child, assigned, later) == [child]
    assert tracker.claim(child, "bob")
    put_off = tracker.get(later)
    assert (put_off.status, put_off.notes) == (Status.BLOCKED, "bd says deferred")
    tracker.block(later, "not ever")
    assert (tracker.get(later).status, tracker.get(later).notes) == (Status.BLOCKED, "not ever")
    tracker.open(later)
    assert is_ready(tracker, later) == [later]


def test_a_bd_that_hangs_is_ended_with_all_it_started(tmp_path: Path) -> None:
    tracker = standin(tmp_path, "hangs", timeout=0.5)
    with pytest.raises(Unavailable, match=r"bd list did not answer within 0.5 s"):
        tracker.all()
    for pid in (tmp_path / "pids").read_text().split():
        assert has_ended(int(pid))


def test_a_task_that_bd_may_have_made_keeps_its_record(tmp_path: Path) -> None:
    tracker = standin(tmp_path, "hangs", timeout=0.5)
    with pytest.raises(FleetError, match="bd create did not answer"):
        tracker.add(NewTask("x"), lambda task: spec.write(tmp_path, task, Spec(cwd="/tmp")))
    assert len(list(tmp_path.glob("tasks/*/task.json"))) == 1


def has_ended(pid: int) -> bool:
    try:
        watch = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([watch], [], [], 10)[0])
    finally:
        os.close(watch)


@pytest.mark.parametrize("name", ["hangs", "fails"])
def test_an_init_that_is_ended_half_way_leaves_nothing(tmp_path: Path, name: str) -> None:
    with pytest.raises(FleetError, match="bd init"):
        Beads.init(tmp_path, program=str(STANDINS / name), timeout=0.5)
    assert list(tmp_path.iterdir()) == []


def test_a_bd_that_fails_is_quoted(tmp_path: Path) -> None:
    tracker = standin(tmp_path, "fails")
    calls: list[Callable[[], object]] = [
        tracker.all,
        tracker.ready,
        lambda: tracker.get("fleet-a"),
        lambda: tracker.claim("fleet-a", "ann"),
        lambda: tracker.add(NewTask("x"), lambda task: spec.write(tmp_path, task, Spec(cwd="/tmp"))),
    ]
    for call in calls:
        with pytest.raises(Unavailable, match=r"bd \w+ failed \(1\): Error: the database is on fire"):
            call()
    assert list((tmp_path / "tasks").iterdir()) == []


def test_half_an_answer_is_an_error_never_a_crash(tmp_path: Path) -> None:
    tracker = standin(tmp_path, "half")
    calls: list[Callable[[], object]] = [tracker.all, tracker.ready, lambda: tracker.get("fleet-a")]
    for call in calls:
        with pytest.raises(Unavailable, match="not JSON"):
            call()


def test_what_a_later_bd_says_is_read_as_far_as_it_is_known(tmp_path: Path) -> None:
    found = {task.id: task for task in standin(tmp_path, "strange").all()}
    known, new, closed, waiting = (found[f"fleet-{letter}"] for letter in "abcd")
    assert len(found) == 4
    assert (known.id, known.status, known.priority, known.created) == ("fleet-a", Status.OPEN, 1, 1767323045.0)
    assert (new.id, new.status, new.notes, new.priority) == ("fleet-b", Status.BLOCKED, "bd says in_review\nwhy", 2)
    assert (closed.id, closed.status, closed.reason, closed.after) == ("fleet-c", Status.CLOSED, "", ())
    assert waiting.after == ("fleet-c", "fleet-b", "external:x:y")
    assert waiting.waits_for == ("fleet-b", "external:x:y")


@pytest.mark.parametrize(("name", "found"), [("old", "0.49.6"), ("newer", "2.0.0")])
def test_a_bd_of_another_age_is_refused(tmp_path: Path, name: str, found: str) -> None:
    with pytest.raises(ToolMissing, match=f"found {found}") as refused:
        standin(tmp_path, name).all()
    assert refused.value.exit_code == 5


@pytest.mark.parametrize(
    ("said", "fits"),
    [
        ("bd version 1.3.0 (dev)", True),
        ("bd version 1.12.1", True),
        ("bd version 1.2.9", False),
        ("bd version 2.0.0", False),
        ("Segmentation fault", False),
    ],
)
def test_versions(said: str, fits: bool) -> None:
    if fits:
        check_version(said)
        return
    with pytest.raises(ToolMissing, match=r"1.3.0 or newer is needed"):
        check_version(said)


def test_without_bd_it_is_said_how_to_get_it(tmp_path: Path) -> None:
    (tmp_path / ".beads").mkdir()
    with pytest.raises(ToolMissing, match="not installed") as refused:
        Beads(tmp_path, program=str(tmp_path / "bd")).all()
    assert refused.value.exit_code == 5
    assert "npm install" in str(refused.value.hint)


def test_without_a_database_the_next_command_is_named(tmp_path: Path) -> None:
    with pytest.raises(FleetError, match="no beads database") as refused:
        Beads(tmp_path, program=str(STANDINS / "fails")).all()
    assert refused.value.hint == "fleet init --home-only --tracker beads"


@pytest.mark.parametrize(
    ("out", "err", "said"),
    [
        (b'{"data": {"error": "in the envelope"}}', b"", "in the envelope"),
        (b"", b'Error: spoken\n{"data":{"error":"1 failed","failed":[{"error":"held"}]}}', "held"),
        (b"", b"warning: a\n  b\nError: spoken\n", "Error: spoken"),
        (b"plain", b"", "plain"),
        (b"", b"", "nothing"),
        (b"\xff{", b"\xff", "\N{REPLACEMENT CHARACTER}"),
    ],
)
def test_a_complaint_is_found_wherever_bd_put_it(out: bytes, err: bytes, said: str) -> None:
    assert envelope.complaint(out, err) == said


# --- the programs of others -------------------------------------------------------------------------------------------


def shell(home: Path, script: str, *, stdin: bytes = b"", limit: int = run.LIMIT, timeout: float = 60) -> run.Ran:
    return run.run(["/bin/sh", "-c", script], cwd=home, env={}, timeout=timeout, stdin=stdin, limit=limit)


def test_a_program_is_heard_to_its_end(tmp_path: Path) -> None:
    done = shell(tmp_path, "cat; echo err >&2; pwd; exit 7", stdin=b"x" * 300_000)
    assert (done.code, done.err, done.timed_out) == (7, b"err\n", False)
    assert done.out == b"x" * 300_000 + f"{tmp_path}\n".encode()
    assert shell(tmp_path, "kill -9 $$").code == -9
    assert shell(tmp_path, "exit 3", stdin=b"x" * 300_000).code == 3  # it does not want to read


def test_output_beyond_the_limit_is_thrown_away(tmp_path: Path) -> None:
    done = shell(tmp_path, "head -c 1000000 /dev/zero; echo err >&2", limit=1000)
    assert (done.code, len(done.out), done.err) == (0, 1000, b"err\n")


def test_a_program_that_left_something_behind_is_not_waited_for(tmp_path: Path) -> None:
    done = shell(tmp_path, "echo early; sleep 600 & echo $!")
    early, left = done.out.split()
    os.kill(int(left), signal.SIGKILL)
    assert (done.code, early, done.timed_out) == (0, b"early", False)


def test_a_program_that_closed_its_output_is_waited_for(tmp_path: Path) -> None:
    busy = "i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done"
    done = shell(tmp_path, f"exec >&- 2>&-; {busy}; exit 5")
    assert (done.code, done.timed_out) == (5, False)
    late = shell(tmp_path, "exec >&- 2>&-; sleep 600", timeout=0.2)
    assert (late.code, late.timed_out) == (-15, True)


def test_only_a_missing_program_raises(tmp_path: Path) -> None:
    with pytest.raises(ToolMissing, match="is not installed"):
        run.run([str(tmp_path / "nothing")], cwd=tmp_path, env={}, timeout=5)
    (tmp_path / "text").write_text("hello")
    assert run.run([str(tmp_path / "text")], cwd=tmp_path, env={}, timeout=5).code == 126
    astray = run.run(["/bin/sh"], cwd=tmp_path / "nowhere", env={}, timeout=5)
    assert (astray.code, "nowhere" in astray.said) == (126, True)


# --- which one, and task.json -----------------------------------------------------------------------------------------


def test_a_tracker_is_opened_by_name_and_only_that_one_is_loaded(tmp_path: Path) -> None:
    assert (room.open(tmp_path).name, room.open(tmp_path, "beads").name) == ("local", "beads")
    with pytest.raises(BadConfig, match=r"there is no tracker 'bead' \(did you mean beads\?\)"):
        room.open(tmp_path, "bead")
    code = "import sys, pathlib; from fleet import tracker; tracker.open(pathlib.Path('/nowhere')); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "fleet.tracker.local" in loaded
    assert not {"fleet.tracker.beads", "subprocess", "msgspec", "dbos"} & set(loaded)


def write_spec(home: Path, text: str) -> Path:
    file = home / "tasks" / "t1" / "task.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def test_a_spec_comes_back_as_it_was_written_for_its_owner_alone(tmp_path: Path) -> None:
    whole = Spec("/wörk \udcff", coder="codex", model="o3", check="make\ntest", timeout=1.5, attempts=3, output=10,
        silence=0.0, tokens=5, cost=2.5)  # fmt: skip
    spec.write(tmp_path, "t1", whole)
    assert spec.read(tmp_path, "t1") == whole
    assert stat.S_IMODE(spec.path(tmp_path, "t1").stat().st_mode) == 0o600


def test_what_others_put_in_a_spec_stays(tmp_path: Path) -> None:
    file = write_spec(tmp_path, '{"cwd": "/a", "coder": "codex", "model": null, "theirs": {"x": [1]}}')
    assert spec.read(tmp_path, "t1") == Spec("/a", coder="codex")
    spec.write(tmp_path, "t1", Spec("/b"))
    assert json.loads(file.read_text()) == {"cwd": "/b", "theirs": {"x": [1]}}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not JSON"),
        ('{"cwd": ', "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "not a JSON object"),
        ("{}", "cwd must be the absolute path"),
        ('{"cwd": "here"}', "cwd must be the absolute path"),
        ('{"cwd": "~/x"}', "cwd must be the absolute path"),
        ('{"cwd": "/a\\u001b[31m"}', "cwd must be the absolute path"),
        ('{"cwd": "/a\\ud800"}', "cwd must be the absolute path"),
        ('{"cwd": "/a", "coder": 7}', "coder must be a name"),
        ('{"cwd": "/a", "coder": ""}', "coder must be a name"),
        ('{"cwd": "/a", "model": "x\\n"}', "model must be a name"),
        ('{"cwd": "/a", "check": ["make"]}', "check must be a command"),
        ('{"cwd": "/a", "timeout": 0}', "timeout must be a number of seconds"),
        ('{"cwd": "/a", "timeout": NaN}', "timeout must be a number of seconds"),
        ('{"cwd": "/a", "timeout": true}', "timeout must be a number of seconds"),
        ('{"cwd": "/a", "attempts": 1.5}', "attempts must be a whole number"),
        ('{"cwd": "/a", "output": -1}', "output must be a whole number of bytes"),
        ('{"cwd": "/a", "silence": -1}', "silence must be a number of seconds, or 0"),
        ('{"cwd": "/a", "tokens": 1.5}', "tokens must be a whole number, or 0"),
        ('{"cwd": "/a", "cost": true}', "cost must be a number of US dollars"),
        (" " * 1_100_000, "larger than 1 MiB"),
    ],
)
def test_a_spec_that_makes_no_sense_is_never_guessed_at(tmp_path: Path, text: str, why: str) -> None:
    file = write_spec(tmp_path, text)
    with pytest.raises(BadConfig, match=why) as refused:
        spec.read(tmp_path, "t1")
    assert str(file) in refused.value.message


def test_a_missing_or_damaged_spec_is_not_replaced_by_a_guess(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match=r"t1/task.json is missing"):
        spec.read(tmp_path, "t1")
    file = write_spec(tmp_path, "{")
    with pytest.raises(BadConfig, match="not JSON"):
        spec.write(tmp_path, "t1", Spec("/a"))
    assert file.read_text() == "{"


def test_a_spec_is_never_read_through_a_link(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text('{"cwd": "/a"}')
    file = write_spec(tmp_path, "")
    file.unlink()
    file.symlink_to(secret)
    for call in (lambda: spec.read(tmp_path, "t1"), lambda: spec.write(tmp_path, "t1", Spec("/b"))):
        with pytest.raises(BadConfig, match=r"task.json"):
            call()
    assert secret.read_text() == '{"cwd": "/a"}'


@pytest.mark.parametrize("task", ["../x", "", "a/b", ".", "-x", "t1\n", "x" * 200])
def test_an_id_that_names_no_task_leads_nowhere(tmp_path: Path, task: str) -> None:
    with pytest.raises(BadConfig, match="is not the id of a task"):
        spec.read(tmp_path, task)
