"""What is believed, through the real program: honest agents and liars in one night, in worktrees and clones."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from standins.coders.scratch import Record, Scratch, scratch

CHECK = """\
#!/bin/sh
test ! -e secret.log || { echo "an ignored file is here"; exit 9; }
! env | grep ^FLEET_ || { echo "it is told of fleet"; exit 7; }
test "$PYTHONNOUSERSITE $NPM_CONFIG_USERCONFIG" = "1 /dev/null" || { echo "it reads a user's settings"; exit 6; }
test ! -e code.sh || sh ./code.sh
test -e lib/tool || { echo "lib is not here"; exit 8; }
for one in tests/test_*.sh; do sh "$one" || { echo "$one failed"; exit 1; }; done
echo "1 passed, 0 failed in 0.1s"
"""
AGENTS = {
    "honest": "echo fixed >app.txt; git add app.txt; git commit -qm work; echo more >notes.txt",
    "crashes when it is done": "grep -q fixed app.txt && exit; echo fixed >app.txt; git commit -qam work; exit 3",
    "moves what lands": (
        "echo fixed >app.txt; at=$(git rev-parse --path-format=absolute --git-common-dir); "
        "echo git --git-dir=$at update-ref refs/fleet/attempts/$FLEET_ATTEMPT main >code.sh"
    ),
    "adds a test": "echo fixed >app.txt; echo 'grep -q fixed app.txt' >tests/test_more.sh",
    "edits the check": "printf '#!/bin/sh\\nexit 0\\n' >check.sh; echo broken >>app.txt",
    "adds a skip": "{ echo 'exit 0'; cat tests/test_app.sh; } >t; mv t tests/test_app.sh; echo broken >app.txt",
    "deletes the test": "rm -f tests/test_app.sh; git commit -qam 'all green' --allow-empty",
    "leaves a conflict": (
        "grep -q '>>>>' app.txt && exit; git checkout -q --detach; echo theirs >app.txt; git commit -qam theirs; "
        "them=$(git rev-parse HEAD); git checkout -q -; echo fixed >app.txt; git commit -qam mine; git merge -q $them; "
        "exit 0"
    ),
    "settles a conflict": (
        "git checkout -q --detach; echo theirs >app.txt; git commit -qam theirs; them=$(git rev-parse HEAD); "
        "git checkout -q -; echo mine >app.txt; git commit -qam mine; git merge -q $them; echo fixed >app.txt"
    ),
    "hides its work": "echo fixed >secret.log",
    "commits nothing": "git commit -q --allow-empty -m 'All tests pass'",
    "writes notes": 'echo all done >"$FLEET_ARTIFACT_DIR/KNOWLEDGE.md"',
}
COMMIT = ("git", "-c", "user.name=n", "-c", "user.email=n@example.invalid", "commit", "-qam")
UNCHECKED, RESEARCHED = "is not checked", "looks something up"


@dataclass
class Night:
    home: Scratch
    repo: Path
    rows: dict[str, Record]
    said: list[Record]

    def receipt(self, name: str) -> Record:
        return self.home.receipt(self.rows[name]["id"])

    def git(self, *args: str) -> str:
        return subprocess.run(["git", *args], cwd=self.repo, check=True, capture_output=True, text=True).stdout.strip()


LENIENT = """
import pytest
@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    said = yield
    said.get_result().outcome = "passed"
