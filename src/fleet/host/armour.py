"""How git is called on a repository that an agent can write to: never on that one itself, but on a bare one of ours,
which borrows its objects. No config, hook, filter, attribute, replaced object or graph of the agent's is in force.
"""

from __future__ import annotations

import os
from pathlib import Path

from fleet.host import files

NOTHING_RUNS = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "core.attributesFile=/dev/null")
SURE = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": str(Path(__file__).with_name("gitconfig")),
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_ALLOW_PROTOCOL": "file",
    "HOME": "/nonexistent",
    "LC_ALL": "C",
}
# An agent may have written what git keeps beside the objects to be faster, so none of that is believed.
CONFIG = b"""\
[core]
\trepositoryformatversion = 0
\tbare = true
\tcommitGraph = false
\tmultiPackIndex = false
\tfsyncMethod = batch
\tprotectNTFS = false
\tprotectHFS = false
"""


def borrow(at: Path, *stores: Path) -> None:
    """Make a bare repository of ours in a directory, with the objects of others and nothing else of theirs."""
    for directory in (at / "objects/info", at / "refs", at / "info"):
        files.private_dir(directory)
    files.write(at / "config", CONFIG)
    files.write(at / "objects/info/alternates", b"".join(os.fsencode(one) + b"\n" for one in dict.fromkeys(stores)))
    files.write(at / "HEAD", b"ref: refs/heads/none\n")


def command(*args: str) -> list[str]:
    return ["git", "--no-pager", *NOTHING_RUNS, *args]


def environment(at: Path) -> dict[str, str]:
    """Nothing of the user's but where programs are; everything that belongs to the repository is ours."""
    return SURE | {"PATH": os.environ.get("PATH", os.defpath), "GIT_COMMON_DIR": str(at)}
