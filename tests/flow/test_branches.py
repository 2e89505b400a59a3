"""Agents on branches through the program: a real tmux, a real git, and a stand-in Claude Code that does as told."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fleet.host.tmux import sockets
from standins.coders.scratch import Ran, alive, until
from standins.yard import Yard
from standins.yard import yard as opened

pytestmark = pytest.mark.tmux
LISTENS = Path(__file__).parents[1] / "standins" / "coders" / "listens"
WORDS = "-x 'single' \"double\" `back` $(touch pwned) ${HOME} \\ ; touch pwned; #{pid} über 🦆 漢字"
LONG = f"{WORDS}\n  indented\n\nx'; touch pwned\n{'a line of 40 characters, more or less..' * 1250}\nthe very end"


@pytest.fixture
def yard(tmp_path: Path) -> Iterator[Yard]:
    with opened(tmp_path / "a yard with spaces and ümlauts") as made:
        yield made


def at_once(yard: Yard, calls: Sequence[Sequence[str]]) -> list[Ran]:
    """Several programs that run at the same time."""
    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(lambda words: yard.fleet(*words), calls))


# ---- begin, and talk


def test_a_prompt_arrives_byte_for_byte(yard: Yard) -> None:
    """Seed fault: an apostrophe, a quote or several lines in a prompt; a prompt `C-c` ends the agent."""
    made = yard.create("quotes", LONG)
    attempt = made["attempt"]
    assert yard.took(attempt) == [LONG.encode()]
    assert yard.ok("prompt", "quotes", "--", "C-c").out == "taken      quotes\n"
    assert yard.ok("prompt", "quotes", "-", stdin='--force\n"two" lines').out == "taken      quotes\n"
    assert yard.took(attempt)[1:] == [b"C-c", b'--force\n"two" lines']
    assert not (Path(made["path"]) / "pwned").exists()
    assert not (yard.project / "pwned").exists()
    assert yard.rows()["quotes"]["state"] == "waiting"


def test_the_first_prompt_comes_from_standard_input_and_a_dirty_tree_is_left_alone(
    yard: Yard,
) -> None:
    (yard.project / "README").write_text("changed and not committed\n")
    made = yard.ok("create", "piped", "-p", "-", "--json", stdin="write a.txt über\n").json()[0]
    assert yard.took(made["attempt"]) == [b"write a.txt \xc3\xbcber\n"]
    place = Path(made["path"])
    until((place / "a.txt").exists)
    assert (place / "README").read_text() == "read me\n"
    assert (yard.project / "README").read_text() == "changed and not committed\n"
    assert yard.git("status", "--porcelain") == "M README"


def test_what_stands_where_is_seen_by_everybody_who_looks(yard: Yard) -> None:
    """Seed fault: CPU and memory were the login shell's; states were words on the screen; a place sees no agents."""
    made = yard.create(
        "seen", "write a.txt one\ncommit first\nwrite b.txt two\ndaemon 150\nspend 1234", "--model", "m1"
    )
    row = yard.rows()["seen"]
    facts = {name: row[name] for name in ("state", "agent", "model", "ahead", "changed", "batch", "terminal", "tokens")}
    assert facts == {
        "state": "waiting", "agent": "claude", "model": "m1", "ahead": 1, "changed": 1, "batch": "",
        "terminal": "ai_seen", "tokens": 1244,
    }  # fmt: skip
    assert row["memory"] > 150 << 20
    assert row["cpu"] is not None
    assert row["runtime"] > 0
    assert (row["task"], row["attempt"], row["path"]) == (made["task"], made["attempt"], made["path"])
    inside = Path(made["path"]) / "deep"
    inside.mkdir()
    assert yard.rows(cwd=inside).keys() == {"seen"}
    assert yard.rows("--all", cwd=yard.root).keys() == {"seen"}
    table = yard.ok("list").out
    header, line, why = table.splitlines()[:3]
    assert header.split() == [
        "BRANCH",
        "STATE",
        "AGENT",
        "MODEL",
        "CPU",
        "MEM",
        "RUNTIME",
        "AHEAD",
        "CHANGED",
        "TASK",
        "BATCH",
    ]
    assert line.split()[:4] == ["seen", "waiting", "claude", "m1"]
    assert why.strip() == "its turn is over"
    assert yard.task(made["task"])["state"] == "waiting"
    shown = yard.shown(made["task"])
    assert shown["history"][0]["branch"] == "seen"
    assert "answer 1" in yard.ok("logs", "seen").out
    assert "answer 1" in "".join(yard.ok("logs", "seen", "--json").json()["lines"])
    assert yard.fleet("logs", "seen", "--json", "-f").code == 2
    yard.ok("prompt", "seen", "Do you want to proceed? Error: crashed, waiting for your leave")
    yard.rested(made["attempt"], 2)
    assert yard.rows()["seen"]["state"] == "waiting"

    (ended,) = yard.kill("seen")
    assert (ended["commits"], ended["saved"]) == (1, made["attempt"])
    receipt = yard.receipt(made["task"])
    assert receipt["attempt"]["tokens"] == 1354
    assert (receipt["heard"]["sha256"], receipt["program"]["sha256"] is not None) == ("", True)
    assert yard.ok("verify", "seen", "--json").json()["holds"] is True
    assert [one["subject"] for one in receipt["result"]["commits"]] == ["first"]
    assert yard.task(made["task"])["state"] == "cancelled"
    assert "answer 1" in yard.ok("logs", made["task"]).out


