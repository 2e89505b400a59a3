"""The keeper's program as one file of bytecode, made once, from which a keeper starts fastest.

Python keeps no bytecode of a script, and compiling is a third of the keeper's start-up; looking for a dozen modules
would be a twentieth. And whoever starts during an upgrade has all parts of one version.
"""

from __future__ import annotations

import marshal
import struct
from contextlib import suppress
from functools import cache
from importlib.util import MAGIC_NUMBER, cache_from_source, source_hash
from pathlib import Path
from types import CodeType

from fleet.host import files

PROGRAM = Path(__file__).with_name("keep.py")
WHERE, PACKAGE = PROGRAM.with_name("program"), "fleet.keeper.program"
PARTS = (  # each needs only those before it
    "kernel", "spec", "record", "terminal", "tree", "ladder",
    "output", "supervisor", "fence", "spawn", "keeper", "main",
)  # fmt: skip
START = f"""
import sys
if __name__ == "__main__":
    for name, code in "PARTS":
        module = sys.modules[name] = type(sys)(name)
        exec(code, module.__dict__)
    sys.modules["{PACKAGE}.main"].main()
"""
HASHED = 1  # how Python calls bytecode that is known by what its source says, not by its time


def program() -> str:
    """The file to start a keeper from: all of it, or the script, where nothing can be written."""
    return _joined(Path(cache_from_source(str(PROGRAM))))


@cache
def _joined(target: Path) -> str:
    sources = {name: (WHERE / f"{name}.py").read_bytes() for name in PARTS}
    marks = struct.pack("<4sI8s", MAGIC_NUMBER, HASHED, source_hash(b"".join([START.encode(), *sources.values()])))
    if not _is_whole(target, marks):
        with suppress(OSError):
            files.write(target, marks + marshal.dumps(_join(sources)))
    return str(target if _is_whole(target, marks) else PROGRAM)


def _join(sources: dict[str, bytes]) -> CodeType:
    parts = tuple(
        (f"{PACKAGE}.{name}", compile(source, str(WHERE / f"{name}.py"), "exec", dont_inherit=True))
        for name, source in sources.items()
    )
    start = compile(START, str(PROGRAM), "exec", dont_inherit=True)
    return start.replace(co_consts=tuple(parts if one == "PARTS" else one for one in start.co_consts))


def _is_whole(target: Path, marks: bytes) -> bool:
    try:
        content = target.read_bytes()
        if not content.startswith(marks):
            return False
        marshal.loads(content[len(marks) :])  # noqa: S302 - a full disk may have cut it short
    except (OSError, EOFError, ValueError, TypeError):
        return False
    return True
