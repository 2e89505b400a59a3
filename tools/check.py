"""Everything a change must pass: `make test`. With `lint`, only what needs no test run.

$PARTS says which real parts must be there: `quick` installs those that install in seconds and uses the slow ones when
they are there; `all` builds them too, and then a test that is left out is a failure.
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
AT_ONCE = ("--numprocesses=2", "--dist=loadfile")  # most of a test is waiting for somebody else
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
    passed = step("tests", [*pytest, *AT_ONCE, "--ignore=tests/torture"], PARTS=parts) and passed
    passed = step("promises under faults", [*pytest, "tests/torture"], PARTS=parts) and passed
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