def test_somebody_looks_at_an_agent_types_and_leaves_and_it_goes_on(yard: Yard) -> None:
    made = yard.create("watched", "hello")
    with yard.attached("watched") as person:
        person.shows("answer 1")
        person.press(b"typed by hand\r")
        person.shows("answer 2")
        person.press(b"\x02d")
        assert person.left() == 0
    assert yard.took(made["attempt"]) == [b"hello", b"typed by hand"]
    assert yard.rows()["watched"]["state"] == "waiting"
    refused = yard.fleet("attach", "watched")
    assert (refused.code, "a terminal is needed" in refused.err) == (1, True)


def test_logs_go_on_until_the_agent_ends(yard: Yard) -> None:
    made = yard.create("followed", "hello")
    with yard.start("logs", "-f", "followed") as following:
        assert following.stdout is not None
        assert following.stdout.readline() == b"Claude Code, or one that stands in for it.\n"
        yard.ok("prompt", "followed", "exit 4")
        said = following.stdout.read()
    assert b"answer 1" in said
    assert b"bye" in said
    row = yard.rows()["followed"]
    assert (row["state"], row["cause"]) == ("ended", "exit 4")
    late = yard.fleet("prompt", "followed", "are you there?")
    assert late.code == 1
    assert "not taken" in late.err
    assert "ended" in late.err
    assert yard.took(made["attempt"]) == [b"hello", b"exit 4"]


def test_nothing_is_typed_into_an_agent_that_asks(yard: Yard) -> None:
    made = yard.create("asks", "ask touch x")
    until(lambda: yard.rows()["asks"]["state"] == "asks")
    assert "touch x" in yard.rows()["asks"]["cause"]
    refused = yard.fleet("prompt", "asks", "something else\n")
    assert refused.code == 1
    assert "not taken" in refused.err
    assert "Do you want to run `touch x`?" in refused.err
    assert yard.strays(made["attempt"]) == b""
    yard.tmux("send-keys", "-t", "ai_asks", "Enter")
    yard.rested(made["attempt"])
    yard.ok("prompt", "asks", "something else")
    assert yard.took(made["attempt"])[-1] == b"something else"


# ---- several at once