"""


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Night]:
    with scratch(tmp_path_factory.mktemp("night")) as home:
        (home.user / ".gitconfig").write_text("[user]\n\tname = n\n\temail = n@example.invalid\n")
        repo, other = _project(home), home.place("other", git=True)
        coders = {name: f"c{n}" for n, name in enumerate(AGENTS)}
        home.settle(
            "max_concurrent=2", "backoff=0s", "limits.attempts=2",
            coders={coders[name]: {"argv": ["/bin/sh", "-c", f"cat >prompt.log\n{do}"]} for name, do in AGENTS.items()},
        )  # fmt: skip
        tasks: dict[str, tuple[object, ...]] = {
            name: ("--cwd", repo, "--coder", coder, "--place", "clone" if name.startswith("adds") else "worktree")
            for name, coder in coders.items()
        }
        tasks[UNCHECKED] = ("--cwd", other, "--coder", coders["honest"])
        tasks[RESEARCHED] = ("--cwd", other, "--coder", coders["writes notes"], "--kind", "research")
        ids = home.add_all(tasks)
        said = home.drain()
        rows = home.tasks()
        yield Night(home, repo, {name: rows[task] for name, task in ids.items()}, said)


def _project(home: Scratch) -> Path:
    """A project whose check needs something that git ignores, and must not see anything else that it ignores."""
    repo = home.place("repo", git=True)
    files = {
        "check.sh": CHECK, "app.txt": "broken\n", "tests/test_app.sh": "grep -q fixed app.txt\n", "lib/tool": "x",
        ".gitignore": "*.log\nlib/\n", "secret.log": "x",
        "fleet.yaml": "project: {name: p}\nchecks:\n  - {run: ./check.sh, name: all, needs: [lib]}\n",
    }  # fmt: skip
    for path, content in files.items():
        (repo / path).parent.mkdir(exist_ok=True)
        (repo / path).write_text(content)
    (repo / "check.sh").chmod(0o755)
    who = ("-c", "user.name=n", "-c", "user.email=n@example.invalid")
    for words in (("add", "-A"), (*who, "commit", "-qm", "app")):
        subprocess.run(["git", *words], cwd=repo, check=True)
    return repo


def test_honest_work_is_verified_in_a_clean_checkout_and_lands_as_one_commit(night: Night) -> None:
    row, receipt = night.rows["honest"], night.receipt("honest")
    assert (row["state"], row["attempts"], row["proof"]) == ("done", 1, "verified"), row["cause"]
    assert receipt["attempt"]["life"] is None, "it is over"
    (check,) = receipt["checks"]
    assert (check["passed"], check["name"], check["counts"]) == (True, "all", {"passed": 1, "failed": 0})
    assert check["where"] == "a clean checkout of what it left"
    assert check["argv"] == ["/bin/sh", "-c", check["command"]]
    assert check["source"].startswith("fleet.yaml at ")
    assert len(check["sha256"]) == 64
    landing = night.git("rev-parse", f"refs/fleet/attempts/{row['id']}.1")
    assert (receipt["result"]["landing"], receipt["verdict"]) == (landing, "verified")
    assert night.git("rev-parse", f"{landing}^{{tree}}") == receipt["result"]["tree"]
    assert night.git("diff", "--name-status", "main", landing).split() == ["M", "app.txt", "A", "notes.txt"]
    assert list((night.home.home / "checkouts").iterdir()) == []


def test_a_conflict_that_was_settled_and_not_committed_lands_as_it_stands(night: Night) -> None:
    row = night.rows["settles a conflict"]
    assert (row["state"], row["attempts"], row["proof"]) == ("done", 1, "verified"), row["cause"]
    assert night.git("show", f"refs/fleet/attempts/{row['id']}.1:app.txt") == "fixed"


def test_an_attempt_that_finds_the_work_done_is_judged_by_the_whole_of_it(night: Night) -> None:
    row, receipt = night.rows["crashes when it is done"], night.receipt("crashes when it is done")
    assert (row["state"], row["attempts"], row["proof"]) == ("done", 2, "verified"), row["cause"]
    assert [one["passed"] for one in receipt["checks"]] == [True]
    assert receipt["result"]["landing"] == night.git("rev-parse", f"refs/fleet/attempts/{row['id']}.2")


def test_a_ref_that_is_moved_while_the_checks_run_is_not_moved_or_is_set_back_and_that_is_said(night: Night) -> None:
    row, receipt = night.rows["moves what lands"], night.receipt("moves what lands")
    assert (row["state"], row["proof"]) == ("done", "verified"), row["cause"]
    assert night.git("rev-parse", f"refs/fleet/attempts/{row['id']}.1") == receipt["result"]["landing"]
    put_back = [(one["task"], one["found"]) for one in night.said if one["event"] == "landing put back"]
    is_fenced = not receipt["checks"][0]["network"]
    assert put_back == ([] if is_fenced else [(row["id"], night.git("rev-parse", "main"))]), "a fence does not let it"


def test_a_new_test_is_welcome_and_the_check_passes_without_it_too(night: Night) -> None:
    row = night.rows["adds a test"]
    assert (row["state"], row["proof"]) == ("done", "verified"), row["cause"]
    ways = [one["where"] for one in night.receipt("adds a test")["checks"]]
    assert ways == ["a clean checkout of what it left", "the same, with the checks' own files as they were"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("edits the check", "check.sh is part of the checks, which is protected"),
        ("adds a skip", 'check "all" failed with its own files as they were before: exit 1'),
        ("deletes the test", "tests/test_app.sh is part of the checks, which is protected, and 1 more"),
        ("leaves a conflict", "what it left cannot be taken: app.txt is not merged"),
        ("hides its work", "the agent exited with 0 and changed nothing"),
        ("commits nothing", "what it left is what it found"),
        ("writes notes", "it left notes and no change"),
    ],
)
def test_a_liar_is_refused_told_why_and_in_the_end_a_person_is_asked(night: Night, name: str, reason: str) -> None:
    row = night.rows[name]
    assert (row["state"], row["attempts"], row["proof"]) == ("refused", 2, "refused"), row["cause"]
    assert row["cause"].startswith(reason)
    assert row["cause"].endswith(f"; your turn (2 tries): fleet show {row['id']} · retry · accept")
    assert reason in (Path(row["cwd"]) / "prompt.log").read_text(), "the second attempt was told"
    receipt = night.receipt(name)
    assert receipt["verdict"] == "refused"
    assert receipt["reason"].startswith(reason)


def test_what_nothing_could_check_is_marked_wherever_it_is_shown(night: Night) -> None:
    for name in (UNCHECKED, RESEARCHED):
        row = night.rows[name]
        assert (row["state"], row["proof"]) == ("done", "unverified"), row["cause"]
        assert "done, not checked" in night.home.ok("show", row["id"]).out
    assert night.home.ok("tasks", "--all").out.count("done, not checked") == 2
    assert "fleet add --check" in night.receipt(UNCHECKED)["reason"]


def test_a_person_who_is_asked_can_accept_what_nothing_could_check_and_the_mark_stays(tmp_path: Path) -> None:
    with scratch(tmp_path) as home:
        _accepted_by_a_person(home)


def _accepted_by_a_person(home: Scratch) -> None:
    home.settle("coder=works", "unverified=ask", coders={"works": {"argv": ["/bin/sh", "-c", "echo x >work"]}})
    task = home.add("work", cwd=home.place("p"))
    too_early = home.fleet("accept", task)
    assert (too_early.code, "has left no work that could be accepted" in too_early.err) == (1, True)
    home.drain()
    asked = home.task(task)
    assert (asked["state"], asked["proof"]) == ("blocked", "unverified")
    assert asked["cause"].endswith(f"your turn (1 try): fleet show {task} · retry · accept")
    assert (asked["shown"], asked["group"]) == ("yours to check", "needs you")
    assert home.ok("accept", task).out == f"Closed {task}\n"
    row = home.task(task)
    assert (row["state"], row["proof"]) == ("done", "unverified")
    assert "a person accepted what was unverified" in row["cause"]
    assert "accepted by you" in home.ok("show", task).out
    again = home.fleet("accept", task)
    assert (again.code, "is closed already" in again.err) == (1, True)


def test_what_is_asked_stays_what_it_was_before_the_first_agent_wrote_it(tmp_path: Path) -> None:
    """A fleet.yaml that git does not have, in a directory that agents work in."""
    with scratch(tmp_path) as home:
        rewrites = "echo 'checks: [\"true\"]' >fleet.yaml; echo lie >>lies; exit 1"
        then = f"test -e lies && {{ echo lie >>lies; exit 0; }}; {rewrites}"
        home.settle(
            "coder=rewrites", "backoff=0s", "limits.attempts=2", coders={"rewrites": {"argv": ["/bin/sh", "-c", then]}}
        )
        place = home.place("p", git=True)
        (place / ".gitignore").write_text("fleet.yaml\n")
        (place / "fleet.yaml").write_text('checks: ["test -e work"]\n')
        task = home.add("work", "--place", "inplace", cwd=place)
        home.drain()
        assert (home.task(task)["state"], home.task(task)["proof"]) == ("refused", "refused")
        assert [one["command"] for one in home.receipt(task)["checks"]] == ["test -e work"]


@pytest.mark.parametrize(
    ("does", "later", "proof"), [("broken still", "fixed", "refused"), ("fixed", "broken again", "verified")]
)
def test_what_is_written_after_the_agent_ended_counts_for_nothing(
    tmp_path: Path, does: str, later: str, proof: str
) -> None:
    with scratch(tmp_path) as home:
        gate = home.root / "gate"
        os.mkfifo(gate)
        home.settle(
            "coder=writes", "limits.attempts=1", coders={"writes": {"argv": ["/bin/sh", "-c", f"echo {does} >app.txt"]}}
        )
        repo = _project(home)
        check = f"{{run: 'cat {gate} && grep -q fixed app.txt', before: false}}"
        (repo / "fleet.yaml").write_text(f"project: {{name: p}}\nchecks: [{check}]\n")
        subprocess.run([*COMMIT, "a check that takes its time"], cwd=repo, check=True)
        task = home.add("work", "--place", "worktree", cwd=repo)
        supervisor = home.run()
        with gate.open("w"):  # the check runs, and reads it to its end
            place = Path(home.task(task)["cwd"])
            (place / "app.txt").write_text(f"{later}\n")
            subprocess.run([*COMMIT, "late"], cwd=place, check=True)
        supervisor.hear("settled", task=task)
        receipt = home.receipt(task)
        assert receipt["verdict"] == proof
        landed = subprocess.run(
            ["git", "show", f"refs/fleet/attempts/{task}.1:app.txt"],
            cwd=repo,
            capture_output=True,
            text=True,
            check=True,
        )
        assert landed.stdout == f"{does}\n"
        home.ok("verify", "--no-run", task)
        _is_ended_with_whoever_asked(home, gate, task)
        assert supervisor.stop() == 0


def _is_ended_with_whoever_asked(home: Scratch, gate: Path, task: str) -> None:
    """A check that `fleet verify` runs again, when its user has enough of it."""
    asks = subprocess.Popen(
        [sys.executable, "-m", "fleet", "verify", task],
        env=home.env,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    with gate.open("w"):
        asks.send_signal(signal.SIGINT)
        assert asks.wait(60) == 130
        with pytest.raises(OSError, match="No such device or address"):
            os.open(gate, os.O_WRONLY | os.O_NONBLOCK)


def test_a_check_that_anybody_could_rewrite_proves_nothing(tmp_path: Path) -> None:
    with scratch(tmp_path) as home:
        lies = {"argv": ["/bin/sh", "-c", "echo exit 0 >check.sh"]}
        home.settle("coder=lies", "limits.attempts=1", coders={"lies": lies})
        place = home.place("p")
        (place / "check.sh").write_text("exit 1\n")
        task = home.add("work", "--check", "sh check.sh", cwd=place)
        home.drain()
        assert home.task(task)["proof"] == "unverified"
        assert "outside a git repository" in home.receipt(task)["reason"]


def test_what_an_agent_leaves_above_the_checkout_is_no_part_of_a_check(tmp_path: Path) -> None:
    """Runners look for their settings in every directory above: here pytest, which then takes failures for passes."""
    with scratch(tmp_path) as home:
        repo, above = home.place("repo", git=True), home.home.parent
        (repo / "test_app.py").write_text("def test_app():\n    assert open('app.txt').read() == 'fixed'\n")
        (repo / "app.txt").write_text("broken")
        for words in (("add", "-A"), ("commit", "-qm", "app")):
            subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=n@n.invalid", *words], cwd=repo, check=True)
        (home.root / "planted.py").write_text(LENIENT)
        plants = f"cp {home.root}/planted.py {above}/conftest.py; printf '[pytest]\\n' >{above}/pytest.ini"
        lies = {"argv": ["/bin/sh", "-c", f"cat >/dev/null; {plants}; echo word >notes.txt"]}
        home.settle("backoff=0s", "limits.attempts=1", coders={"plants": lies})
        check = f"{sys.executable} -m pytest -q -p no:cacheprovider"
        task = home.add("mend it", "--cwd", repo, "--coder", "plants", "--place", "worktree", "--check", check)
        home.drain()
        (done,) = home.receipt(task)["checks"]
        assert (done["network"], home.task(task)["state"]) == (False, "refused"), done
        assert done["counts"] == {"failed": 1}


def test_a_check_that_is_killed_each_time_it_is_run_has_failed_and_costs_no_more_attempts(tmp_path: Path) -> None:
    with scratch(tmp_path) as home:
        works = {"argv": ["/bin/sh", "-c", "echo more >>work.txt"]}
        home.settle("coder=works", "limits.attempts=1", "backoff=0s", coders={"works": works})
        task = home.add("work", "--check", "kill -9 $$", cwd=home.place("p", git=True))
        home.drain()
        row = home.task(task)
        assert (row["state"], row["proof"], row["attempts"]) == ("refused", "refused", 1)
        assert row["cause"].startswith('check "kill -9 $$" failed: ended by signal 9')


@pytest.mark.long
def test_pipes_in_repositories_inside_keep_no_honest_task_waiting(tmp_path: Path) -> None:
    with scratch(tmp_path) as home:
        trap = "cat >/dev/null; echo x >work.txt; git init -q in; rm in/.git/HEAD; mkfifo in/.git/HEAD"
        agents = {"traps": trap, "works": "cat >/dev/null; echo x >work.txt"}
        coders = {name: {"argv": ["/bin/sh", "-c", does]} for name, does in agents.items()}
        home.settle("coder=works", "backoff=0.1s", "limits.attempts=1", "max_concurrent=8", coders=coders)
        place = home.place("p", git=True)
        asked = ["traps"] * 5 + ["works"] * 2
        how = ("--place", "worktree", "--check", "test -f work.txt")
        tasks = [home.add("work", "--coder", one, *how, cwd=place) for one in asked]
        home.drain()
        proofs = [home.task(task)["proof"] for task in tasks]
        assert proofs == ["refused"] * 5 + ["verified"] * 2
        assert "in/.git/HEAD is no plain file" in home.task(tasks[0])["cause"]


@pytest.mark.long
def test_a_place_that_cannot_be_taken_is_refused_to_the_last_and_whoever_is_told_may_mend_it(tmp_path: Path) -> None:
    agents = {
        "leaves": "cat >/dev/null; echo x >work.txt; test -p .gitignore || mkfifo .gitignore",
        "mends": "if grep -q 'no plain file'; then rm .gitignore; else echo x >work.txt; mkfifo .gitignore; fi",
    }
    with scratch(tmp_path) as home:
        coders = {name: {"argv": ["/bin/sh", "-c", does]} for name, does in agents.items()}
        home.settle("coder=leaves", "backoff=0.1s", "limits.attempts=2", "max_concurrent=3", coders=coders)
        asked = {
            one: ("--place", one[1], "--coder", one[0], "--check", "test -f work.txt")
            for one in (("leaves", "worktree"), ("leaves", "inplace"), ("mends", "clone"))
        }
        tasks = {one: home.add("work", *how, cwd=home.place("-".join(one), git=True)) for one, how in asked.items()}
        home.drain()
        why = r"what it left cannot be taken: /.+/\.gitignore is no plain file, and git would wait for it"
        for (name, kind), task in tasks.items():
            row, tried = home.task(task), home.shown(task)["history"]
            wanted = ("refused", "refused") if name == "leaves" else ("done", "verified")
            assert (row["state"], row["proof"]) == wanted, (name, kind, row)
            assert [one["ending"] for one in tried] == ["finished"] * 2
            assert all(re.fullmatch(why, one["reason"]) for one in tried if one["proof"] == "refused")
        assert [one["path"] for one in home.receipt(tasks["mends", "clone"])["result"]["changes"]] == ["work.txt"]
