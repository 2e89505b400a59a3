"""Everything a change must pass: `make test`. With `lint`, only what needs no test run.

$PARTS says how much is tested: `quick` installs the parts that install in seconds, and leaves out the tests that need
others or take long; `all` builds those too, and then a test that is left out is a failure.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
LINT = ("ruff check --quiet .", "ruff format --check --quiet .", "mypy --no-error-summary", "lint-imports --no-cache")
AT_ONCE = ("--numprocesses=4", "--dist=loadfile", "--no-loadscope-reorder")  # a third of a test is waiting
# Those with the longest files first, so that no process is left with a long one at the end.
FOLDERS = ("tests/flow", "tests/contract", "tests/docs", "tests/unit")
FAULTS = ("--numprocesses=2", "--dist=load", "tests/torture")  # what is promised is promised in seconds, too
LITELLM = "from fleet.gateway import environment; environment.ensure(print)"


def step(name: str, argv: list[str | Path], **env: str) -> bool:
    print(f"== {name}", flush=True)
    began = time.monotonic()
    quiet = subprocess.PIPE if name.startswith("lint-imports") else None
    done = subprocess.run(argv, cwd=ROOT, env=os.environ | env, stdout=quiet, text=True, check=False)
    if done.returncode and done.stdout:
        print(done.stdout)
    print(f"   {'passed' if done.returncode == 0 else 'FAILED'} in {time.monotonic() - began:.0f} s", flush=True)
    return done.returncode == 0


def lint() -> bool:
    passed = [step(command, [BIN / command.split()[0], *command.split()[1:]]) for command in LINT]
    return all(passed)


def install(parts: str) -> bool:
    wanted = step(f"parts ({parts})", [sys.executable, "tools/parts.py", "install", parts])
    return step("LiteLLM in its own environment", [sys.executable, "-c", LITELLM]) and wanted


def main(argv: list[str]) -> int:
    if argv == ["lint"]:
        return 0 if lint() else 1
    parts = os.environ.get("PARTS") or "quick"
    if parts not in ("quick", "all"):
        print(f"PARTS is quick or all, not {parts!r}", file=sys.stderr)
        return 2
    passed = lint()
    passed = install(parts) and passed
    pytest: list[str | Path] = [sys.executable, "-m", "pytest", "--durations=8"]
    passed = step("promises under faults", [*pytest, *FAULTS], PARTS=parts) and passed
    passed = step("tests", [*pytest, *AT_ONCE, *FOLDERS], PARTS=parts) and passed
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