def test_several_are_begun_told_and_ended_together(yard: Yard) -> None:
    made = yard.ok("fanout", 3, "race", "-p", "write a.txt same", "--json").json()
    assert [one["branch"] for one in made] == ["race-A1", "race-A2", "race-A3"]
    assert {one["batch"] for one in made} == {"race"}
    more = yard.ok("multi", "fix:a: b: c", "docs:see http://x.invalid/: --all", "--json").json()
    assert [yard.took(one["attempt"]) for one in more] == [[b"a: b: c"], [b"see http://x.invalid/: --all"]]
    batch = more[0]["batch"]
    assert batch.startswith("multi-")
    assert {one["batch"] for one in more} == {batch}
    for attempt in [one["attempt"] for one in (*made, *more)]:
        yard.rested(attempt)

    said = yard.ok("prompt", "race-*", "all of you", "--json").json()
    assert [one["taken"] for one in said] == [True] * 3
    assert [yard.took(one["attempt"])[-1] for one in made] == [b"all of you"] * 3
    assert len(yard.ok("prompt", "--batch", batch, "both", "--json").json()) == 2
    assert yard.ok("list", "--grouped").out.count(batch) >= 1

    asked = yard.fleet("kill", "race-*")
    assert (asked.code, "--force" in asked.err) == (2, True)
    assert "race-A1" in asked.err
    assert len(yard.rows()) == 5
    assert [one["branch"] for one in yard.kill("race-*")] == ["race-A1", "race-A2", "race-A3"]
    assert yard.rows().keys() == {"fix", "docs"}
    assert len(yard.kill(batch, "--batch")) == 2
    again = yard.fleet("kill", "fix", "--force")
    assert (again.code, "there is no agent on fix" in again.err) == (3, True)
    assert yard.branches() == {"main"}


@pytest.mark.long
def test_a_mistake_among_several_makes_none(yard: Yard) -> None:
    """Seed fault: fanout says "started" when nothing was; and leaks what it made."""
    for wrong, code, said in (
        (("multi", "good:x", "bad..name:x"), 2, "cannot be the name of a branch"),
        (("multi", "good:x", "good:y"), 2, "twice"),
        (("multi", "good:x", "noprompt"), 2, "not a branch and a prompt"),
        (("fanout", 2, "x", "-p", "y", "--agent", "nobody"), 3, "nobody"),
        (("create", "x", "--base", "nowhere"), 3, "no commit 'nowhere'"),
        (("create", "x", "-p", " "), 2, "the prompt is empty"),
        (("create", "x", "-p", "-"), 2, "the prompt is empty"),  # nothing is piped in
        (("fanout", 2, "x", "-p", ""), 2, "the prompt is empty"),
    ):
        ran = yard.fleet(*wrong)
        assert (ran.code, said in ran.err) == (code, True), (wrong, ran)
        assert not yard.rows(), wrong
    assert yard.branches() == {"main"}


@pytest.mark.long
def test_when_one_of_several_cannot_be_made_the_others_are_kept_or_all_are_undone(yard: Yard) -> None:
    (yard.project / "fleet.yaml").write_text("""workspace: {setup: ['case "$PWD" in */mine-*) exit 3;; esac']}\n""")
    some = yard.fleet("multi", "a:write f.txt x", "mine:y", "b:z")
    assert some.code == 1
    assert "not begun  mine" in some.err
    assert "exit code 3" in some.err
    assert "2 of 3" in some.err
    assert yard.rows().keys() == {"a", "b"}
    yard.kill("*")
    none = yard.fleet("multi", "--atomic", "a:x", "mine:y", "b:z")
    assert none.code == 1
    assert none.out.count("undone") == 2
    assert not yard.rows()
    assert yard.branches() == {"main"}


def test_what_git_cannot_have_is_known_before_anything_is_made(yard: Yard) -> None:
    yard.git("worktree", "add", "-q", "-b", "mine", str(yard.root / "mine"))
    for wrong, why in (("mine", "checked out in"), ("main", "checked out in"), ("main/sub", "beside main")):
        refused = yard.fleet("multi", "a:x", f"{wrong}:y")
        assert (refused.code, why in refused.err) == (1, True), refused.err
    assert not yard.rows()
    assert yard.ok("tasks", "--all", "--json").json() == []
    yard.git("worktree", "remove", str(yard.root / "mine"))


@pytest.mark.long
def test_ten_shells_begin_ten_agents(yard: Yard) -> None:
    """Seed fault: of 20 parallel creates one was known, 19 were orphans."""
    branches = [f"shell-{n}" for n in range(10)]
    ran = at_once(yard, [("create", branch, "-p", branch) for branch in branches])
    assert [one.code for one in ran] == [0] * 10, ran
    rows = yard.rows()
    assert sorted(rows) == sorted(branches)
    assert {name: yard.took(row["attempt"]) for name, row in rows.items()} == {
        name: [name.encode()] for name in branches
    }


