"""What every row of the bench is made of: two programs run in turns, and a ratio. `python tools/bench.py` runs it."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import parts

PYTHON = f"py{sys.version_info.major}.{sys.version_info.minor}"
LONGEST = 120.0  # seconds after which one run of one program is ended
PROGRAM = """\
#!{python}
import sys
from fleet.__main__ import main
sys.exit(main())
"""  # what pip writes for an entry point


class BenchError(Exception):
    """A run that did not do what was to be measured."""


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds, or another amount, of every counted run, in order."""

    runs: tuple[float, ...]

    @property
    def median(self) -> float:
        return median(self.runs)

    @property
    def best(self) -> float:
        return min(self.runs)


@dataclass(frozen=True, slots=True)
class Row:
    """One comparison: with another program, or with a limit. A row without a goal is there for scale."""

    group: str
    what: str
    ours: Times
    against: str = ""
    theirs: Times | None = None
    goal: float | None = None
    wrong: str = ""  # what was wrong with our answer: a wrong answer meets no goal
    unit: str = "s"

    @property
    def ratio(self) -> float | None:
        return self.ours.median / self.theirs.median if self.theirs else None

    @property
    def ratio_of_best(self) -> float | None:
        return self.ours.best / self.theirs.best if self.theirs else None

    @property
    def met(self) -> bool | None:
        if self.goal is None or self.ratio is None:
            return None
        return self.ratio <= self.goal and not self.wrong


def within(group: str, what: str, ours: Times, limit: float, unit: str = "s") -> Row:
    """A row whose goal is a limit: the ratio says how much of it was used."""
    return Row(group, what, ours, "the limit", Times((limit,)), goal=1.0, unit=unit)


# --- the programs -------------------------------------------------------------------------------------------------


def rival(package: str, version: str, *with_it: str) -> parts.Part:
    """A package of PyPI in an environment of its own, made with the Python that runs this."""

    def build(home: Path) -> None:
        pip_install(home, f"{package}=={version}", *with_it)

    return parts.Part(f"bench-{package}", f"{version}-{PYTHON}", False, (), build, "to compare with")


def own() -> parts.Part:
    """This checkout with what it needs to run and nothing else: the tools of .venv would slow it down."""
    needs = parts.LOCKS / "run.txt"
    checkout = hashlib.sha256(bytes(parts.ROOT) + needs.read_bytes()).hexdigest()[:12]

    def build(home: Path) -> None:
        pip_install(home, "--no-deps", "--require-hashes", "-r", str(needs))
        library = next(home.glob("lib/python*/site-packages"))
        (library / "fleet.pth").write_text(f"{parts.ROOT / 'src'}\n")
        program = home / "bin" / "fleet"
        program.write_text(PROGRAM.format(python=home / "bin" / "python"))
        program.chmod(0o755)

    return parts.Part("bench-fleet", f"{checkout}-{PYTHON}", False, (), build, "this checkout, installed lean")


def pip_install(home: Path, *what: str) -> None:
    venv.create(home, with_pip=True)
    pip: list[str | Path] = [home / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    parts.run([*pip, *what])


OURS = own()
SUBAGENT_FLEET = rival("subagent-fleet", "0.2.1")
AI_FLEET = rival("ai-fleet", "0.1.3", "libtmux==0.46.2")


def prepare() -> None:
    """Install all three, and compile all bytecode: nobody is measured while compiling."""
    compile_all(Path(sys.executable), parts.ROOT / "src" / "fleet")
    for part in (OURS, SUBAGENT_FLEET, AI_FLEET):
        parts.install(part)
        compile_all(part.bin / "python", part.home / "lib")


def compile_all(python: Path, *where: Path) -> None:
    """Files that no Python can compile (templates, samples) are passed over."""
    subprocess.run([python, "-m", "compileall", "-qq", *where], stdin=subprocess.DEVNULL,
                   stdout=subprocess.DEVNULL, check=False)  # fmt: skip


# --- measuring ----------------------------------------------------------------------------------------------------

Attempt = Callable[[], float]
Check = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Bench:
    """A scratch directory, and the nearly empty environment in which everything runs."""

    scratch: Path
    own: str = "fleet-home"

    @property
    def home(self) -> Path:
        """The home of our own fleet."""
        return self.scratch / self.own

    @property
    def environ(self) -> dict[str, str]:
        return {"PATH": os.defpath, "HOME": str(self.scratch / "home"), "FLEET_HOME": str(self.home)}

    def run(self, *argv: str | Path, check: Check = lambda _: None) -> float:
        """Seconds from start to exit of one run, its output read through a pipe."""
        began = time.perf_counter()
        done = subprocess.run(argv, cwd=self.scratch, env=self.environ, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=LONGEST, check=False)  # fmt: skip
        took = time.perf_counter() - began
        if done.returncode:
            said = (done.stderr or done.stdout).strip()[-500:]
            raise BenchError(f"exit {done.returncode} from {' '.join(map(str, argv))}: {said}")
        check(done.stdout)
        return took

    def write(self, name: str, text: str) -> Path:
        path = self.scratch / name
        path.write_text(text)
        return path

    @contextmanager
    def fresh(self) -> Iterator[Path]:
        """An empty directory; making and removing it is nobody's time."""
        where = Path(tempfile.mkdtemp(dir=self.scratch))
        try:
            yield where
        finally:
            shutil.rmtree(where)


def in_turns(rounds: int, *attempts: Attempt) -> list[Times]:
    """Each once uncounted, then A B A B: whatever else the machine does falls on all of them alike."""
    for attempt in attempts:
        attempt()
    runs = [[attempt() for attempt in attempts] for _ in range(rounds)]
    return [Times(tuple(column)) for column in zip(*runs, strict=True)]
