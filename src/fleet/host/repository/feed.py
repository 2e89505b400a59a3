"""Git, fed with more than memory should hold."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile

from fleet.core import ToolMissing
from fleet.host import index
from fleet.host.armour import SURE
from fleet.host.repository.tell import QUIET, environment, held
from fleet.host.run import Ran


def feed(argv: list[str], pieces: Iterable[bytes], *, cwd: Path, env: Mapping[str, str]) -> Ran:
    """Run a program that is given more than memory should hold; a piece that cannot be had ends it."""
    with TemporaryFile() as out, TemporaryFile() as err:
        try:
            process = subprocess.Popen(
                argv,
                cwd=cwd,
                env=dict(env),
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=err,
                start_new_session=True,
                pass_fds=held(),
            )
        except FileNotFoundError as problem:
            raise ToolMissing(f"{argv[0]} is not installed") from problem
        with process:
            assert process.stdin is not None
            try:
                with suppress(BrokenPipeError):
                    for piece in pieces:
                        process.stdin.write(piece)
                with suppress(BrokenPipeError):
                    process.stdin.close()
            except BaseException:
                process.kill()
                with suppress(BrokenPipeError):
                    process.stdin.close()
                raise
        out.seek(0)
        err.seek(0)
        return Ran(process.returncode, out.read(index.LARGEST), err.read(1024 * 1024))


def fast_import(common: Path, pieces: Iterable[bytes]) -> Ran:
    """Write objects and a ref into a repository in one go: all of it, or no ref. The last word is `done`."""
    argv = ["git", *QUIET, "-c", "core.protectNTFS=false", "-c", "core.protectHFS=false", f"--git-dir={common}",
            "fast-import", "--done", "--quiet", "--date-format=raw-permissive"]  # fmt: skip
    env = environment() | SURE
    return feed(argv, pieces, cwd=common, env=env)