def test_of_five_shells_that_want_one_branch_one_gets_it(yard: Yard) -> None:
    ran = at_once(yard, [("create", "same", "-p", f"write {n}.txt x") for n in range(5)])
    assert [one.code for one in ran].count(0) == 1, ran
    for one in ran:
        assert one.code == 0 or "same" in one.err, one
    rows = yard.ok("list", "--json").json()
    assert [row["branch"] for row in rows] == ["same"]
    assert len(yard.took(rows[0]["attempt"])) == 1
    assert yard.sessions() == ["ai_same"]


# ---- end


def test_what_was_not_committed_is_saved_and_everything_that_ran_is_gone(yard: Yard) -> None:
    """Seed fault: kill destroys uncommitted work, and removes the worktree before it stops the agent."""
    yard.git("config", "user.name", "person")
    prompt = (
        "ignore-signals\ndaemon\nwrite kept.txt committed\ncommit one\nwrite stashed.txt s\nstash\n"
        "write README changed\nwrite staged.txt staged\nstage staged.txt\nwrite staged.txt and changed\n"
        "write dir/new.txt untracked\nwork"
    )
    made = yard.create("busy", prompt)
    place = Path(made["path"])
    until((place / "dir/new.txt").exists)
    agents = until(yard.agents)
    assert len(yard.daemons()) == 1
    (ended,) = yard.kill("busy")
    assert not any(alive(pid) for pid in agents)
    assert not yard.daemons()
    assert not place.exists()
    assert yard.git("show", "busy:kept.txt") == "committed"
    saved = ended["saved"]
    assert saved == made["attempt"]
    assert yard.saved(saved, "dir/new.txt") == b"untracked\n"
    assert yard.saved(saved, "README") == b"changed\n"
    assert yard.saved(saved, "staged.txt") == b"and changed\n"
    assert yard.git("show", f"refs/fleet/salvage/{saved}:staged/staged.txt") == "staged"
    assert "stashed.txt" in yard.git("stash", "show", "--include-untracked", "--name-only", "stash@{0}")
    assert yard.branches() == {"main", "busy"}


@pytest.mark.long
def test_the_socket_of_a_server_goes_with_its_last_terminal(yard: Yard) -> None:
    socket = sockets() / yard.socket()
    yard.create("first")
    yard.create("second")
    yard.kill("first")
    assert socket.is_socket()
    assert yard.sessions() == ["ai_second"]
    yard.kill("second")
    assert not socket.exists()
    yard.create("third")
    yard.tmux("kill-server")
    until(lambda: not yard.agents())
    assert socket.is_socket(), "tmux leaves it"
    yard.mended()
    assert not socket.exists()
    assert yard.rows()["third"]["state"] == "ended"
    assert not list(socket.parent.glob(f"{socket.name}*"))


@pytest.mark.long
def test_of_work_inside_a_submodule_one_thing_is_said(yard: Yard) -> None:
    library = yard.place("library", git=True)
    yard.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library), "lib")
    yard.git("commit", "-qm", "a submodule")
    made = [yard.create(name) for name in ("dirty", "named", "untouched")]
    for one in made[:2]:
        (Path(one["path"]) / "lib/new.txt").write_text("new\n")
    inner, outer = Path(made[1]["path"]) / "lib", Path(made[1]["path"])
    for where in (inner, outer):
        yard.git("add", "--all", cwd=where)
        yard.git("commit", "-qm", "new", cwd=where)
    ended = {name: yard.ok("kill", "--force", name) for name in ("dirty", "named", "untouched")}
    first, second = (f"what only its place had: fleet salvage show {one['attempt']}" for one in made[:2])
    assert ended["dirty"].out == f"ended      dirty  {first}\n"
    assert ended["dirty"].err.strip() == (
        "refused: what it left cannot be taken: it is inside a repository of its own: lib"
    )
    assert ended["named"].out == f"ended      named  1 commit stays on the branch  {second}\n"
    assert ended["named"].err.strip() == "refused: lib is a submodule, which is protected"
    assert (ended["untouched"].out, ended["untouched"].err) == ("ended      untouched\n", "")


