"""A task stands on what it waited for: its agent begins with the results, and with the branch as it is by then."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from standins.coders.scratch import Scratch, scratch
from standins.yard import yard

# A coder that does what the description says after "do:", and keeps the prompt for us to read.
DOES = 'tee "$FLEET_ARTIFACT_DIR/prompt" | sed -n "s/^do: //p" | sh -e'
COMMIT = "git add -A; git -c user.name=n -c user.email=n@example.invalid commit -qm work"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Scratch]:
    with scratch(tmp_path) as found:
        coder = {"argv": ["/bin/sh", "-c", DOES]}
        found.settle("backoff=0s", "limits.attempts=1", "coder=does", "max_concurrent=3", coders={"does": coder})
        yield found


def repository(home: Scratch, name: str = "repo") -> Path:
    path = home.place(name, git=True)
    (path / "fleet.yaml").write_text("workspace: {place: worktree}\n")
    run(path, COMMIT)
    return path


def run(path: Path, command: str) -> str:
    done = subprocess.run(["/bin/sh", "-ec", command], cwd=path, env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"},
                          capture_output=True, text=True, check=True)  # fmt: skip
    return done.stdout.strip()


def add(home: Scratch, path: Path, title: str, do: str, *more: object) -> str:
    return home.add(title, "--cwd", path, "-d", f"do: {do}", *more)


def write(name: str, *, commit: bool = True) -> str:
    return f"echo {name} >{name}.txt" + (f"; {COMMIT}" if commit else "")


def test_a_chain_a_diamond_and_a_moved_branch(home: Scratch) -> None:
    repo, other = repository(home), repository(home, "other")
    a = add(home, repo, "write a", write("a"), "--check", "test -f a.txt")
    b = add(home, repo, "write b", write("b", commit=False), "--after", a, "--check", "test -f a.txt && test -f b.txt")
    c = add(home, repo, "write c", write("c"), "--after", a)  # nothing checks it
    apart = add(home, other, "elsewhere", write("e"), "--check", "test -f e.txt")
    everything = "test -f a.txt && test -f b.txt && test -f c.txt && test ! -e e.txt && cat moved.txt"
    d = add(
        home, repo, "write d", f"{everything}; {write('d')}", "--check", everything, "--after", b, "--after", c,
        "--after", apart,
    )  # fmt: skip
    run(repo, f"echo moved >moved.txt; {COMMIT}")
    run(repo, "git checkout -qb aside; echo dirty >README")
    home.drain()

    tasks = home.tasks()
    assert {name: tasks[name]["state"] for name in (a, b, c, d)} == dict.fromkeys((a, b, c, d), "done")
    last = home.shown(d)["history"][-1]
    stands_on = {one["name"]: one for one in last["stands_on"]}
    tip = run(repo, "git rev-parse main")
    assert list(stands_on) == [a, b, c, "main"]
    assert stands_on["main"]["commit"] == tip
    assert run(repo, f"git rev-parse refs/fleet/base/{d}.1") == last["base"]
    parents = run(repo, f"git show -s --format=%P {last['base']}").split()
    assert set(parents) == {stands_on[b]["commit"], stands_on[c]["commit"]}
    assert home.receipt(d)["result"]["totals"]["files"] == 1, "only what it did itself counts"

    text = home.ok("show", d).out
    short = {name: one["commit"][:7] for name, one in stands_on.items()}
    assert f"stands on: {b} ({short[b]}), {c} ({short[c]}, unverified) and main ({short['main']})" in text
    assert f"{apart}, which only orders: it is in another repository" in text
    prompt = home.artifact(d, "prompt").read_text()
    assert f"{b} ({short[b]}): write b\n{c} ({short[c]}, unverified): write c\n" in prompt
    assert home.ok("diff", d, "--stat", cwd=repo).out.count("|") == 1

    assert run(repo, "git symbolic-ref HEAD; cat README") == "refs/heads/aside\ndirty"
    assert run(repo, "git rev-parse main") == tip


def test_results_that_do_not_merge_wait_for_a_person(home: Scratch) -> None:
    repo = repository(home)
    same = [add(home, repo, f"write {n}", f"echo {n} >same.txt; {COMMIT}", "--check", "test -f same.txt") for n in "ab"]
    check = ("--check", "test -f same.txt && test -f c.txt")
    last = add(home, repo, "write c", write("c"), "--after", same[0], "--after", same[1], *check)
    home.drain()
    task = home.task(last)
    assert task["state"] == "blocked"
    one, two = (home.receipt(name)["result"]["landing"][:7] for name in same)
    assert task["cause"] == (
        f"{same[0]} ({one}) and {same[1]} ({two}) do not merge: both change same.txt; bring them into main by hand"
        f" (git merge fleet/{same[0]}, git merge fleet/{same[1]}), then: fleet retry {last}"
    )
    who = "git -c user.name=n -c user.email=n@example.invalid"
    run(repo, f"git merge -q fleet/{same[0]}; {who} merge -q -X ours fleet/{same[1]}")
    home.ok("retry", last)
    home.drain()
    assert home.task(last)["state"] == "done"
    assert f", which has {same[0]} and {same[1]}" in home.ok("show", last).out


def test_a_task_that_is_opened_again_begins_anew_unless_its_base_is_kept(home: Scratch) -> None:
    repo = repository(home)
    done = "--check", "test -f done"
    a = add(home, repo, "write a", write("a"), "--check", "test -f a.txt")
    tries = f"ls >>tries-$FLEET_ATTEMPT; {COMMIT}; echo not committed >left"
    b = add(home, repo, "try", tries, "--after", a, "--attempts", "2", *done)
    home.drain()
    assert (home.task(b)["state"], home.task(b)["attempts"]) == ("refused", 2)
    bases = [one["base"] for one in home.shown(b)["history"]]
    assert bases[0] == bases[1], "an automatic attempt keeps its base"

    run(repo, f"echo moved >moved; {COMMIT}")
    opened = home.ok("retry", b, "--keep-base").out
    assert opened.startswith(f"Opened {b}: it goes on in the place of {b}.2, which stands on {a} (")
    home.drain()
    third = home.shown(b)["history"][2]
    assert third["base"] == bases[0]
    assert {one["path"] for one in home.receipt(b)["result"]["changes"]} >= {f"tries-{b}.{n}" for n in (1, 2, 3)}

    opened = home.ok("retry", b).out
    assert opened.startswith(f"Opened {b}: it begins anew from main and what it waits for, as they are then; what {b}.")
    last = third["number"] + len(home.shown(b)["history"]) - 3
    home.drain()
    anew = home.shown(b)["history"][last]
    names = run(repo, f"git ls-tree --name-only {anew['base']}").split()
    assert "moved" in names, "the branch as it is now"
    assert "a.txt" in names
    tree = run(repo, f"git show refs/fleet/attempts/{anew['id']}:tries-{anew['id']}").split()
    assert "left" not in tree, "its place is made anew"
    assert "not committed" in run(repo, f"git show refs/fleet/attempts/{b}.{last}:left"), "what was there is not lost"

    home.ok("retry", a)
    home.drain()
    said = f"stands on {a}.1, which is no longer {a}'s result: fleet retry {b}"
    assert said in home.ok("show", b).out


def test_in_place_a_task_waits_for_a_result_that_is_not_there(home: Scratch) -> None:
    repo = repository(home)
    a = add(home, repo, "write a", write("a"), "--check", "test -f a.txt")
    b = add(home, repo, "write b", write("b"), "--after", a, "--place", "inplace", "--check", "test -f a.txt")
    c = add(home, repo, "write c", write("c"), "--after", b, "--place", "inplace", "--check", "test -f b.txt")
    home.drain()
    task = home.task(b)
    assert task["state"] == "blocked"
    assert task["cause"].startswith(f"it works in place, and {repo} does not have the result of {a} (")
    assert task["cause"].endswith(f"git -C {repo} merge fleet/{a}, then: fleet retry {b}")
    run(repo, f"git merge -q fleet/{a}")
    home.ok("retry", b)
    home.drain()
    assert {home.task(one)["state"] for one in (b, c)} == {"done"}
    assert home.shown(c)["stands_on"].startswith("main (")


def test_the_branch_that_a_result_is_meant_for(home: Scratch) -> None:
    repo = repository(home)
    run(repo, f"git checkout -qb next; echo next >next.txt; {COMMIT}; git checkout -q main; git branch later main")
    said = add(home, repo, "said", "ls >ls.txt", "--onto", "next")
    (home.root / "plan.json").write_text(f'[{{"title": "planned", "cwd": "{repo}", "onto": "next"}}]')
    planned = home.ok("add", "--file", home.root / "plan.json", "--json").json()[0]["id"]
    here = add(home, repo, "here", "ls >ls.txt")
    run(repo, "git checkout -q later")
    (repo / "fleet.yaml").write_text("workspace: {place: worktree}\nresults: {onto: next}\n")
    by_project = add(home, repo, "by its project", "ls >ls.txt")
    home.drain()
    onto = {name: home.shown(name)["history"][-1]["onto"] for name in (said, planned, here, by_project)}
    assert onto == {said: "next", planned: "next", here: "next", by_project: "next"}
    assert "next.txt" in run(repo, f"git show refs/fleet/attempts/{said}.1:ls.txt")

    for words, code, text in (
        (("--onto", "nope"), 3, f"there is no branch nope in {repo}"),
        (("--onto", "main", "--cwd", home.root), 2, "is in no git repository"),
    ):
        refused = home.fleet("add", "x", "--cwd", repo, *words)
        assert (refused.code, text in refused.err) == (code, True), refused.err


@pytest.mark.tmux
def test_an_agent_in_a_terminal_begins_with_the_result_of_a_task(tmp_path: Path) -> None:
    with yard(tmp_path / "yard") as found:
        found.ok("config", "set", "coders.does.argv=" + json.dumps(["/bin/sh", "-c", DOES]))
        where = ("--cwd", str(found.project), "--place", "worktree", "--coder", "does")
        a = found.ok("add", "write a", *where, "-d", f"do: {write('a')}", "--check", "test -f a.txt", "--json").json()[
            "id"
        ]
        early = found.fleet("create", "early", "--after", a)
        assert (early.code, f"{a} is not done" in early.err) == (1, True), early.err
        found.ok("run", "--drain")
        made = found.create("later", "write b.txt more\ncommit more", "--after", a)
        assert (Path(made["path"]) / "a.txt").exists()
        shown = found.ok("show", made["task"], "--json").json()
        assert shown["stands_on"].startswith(f"{a} (")
        assert found.git("rev-parse", f"refs/fleet/base/{made['attempt']}") == shown["history"][0]["base"]
        assert "b.txt" in found.ok("diff", "later", "--stat").out
        assert "a.txt" not in found.ok("diff", "later", "--stat").out
        found.git("branch", "there")
        there = found.fleet("create", "there", "--after", a)
        assert (there.code, "there is a branch there already" in there.err) == (2, True), there.err
        found.git("merge", "-q", f"fleet/{a}")
        assert len(found.ok("clean", "--places", "--yes", "--json").json()["removed"]) == 1


def test_the_branch_of_an_accepted_task_names_what_was_judged(home: Scratch) -> None:
    """An agent without a git identity, and agents that commit nothing, some or all of what they did."""
    repo = repository(home)
    kinds = {
        "nothing": "echo a >nothing.txt",
        "some": f"echo b >b.txt; {COMMIT}; echo c >some.txt",
        "all": write("all"),
    }
    names = {
        (kind, place): add(home, repo, f"{kind} in a {place}", do, "--place", place, "--check", f"test -f {kind}.txt")
        for place in ("worktree", "clone")
        for kind, do in kinds.items()
    }
    own = add(home, repo, "commit", "echo d >d.txt; git add -A; git commit -qm own", "--check", "test -f d.txt")
    refused = add(home, repo, "refused", "echo r >r.txt", "--check", "test -f missing.txt")
    said = [one for one in home.drain() if one["event"] == "git identity"]
    assert [one["text"] for one in said] == [
        "git does not know who you are, so agents commit as fleet agent <agent@no-git-identity.invalid>"
    ]
    assert run(repo, f"git show -s --format='%an <%ae>' fleet/{own}") == "fleet agent <agent@no-git-identity.invalid>"
    for (kind, place), task in names.items():
        landing = home.receipt(task)["result"]["landing"]
        assert run(repo, f"git rev-parse fleet/{task}") == landing, (kind, place)
        where = Path(home.shown(task)["history"][0]["cwd"])
        if place == "worktree":
            assert run(where, "git status --porcelain") == ""
        who = "git -c user.name=n -c user.email=n@example.invalid"
        run(
            repo,
            f"git checkout -q -B merged main; {who} merge -q fleet/{task}; test -f {kind}.txt; git checkout -q main",
        )
    left = home.receipt(refused)["result"]["landing"]
    assert run(repo, f"git rev-parse fleet/{refused}") != left, "a person may still look at what its agent committed"
    home.ok("accept", refused)
    assert run(repo, f"git rev-parse fleet/{refused}") == left

    again = names["nothing", "clone"]
    home.ok("retry", again, "--keep-base")
    home.drain()
    assert home.task(again)["state"] == "done"
    assert run(repo, f"git rev-parse fleet/{again}") == home.receipt(again)["result"]["landing"]
