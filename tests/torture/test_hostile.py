"""Agents that put things where the supervisor looks: nothing foreign is read, run or written, and the work goes on."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from standins.witness.scene import Scene

SECRET = "the-secret-of-somebody-else"
IN_TASK = ("events.jsonl", "log.jsonl", "receipt.json", "artifacts", "artifacts/PLAN_AND_STATUS.md", "attempts")
IN_ATTEMPT = ("stdout", "stderr", "receipt.json", "before.json", "exit.json", "agent.json", "lock", "events", "control")
KINDS = ("link", "fifo", "directory", "hardlink", "device", "gone")
READABLE = {
    "events.jsonl": "events",
    "log.jsonl": "log",
    "receipt.json": "receipt",
    "artifacts/PLAN_AND_STATUS.md": "plan",
    "artifacts": "plan",
}
PLANT = """
kind=$(sed -n 's/^Title: plant \\([a-z]*\\) .*/\\1/p') place=$1
. "$PWD/plant"
place="$FLEET_TASK_DIR/$where"
echo "before"
sleep 0.2
mkdir -p "$(dirname "$place")"; rm -rf "$place"
case $kind in
    link) ln -s "$SECRET" "$place" ;;
    fifo) mkfifo "$place" ;;
    directory) mkdir "$place"; cp "$SECRET" "$place/x" ;;
    hardlink) ln "$SECRET" "$place" ;;
    device) ln -s /dev/zero "$place" ;;
esac
echo "after"
sleep 0.2
echo "$FLEET_ATTEMPT" >"$FLEET_ATTEMPT.done"
echo "last"
exit 0
"""


@pytest.mark.long
def test_what_agents_plant_among_our_files_is_neither_read_nor_in_the_way(scene: Scene) -> None:
    secret = scene.root / "secret"
    secret.write_text(f"{SECRET}\n")
    secret.chmod(0o600)
    scene.works("short", steps=1)
    scene.script("plants", f"SECRET='{secret}'\n{PLANT}")
    scene.settings(max_concurrent=6, limits__attempts=1, fence="off")
    planted: dict[str, tuple[str, str]] = {}
    for where in (*IN_TASK, *(f"attempts/1/{name}" for name in IN_ATTEMPT)):
        for kind in KINDS:
            cwd = scene.directory(f"{where.replace('/', '_')}.{kind}")
            (cwd / "plant").write_text(f"where='{where}'\n")
            planted[f"{where} {kind}"] = str(cwd), f"plant {kind} {where}"
    ids = dict(zip(planted, scene.fill([
        {"title": title, "cwd": cwd, "coder": "plants"} for cwd, title in planted.values()
    ]), strict=True))  # fmt: skip
    honest = scene.fill([{"title": "t", "cwd": str(scene.directory(f"h{n}")), "coder": "short"} for n in range(3)])
    child = scene.start("--drain")
    with suppress(subprocess.TimeoutExpired):
        child.wait(100)
    bad = judge(scene, ids, honest, secret)
    if child.poll() is None:
        bad.append("the supervisor is not done")
    scene.report("links, FIFOs, directories, devices in our places", "planted; things that went wrong",
                 f"{len(ids)}; {len(bad)}")  # fmt: skip
    assert not bad, "\n".join([*bad, scene.said(1500)])


def judge(scene: Scene, ids: dict[str, str], honest: list[str], secret: Path) -> list[str]:
    bad = []
    tasks = scene.tasks()
    for name, task in ids.items():
        if tasks[task]["state"] not in ("done", "failed", "refused", "blocked"):
            bad.append(f"{name}: {tasks[task]['state']}: {tasks[task]['cause']}")
    bad += [f"an honest task is {tasks[task]['state']}" for task in honest if tasks[task]["state"] != "done"]
    for where, what in READABLE.items():
        for kind in KINDS:
            bad += read(scene, ids[f"{where} {kind}"], what, f"{where} {kind}")
    if secret.read_text() != f"{SECRET}\n" or secret.stat().st_mode & 0o777 != 0o600:
        bad.append(f"a foreign file was written to: {secret.read_text()[:200]!r}")
    for file in scene.home.rglob("*"):
        if file.is_file() and not file.is_symlink() and file.stat().st_nlink == 1 and file.name != "x":
            bad += [f"foreign bytes in {file}"] if SECRET.encode() in file.read_bytes() else []
    return bad


def read(scene: Scene, task: str, what: str, name: str) -> list[str]:
    """`fleet task` must answer at once, with nothing of the secret."""
    try:
        done = scene.fleet("task", task, what, timeout=15)
    except subprocess.TimeoutExpired:
        return [f"{name}: fleet task {what} blocks"]
    if SECRET in done.out + done.err:
        return [f"{name}: fleet task {what} serves foreign bytes"]
    return [f"{name}: fleet task {what} exits {done.code}: {done.err[-300:]}"] if done.code not in (0, 1, 3) else []


# ---- git

CONFIG = """
[core]
    fsmonitor = {run}
    hooksPath = {root}/hooks
    sshCommand = {run}
    pager = {run}
    editor = {run}
    alternateRefsCommand = {run}
    attributesFile = {root}/attributes
    gitProxy = {run}
    askPass = {run}