@pytest.mark.long
def test_a_branch_without_commits_goes_and_one_that_was_there_stays(yard: Yard) -> None:
    yard.git("branch", "old")
    yard.create("new")
    yard.create("old")
    yard.kill("*")
    assert yard.branches() == {"main", "old"}
    assert not yard.salvage()
    yard.create("old", "write a.txt x\ndetach on no branch")
    (ended,) = yard.kill("old")
    commits = yard.git("log", "--format=%s", f"refs/fleet/salvage/{ended['saved']}")
    assert "on no branch" in commits


@pytest.mark.long
def test_what_stood_on_a_branch_before_is_not_the_agents_work(yard: Yard) -> None:
    """It is compared with where the branch left the others; what the agent did begins where the agent began."""
    yard.git("checkout", "-qb", "begun")
    (yard.project / "earlier.txt").write_text("by a person\n")
    yard.git("add", "-A")
    yard.git("commit", "-qm", "by a person")
    yard.git("checkout", "-q", "-")
    idle, busy = yard.create("begun", "hello"), yard.create("new", "write a.txt x\ncommit mine")
    assert [yard.rows()[name]["ahead"] for name in ("begun", "new")] == [1, 1]
    assert "earlier.txt" in yard.ok("diff", "begun").out
    assert [yard.kill(name)[0]["commits"] for name in ("begun", "new")] == [0, 1]
    assert yard.receipt(idle["task"])["result"]["commits"] == []
    assert [one["subject"] for one in yard.receipt(busy["task"])["result"]["commits"]] == ["mine"]
    again = yard.create("new", "write b.txt x\ncommit more")
    assert yard.rows()["new"]["ahead"] == 2
    yard.kill("new")
    assert [one["subject"] for one in yard.receipt(again["task"])["result"]["commits"]] == ["more"]


@pytest.mark.long
def test_of_three_shells_that_end_one_agent_one_does_and_the_place_is_saved_once(yard: Yard) -> None:
    made = yard.create("once", "write a.txt x")
    ran = at_once(yard, [("kill", "--force", "once")] * 3)
    assert {one.code for one in ran} <= {0, 1, 3}, ran
    assert 0 in {one.code for one in ran}
    assert [yard.saved(name, "a.txt") for name in yard.salvage()] == [b"x\n"]
    assert not yard.rows()
    late = yard.fleet("prompt", "once", "are you there?")
    assert (late.code, "fleet create once" in late.err) == (1, True)
    assert "answer 1" in yard.ok("logs", "once").out
    assert yard.task(made["task"])["state"] == "cancelled"


@pytest.mark.long
def test_an_agent_that_is_aborted_leaves_its_place_to_the_next_one(yard: Yard) -> None:
    first = yard.create("kept", "write a.txt x")
    yard.ok("abort", first["task"], cwd=yard.root)
    assert not yard.rows()
    assert not yard.agents()
    assert (Path(first["path"]) / "a.txt").exists()
    second = yard.create("kept", "write b.txt y")
    assert second["path"] == first["path"]
    (ended,) = yard.kill("kept")
    assert (yard.saved(ended["saved"], "a.txt"), yard.saved(ended["saved"], "b.txt")) == (b"x\n", b"y\n")


def test_what_was_committed_in_a_clone_comes_back_and_an_empty_branch_does_not(yard: Yard) -> None:
    (yard.project / "fleet.yaml").write_text("workspace: {place: clone, branch_prefix: me/}\n")
    made = yard.create("full", "write a.txt x\ncommit one\nwrite b.txt y")
    yard.create("empty", "write c.txt z")
    assert made["branch"] == "me/full"
    killed = yard.ok("kill", "full", "--force").out
    assert "1 commit stays on the branch" in killed
    (ended,) = yard.kill("empty")
    assert yard.branches() == {"main", "me/full"}
    assert yard.git("show", "me/full:a.txt") == "x"
    assert yard.saved(made["attempt"], "b.txt") == b"y\n"
    assert yard.saved(ended["saved"], "c.txt") == b"z\n"


