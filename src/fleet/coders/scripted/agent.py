"""The demonstration agent: scripted, without a model. It edits one file, keeps its notes and commits what it did.

Standard library only; it runs as `python -I -S agent.py`. It reads its prompt on standard input and its stream has the
shape of Claude Code's. Words in the task choose what it does: `function` makes it write Python instead of text,
`nothing` makes it touch nothing, `fail` makes it report an error, `prompt` makes it run a program that waits for a key
at a terminal which nobody sees. It pauses after each line of its stream for
$FLEET_DEMONSTRATION_PAUSE seconds, so that there is something to watch.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

MODEL = "scripted"
SESSION = str(uuid.uuid4())
FENCE = re.compile(r"^----- begin ([0-9a-f]{16}) -----\n(.*?)\n----- end \1 -----$", re.MULTILINE | re.DOTALL)
USED = {"input_tokens": 1200, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 40}
GIT = (
    "git", "-c", "core.hooksPath=/dev/null", "-c", "commit.gpgSign=false",
    "-c", "user.name=fleet demonstration (scripted)", "-c", "user.email=demonstration@fleet.invalid",
)  # fmt: skip


def main() -> int:
    words = task_words(sys.stdin.buffer.read().decode("utf-8", "replace"))
    emit("system", subtype="init", cwd=os.getcwd(), model=MODEL, tools=["Write", "Bash"])
    say("I am the demonstration agent of fleet: scripted, without a model.")
    if asks_for("fail", words):
        return end("The script was asked to fail, and did.", failed=True)
    keep_notes(words, "begun")
    if asks_for("prompt", words):
        use("Bash", {"command": "an installer"}, wait_at_a_prompt)
        return end("Nobody pressed a key.", failed=True)
    if not asks_for("nothing", words) and not work(words):
        return end("The script could not do its edit.", failed=True)
    keep_notes(words, "done")
    return end(f"Scripted work: {title(words)}. Nothing was thought about, nothing was tested.")


def task_words(prompt: str) -> str:
    """The task out of the instructions, or all of the prompt."""
    found = FENCE.search(prompt)
    return found.group(2) if found else prompt


def asks_for(word: str, words: str) -> bool:
    return re.search(rf"\b{word}\b", words, re.IGNORECASE) is not None


def title(words: str) -> str:
    first = words.strip().partition("\n")[0].removeprefix("Title: ")
    return " ".join(first.split())[:200] or "an empty task"


def work(words: str) -> bool:
    """The edit, and its commit where there is a repository; whether both went well."""
    path, added = edit(words)
    written = use("Write", {"file_path": path, "content": added}, lambda: append(path, added))
    if not written or not in_repository():
        return written
    return use("Bash", {"command": f"git add {path} && git commit"}, lambda: commit(path, title(words)))


def edit(words: str) -> tuple[str, str]:
    """The file, named after the task, and what is added to it: a line, or a function."""
    name = "task_" + re.sub(r"\W", "_", os.environ.get("FLEET_TASK_ID", ""), flags=re.ASCII)[:100]
    if asks_for("function", words):
        return f"{name}.py", f"def {name}() -> str:\n    return {title(words)!r}\n"
    return f"{name}.txt", f"{title(words)}\n"


def wait_at_a_prompt() -> str:
    """A child asks at a terminal of its own; it waits there for an hour at the most."""
    _, told = os.openpty()  # the other end stays open, and nobody reads it
    child = os.fork()
    if child == 0:
        os.setsid()
        terminal = os.open(os.ttyname(told), os.O_RDWR)
        os.write(terminal, b"Ok to proceed? (y) ")
        signal.alarm(3600)
        os.read(terminal, 1)
        os._exit(0)
    os.waitpid(child, 0)
    return "nobody answered"


def append(path: str, text: str) -> str:
    with open(path, "a", encoding="utf-8", errors="replace") as file:
        file.write(text)
    return f"added {len(text)} characters"


def keep_notes(words: str, status: str) -> None:
    """The plan and its status, as every agent of a fleet keeps them."""
    directory = os.environ.get("FLEET_ARTIFACT_DIR")
    if not directory:
        return
    path = Path(directory) / "PLAN_AND_STATUS.md"
    text = f"# {title(words)}\n\nA scripted demonstration, without a model.\n\n- [x] one edit, one commit: {status}\n"
    use("Write", {"file_path": str(path), "content": text}, lambda: write(path, text))


def write(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", errors="replace")
    return "written"


def in_repository() -> bool:
    try:
        return git("rev-parse", "--is-inside-work-tree").strip() == "true"
    except OSError:
        return False


def commit(path: str, message: str) -> str:
    return git("add", "--", path) + git("commit", "-m", f"{message}\n\nMade by a script.", "--", path)


def git(*args: str) -> str:
    """Ask git, and again for a while when a neighbour in the same repository is at it."""
    for _ in range(50):
        done = subprocess.run([*GIT, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        said = done.stdout.decode("utf-8", "replace")
        if not done.returncode or ".lock" not in said:
            break
        time.sleep(0.1)
    if done.returncode:
        raise OSError(said)
    return said


def use(tool: str, given: dict[str, str], act: Callable[[], str]) -> bool:
    """A tool call as an agent shows it: said before, done, and what came of it said after."""
    call = f"toolu_{uuid.uuid4().hex[:12]}"
    answer({"type": "tool_use", "id": call, "name": tool, "input": given})
    try:
        said, failed = act(), False
    except OSError as error:
        said, failed = str(error), True
    result = {"type": "tool_result", "tool_use_id": call, "content": said, "is_error": failed}
    emit("user", message={"role": "user", "content": [result]}, parent_tool_use_id=None)
    return not failed


def say(text: str) -> None:
    answer({"type": "text", "text": text})


def answer(block: dict[str, object]) -> None:
    message = {"role": "assistant", "model": MODEL, "content": [block], "usage": USED}
    emit("assistant", message=message, parent_tool_use_id=None)


def end(text: str, *, failed: bool = False) -> int:
    emit("result", subtype="success", is_error=failed, result=text, total_cost_usd=0, usage=USED)
    return 1 if failed else 0


def emit(kind: str, **data: object) -> None:
    """One line of the stream, and a pause that lets people see it."""
    sys.stdout.write(json.dumps({"type": kind, "session_id": SESSION, **data}) + "\n")
    sys.stdout.flush()
    time.sleep(pause())


def pause() -> float:
    try:
        return min(max(float(os.environ.get("FLEET_DEMONSTRATION_PAUSE", "0.2")), 0.0), 60.0)
    except ValueError:
        return 0.2


if __name__ == "__main__":
    sys.exit(main())