[alias]
    status = !{run}
    log = !{run}
    ls-remote = !{run}
    diff = !{run}
[filter "evil"]
    clean = {run}
    smudge = {run}
    process = {run}
    required = true
[diff "evil"]
    command = {run}
    textconv = {run}
[diff]
    external = {run}
[merge "evil"]
    driver = {run}
[uploadpack]
    packObjectsHook = {run}
[credential]
    helper = !{run}
[gpg]
    program = {run}
[log]
    showSignature = true
[includeIf "gitdir:/**"]
    path = {root}/included
[include]
    path = {root}/included
[url "ext::{run} %S "]
    insteadOf = {top}
[remote "origin"]
    url = ext::{run}
    uploadpack = {run}
    vcs = evil
[protocol]
    allow = always
[protocol "ext"]
    allow = always
[trace2]
    eventTarget = {root}/ran.trace
[submodule "sub"]
    update = !{run}
"""
INCLUDED = "[core]\n    fsmonitor = {run}\n[diff]\n    external = {run}\n"


def plant_git(scene: Scene, top: Path) -> None:
    """Every way known to us to make git run something, in one repository."""
    root = scene.root / "evil"
    (root / "hooks").mkdir(parents=True, exist_ok=True)
    run = root / "run.sh"
    run.write_text(f"#!/bin/sh\necho \"$0 $*\" >>'{scene.root}/ran'\ncat >/dev/null\n")
    run.chmod(0o755)
    facts = {"run": run, "root": root, "top": top}
    (root / "included").write_text(INCLUDED.format(**facts))
    (root / "attributes").write_text("* filter=evil diff=evil merge=evil\n")
    (root / "config").write_text(CONFIG.format(**facts))
    for place in (root / "hooks", top / ".git" / "hooks"):
        place.mkdir(parents=True, exist_ok=True)
        for name in ("post-index-change", "fsmonitor-watchman", "pre-commit", "reference-transaction", "post-checkout"):
            (place / name).write_bytes(run.read_bytes())
            (place / name).chmod(0o755)


GIT_AGENT = """
echo work >work.txt; printf '* filter=evil diff=evil merge=evil\\n' >.gitattributes
git -c user.name=w -c user.email=w@w -c core.hooksPath=/dev/null add -A
git -c user.name=w -c user.email=w@w -c core.hooksPath=/dev/null commit -q -m "the work of $FLEET_ATTEMPT"
echo later >>work.txt; echo new >untracked.txt
"""
PLANTED = {
    "config": "cat '{evil}/config' >>.git/config; mkdir -p .git/info; cp '{evil}/attributes' .git/info/attributes",
    "mirror": """
        ours="$FLEET_TASK_DIR/attempts/1/git"
        mkdir -p "$ours/info"; echo '{evil}/common' >"$ours/commondir"; cp '{evil}/attributes' "$ours/info/attributes"
        mkdir -p '{evil}/common'; cp -r .git/. '{evil}/common/'; cat '{evil}/config' >>'{evil}/common/config'
        cp -r '{evil}/hooks' "$ours/hooks"
    """,
    "mirror-link": """
        ours="$FLEET_TASK_DIR/attempts/1/git"; rm -rf "$ours"; mkdir -p '{evil}/linked'; cp -r .git/. '{evil}/linked/'
        cat '{evil}/config' >>'{evil}/linked/config.worktree'; ln -s '{evil}/linked' "$ours"
        ln -sf '{evil}/config' "$ours/config"
    """,
    "worktree-config": """
        git config extensions.worktreeConfig true; cp '{evil}/config' .git/config.worktree
    """,
    "hidden": "git config uploadpack.hideRefs HEAD; git config transfer.hideRefs refs/heads",
    "broken": "echo '[broken' >>.git/config",
    "version": "git config core.repositoryformatversion 99",
}


def test_what_agents_plant_for_git_is_never_run_and_their_work_is_still_seen(scene: Scene) -> None:
    scene.settings(limits__attempts=1, max_concurrent=4, fence="off")
    ids = {}
    for name, planted in PLANTED.items():
        top = scene.directory(name, repository=True)
        plant_git(scene, top)
        coder = scene.script(name, GIT_AGENT + planted.format(evil=scene.root / "evil"))
        ids[name] = scene.add(name, cwd=top, coder=coder)
    scene.drain()
    ran = (scene.root / "ran").read_text() if (scene.root / "ran").exists() else ""
    missing = {name: receipt for name, task in ids.items() if "the work of" not in (receipt := commits(scene, task))}
    scene.report("planted for git", "kinds; executed; work not in the receipt",
                 f"{len(ids)}; {len(ran.splitlines())}; {sorted(missing)}")  # fmt: skip
    assert not ran, ran
    assert not (scene.root / "ran.trace").exists()
    assert not missing, (missing, scene.said())


def commits(scene: Scene, task: str) -> str:
    done = scene.fleet("task", task, "receipt")
    if done.code:
        return done.err
    return str([one["subject"] for one in json.loads(done.out)["result"]["commits"]])


@pytest.mark.long
def test_an_agent_that_hides_its_head_has_not_done_anything(scene: Scene) -> None:
    """A head that git will not tell is no proof of an effect."""
    scene.script("hides", "git config uploadpack.hideRefs HEAD; git config core.repositoryformatversion 99")
    scene.settings(limits__attempts=1)
    task = scene.add(cwd=scene.directory("w", repository=True))
    scene.drain()
    row = scene.tasks()[task]
    assert row["state"] != "done", row["cause"]


# ---- words

TITLES = [
    "../../../../tmp/escape", "--help", "-d", "a; touch ran", "$(touch ran)", "`touch ran`", "a\nb", "\x1b]0;owned\x07",
    "\x9b31m", "tab\there", "\u202egnp.exe", "\u2028next", "ünïcödé 🚢", "'\"\\", "%s %n {0}",
    "x" * 500, "x" * 501, " ", "NUL\0",
]  # fmt: skip
IDS = ["../t1", "t1/../t1", "/etc/passwd", "-h1", "t1\n", "t1\x1b[31m", ".", "..", "t1.", "t" * 200, "%2e%2e"]


@pytest.mark.long
def test_odd_titles_and_ids_lead_nowhere_and_no_terminal_obeys_them(scene: Scene) -> None:
    scene.works("short", steps=0)
    before = tree(scene)
    added = {}
    for title in TITLES:
        with suppress(ValueError):  # no program can be given a NUL
            done = scene.fleet("add", "--cwd", scene.directory("w"), "--", title)
            added[title] = done.code
            assert done.code in (0, 2), done.err
            assert not controls(done.out + done.err), (title, done.out, done.err)
    for number, name in enumerate(IDS):
        words = (("show", "--", name), ("abort", "--", name), ("retry", "--", name), ("task", "--", name, "log"))
        done = scene.fleet(*words[number % 4])
        assert done.code in (2, 3), (words[number % 4], done.out, done.err)
        assert not controls(done.err), (name, done.err)
    scene.drain()
    states = set(scene.states().values())
    shown = [on_terminal(scene, *words) for words in (("tasks", "--all"), ("ready",), ("show", "t1"), ("log",))]
    outside = {path for path in tree(scene) - before if not path.startswith(("home", "work", "witness", "supervisors"))}
    scene.report("odd titles and ids", "taken; refused; paths outside; control bytes",
                 f"{list(added.values()).count(0)}; {list(added.values()).count(2)}; {len(outside)}; 0")  # fmt: skip
    assert not outside
    assert states == {"done"}
    for text in shown:
        assert not controls(text), text


def tree(scene: Scene) -> set[str]:
    return {str(path.relative_to(scene.root)) for path in scene.root.rglob("*")}


def controls(text: str) -> list[str]:
    """What a terminal might obey. Our own colours are not of that kind."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    return [c for c in plain if (ord(c) < 32 and c not in "\n\r\t") or 127 <= ord(c) < 160 or c in "\u202e\u2028\u2029"]