# ---- names and places


@pytest.mark.long
def test_no_two_branches_share_a_place(yard: Yard) -> None:
    """Seed fault: feature/a and feature-a share a worktree; branch v1.2 is impossible; `create ..` deletes places."""
    names = ["feature/a", "feature-a", "v1.2", "it's;$(x)`\"🦆", "{branch}#S", f"long/{'ä' * 125}"]
    made = {name: yard.create(name, f"write name.txt {n}") for n, name in enumerate(names)}
    assert len({one["path"] for one in made.values()}) == len(names)
    assert len({one["terminal"] for one in made.values()}) == len(names)
    for wrong in ("..", "../x", "a/../b", "/x", "-x", "", "HEAD", "a b", "x.lock"):
        refused = yard.fleet("create", "--", wrong)
        assert (refused.code, "cannot be the name of a branch" in refused.err) == (2, True), wrong
    yard.kill("feature-a")
    assert yard.rows().keys() == set(names) - {"feature-a"}
    for n, name in enumerate(names):
        if name != "feature-a":
            assert (Path(made[name]["path"]) / "name.txt").read_text() == f"{n}\n"
            assert yard.ok("prompt", "--json", "--", name, "still there?").json()[0]["taken"]
    assert len(yard.salvage()) == 1


@pytest.mark.long
def test_the_same_branch_in_two_projects_is_two_agents(yard: Yard) -> None:
    """Seed fault: it types into the other project's session."""
    other = yard.place("other/project", git=True)
    yard.projects.append(other)
    one, two = yard.create("same", "one"), yard.create("same", "two", cwd=other)
    yard.ok("prompt", "same", "to the second", cwd=other)
    assert (yard.took(one["attempt"]), yard.took(two["attempt"])) == ([b"one"], [b"two", b"to the second"])
    assert yard.rows().keys() == yard.rows(cwd=other).keys() == {"same"}
    assert len(yard.ok("list", "--all", "--json").json()) == 2
    yard.kill("same", cwd=other)
    assert not yard.rows(cwd=other)
    assert yard.rows()["same"]["state"] == "waiting"


def test_where_there_is_nothing_to_begin_from_it_is_said(yard: Yard) -> None:
    bare = yard.place("unborn", git=True, commit=False)
    yard.projects.append(bare)
    refused = yard.fleet("create", "x", cwd=bare)
    assert (refused.code, "has no commit yet" in refused.err) == (1, True)
    outside = yard.fleet("create", "x", cwd=yard.root)
    assert (outside.code, "not in a git repository" in outside.err) == (3, True)


@pytest.mark.long
def test_from_a_detached_head_and_from_a_subdirectory(yard: Yard) -> None:
    yard.git("commit", "--allow-empty", "-qm", "second")
    yard.git("checkout", "-q", "--detach", "HEAD~1")
    deep = yard.project / "deep" / "er"
    deep.mkdir(parents=True)
    made = yard.create("from-there", cwd=deep)
    assert yard.git("rev-parse", "from-there") == yard.git("rev-parse", "HEAD")
    taken = yard.fleet("create", "main")  # nobody has it checked out now
    assert taken.code == 0, taken
    yard.git("checkout", "-q", "-b", "mine")
    refused = yard.fleet("create", "mine")
    assert (refused.code, "checked out in" in refused.err) == (1, True)
    again = yard.fleet("create", "from-there")
    assert (again.code, made["attempt"] in again.err) == (2, True)


# ---- settings


def test_the_set_up_of_a_project_is_kept_to(yard: Yard) -> None:
    """Seed fault: a failing set-up command is "success"; ~ makes a directory; credential files leave the tree."""
    (yard.project / "secret.env").write_text("s3cret\n")
    (yard.root / "outside").write_text("not yours\n")
    settings = yard.project / "fleet.yaml"

    def workspace(text: str) -> None:
        settings.write_text(f"workspace: {{{text}}}\n")

    workspace("setup: ['echo said; exit 7']")
    failed = yard.fleet("create", "x")
    assert failed.code == 1
    assert "7" in failed.err
    assert "said" in failed.err
    assert not yard.rows()
    assert yard.branches() == {"main"}
    workspace("credential_files: ['../outside']")
    refused = yard.fleet("create", "x")
    assert refused.code == 2
    assert "credential_files[0] must be a path inside the project" in refused.err
    settings.write_text("workspace: [")
    broken = yard.fleet("create", "x")
    assert broken.code == 2
    assert "fleet.yaml" in broken.err

    workspace(
        "worktree_root: ~/trees, credential_files: [secret.env], setup: [echo $MINE > port], env: {MINE: '{port}'}"
    )
    made = yard.create("set-up")
    place = Path(made["path"])
    assert place.parent == yard.user / "trees"
    assert (place / "secret.env").read_text() == "s3cret\n"
    assert int((place / "port").read_text()) >= 20_000
    assert yard.git("status", "--porcelain", cwd=place).splitlines() == ["?? port"]
    assert not (yard.project / "~").exists()
    yard.kill("set-up")
    assert not place.exists()


@pytest.mark.long
def test_a_broken_home_is_left_as_it_is(yard: Yard) -> None:
    """Seed fault: a corrupt state file is treated as empty and overwritten; a corrupt config is "valid"."""
    yard.create("there")
    settings = yard.home / "runtime.toml"
    kept = settings.read_text()
    settings.write_text("coder = [")
    refused = yard.fleet("create", "x")
    assert refused.code == 2
    assert "runtime.toml" in refused.err
    settings.write_text(kept)
    database = yard.home / "fleet.db"
    before = database.read_bytes()
    moved = {path: path.read_bytes() for path in yard.home.glob("fleet.db-*")}
    for path in moved:
        path.unlink()
    database.write_bytes(b"rubbish" * 1000)
    for command in (("list",), ("create", "x"), ("kill", "there", "--force"), ("list", "--repair")):
        broken = yard.fleet(*command)
        assert broken.code not in (0, 70), (command, broken)
        assert "fleet.db" in broken.err
    assert database.read_bytes() == b"rubbish" * 1000
    database.write_bytes(before)
    for path, content in moved.items():
        path.write_bytes(content)
    assert yard.rows()["there"]["state"] == "waiting"


# ---- limits


@pytest.mark.long
def test_a_limit_ends_an_agent_whoever_looks(yard: Yard) -> None:
    (yard.project / "fleet.yaml").write_text("limits: {tokens: 4000}\n")
    made = yard.create("spends", "write a.txt x\nspend 5000")
    yard.rows()
    until(lambda: yard.rows()["spends"]["state"] == "ended")
    row = yard.rows()["spends"]
    assert "5k tokens" in row["cause"]
    assert "fleet.yaml" in row["cause"]
    assert (Path(made["path"]) / "a.txt").exists()
    until(lambda: not yard.agents())
    assert yard.mended() == []

    supervisor = yard.run()
    more = yard.create("watched", "spend 5000\nwork")
    until(lambda: not yard.agents())
    row = yard.rows()["watched"]
    assert row["state"] == "ended"
    assert "tokens" in row["cause"]
    yard.kill("watched")
    assert yard.receipt(more["task"])["attempt"]["ending"] == "token limit"
    supervisor.stop()


@pytest.mark.long
def test_a_time_limit_that_is_set_ends_an_agent_in_a_terminal(yard: Yard) -> None:
    (yard.project / "fleet.yaml").write_text("limits: {timeout: 2s}\n")
    yard.create("slow")
    until(lambda: not yard.agents())
    row = yard.rows()["slow"]
    assert row["state"] == "ended"
    assert "timed out" in row["cause"], row


# ---- beside a supervisor