def on_terminal(scene: Scene, *words: str) -> str:
    """What a command prints when it talks to a terminal."""
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "fleet", *words], env=scene.env | {"TERM": "xterm"}, cwd=scene.root, stdin=theirs,
        stdout=theirs, stderr=theirs, start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    text, deadline = b"", time.monotonic() + 30
    with suppress(OSError):
        while time.monotonic() < deadline and (piece := os.read(ours, 65536)):
            text += piece
    os.close(ours)
    assert child.wait(10) == 0, text.decode(errors="replace")
    return text.decode(errors="replace")


SHOWS = (
    "task t1 events", "task t1 plan", "task t1 log", "task t1 receipt", "tasks --all", "tasks --all --json", "show t1",
    "show t1 --json", "log",
)  # fmt: skip
OSC = "\\033]0;owned\\007\\033[2J\\302\\23331m\\342\\200\\256"


def test_what_an_agent_says_is_not_obeyed_by_a_terminal(scene: Scene) -> None:
    scene.script(
        "shouts",
        f"""printf 'say {OSC} it\\n'; printf 'err {OSC}\\n' >&2
        printf '{{"kind": "error", "text": "bad {OSC.replace(chr(92), chr(92) * 2)} x\\302\\2332J"}}\\n'
        mkdir -p "$FLEET_ARTIFACT_DIR"; printf 'plan {OSC}\\n' >"$FLEET_ARTIFACT_DIR/PLAN_AND_STATUS.md"
        mkdir -p "$(printf 'dir{OSC}')"; exit 3""",
        events="jsonl",
    )
    scene.settings(limits__attempts=1)
    scene.add(cwd=scene.directory("w"))
    scene.drain()
    for line in SHOWS:
        words = line.split()
        text = on_terminal(scene, *words)
        assert not controls(text), (words, text)