def test_a_supervisor_leaves_agents_in_terminals_alone(yard: Yard) -> None:
    made = yard.create("talked-to", "hello")
    yard.settle(coders={"ok": {}})
    queued = yard.add("queued", "--coder", "ok", cwd=yard.place("work"))
    yard.drain()
    assert yard.task(queued)["state"] == "done"
    assert yard.rows()["talked-to"]["state"] == "waiting"
    for _ in range(2):
        supervisor = yard.run()
        supervisor.stop(signal.SIGKILL)
    supervisor = yard.run()
    again = yard.add("again", "--coder", "ok", cwd=yard.place("more-work"))
    supervisor.hear("settled", task=again)
    assert supervisor.stop() == 0
    about = [one for one in supervisor.records if one.get("task") == made["task"]]
    assert not about, about
    assert yard.rows()["talked-to"]["state"] == "waiting"
    assert len(yard.shown(made["task"])["history"]) == 1
    yard.ok("prompt", "talked-to", "still there?")
    assert yard.took(made["attempt"])[-1] == b"still there?"


def test_what_is_said_to_a_queued_tasks_agent_reaches_its_next_turn(yard: Yard) -> None:
    """See also the guide: a coder that cannot be taken up again is told nothing, nor is one that has ended."""
    yard.settle(coders={"listens": {"events": "claude", "resume_flag": "--resume"}, "deaf": {"argv": [str(LISTENS)]}})
    can, cannot = (yard.add(name, "--coder", name, cwd=yard.place(f"w-{name}")) for name in ("listens", "deaf"))
    assert "told when it begins" in yard.ok("prompt", cannot, "first of all").out
    assert yard.fleet("prompt", "t99", "nobody").code == 3
    supervisor = yard.run()
    for task in (can, cannot):
        supervisor.hear("agent started", task=task)
        until(yard.artifact(task, "gate").exists)
    assert "first of all" in yard.artifact(cannot, f"prompt.{cannot}.1").read_text()
    refused = yard.fleet("prompt", cannot, "hurry")
    assert (refused.code, "cannot be told anything while it works" in refused.err) == (1, True)
    kept = yard.ok("prompt", can, "it's $(not) a question")
    assert "told at its next turn" in kept.out
    for task in (can, cannot):
        yard.open_gate(task)
    settled = supervisor.hear("settled", task=can)
    assert settled["ending"] == "told more"
    until(lambda: yard.task(can)["state"] == "done")
    assert "it's $(not) a question" in yard.artifact(can, f"prompt.{can}.2").read_text()
    over = yard.fleet("prompt", can, "and then")
    assert over.code == 1
    assert "fleet retry" in over.err
    supervisor.hear("settled", task=cannot)
    supervisor.stop()


def test_a_branch_by_its_name_goes_before_a_task_by_its_id(yard: Yard) -> None:
    first = yard.create("fix-auth", "hello")
    named = yard.create(first["task"], "hello too")
    assert [row["branch"] for row in yard.ok("kill", first["task"], "--force", "--json").json()] == [first["task"]]
    assert list(yard.rows()) == ["fix-auth"]
    yard.ok("prompt", first["task"], "it is you now")
    assert yard.took(first["attempt"])[-1] == b"it is you now"
    assert yard.took(named["attempt"]) == [b"hello too"]


@pytest.mark.parametrize(("text", "why"), [(b"\xff\xfe", "half a character"), (b"a\x1b[201~b", "control character")])
def test_what_cannot_be_pasted_is_refused_before_anything_is_made(yard: Yard, text: bytes, why: str) -> None:
    yard.create("there", "hello")
    for args in (("create", "other", "-p"), ("prompt", "there")):
        refused = yard.fleet(*args, os.fsdecode(text))
        assert refused.code in (1, 2), refused.err
        assert why in refused.err
        assert "task's" not in refused.err, "whose words these are"
    assert list(yard.rows()) == ["there"]
    assert len(yard.ok("tasks", "--all", "--json").json()) == 1


def test_nothing_of_an_agents_environment_stays_when_no_terminal_can_be_had(yard: Yard, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "tmux").write_text(
        '#!/bin/sh\ncase "$*" in *new-session*) echo no >&2; exit 1;; esac\nexec /usr/bin/tmux "$@"\n'
    )
    (broken / "tmux").chmod(0o755)
    refused = yard.fleet("create", "never", "-p", "hello", env={"PATH": f"{broken}:{yard.env['PATH']}"})
    assert refused.code == 1
    assert list(yard.home.glob("tasks/*/attempts/*/spec")) == []
    assert yard.leaked() == []
