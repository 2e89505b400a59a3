"""What git does to the bytes of a file on their way in, by its attributes and one setting: decided purely."""

from __future__ import annotations

import re
from collections.abc import Mapping
from os import stat_result

from fleet.core.frozen import dataclass

ASKED = ("filter", "working-tree-encoding", "text", "crlf", "eol", "ident")
SAYS_NOTHING = ("unspecified", "unset", "set", "")
TEXTS = {"set": "text", "input": "text", "auto": "text=auto", "unset": "-text"}
YES = ("true", "input", "yes", "on", "1", "")
WIDTH = 0xFFFFFFFF  # an index has 32 bits for each number
STAGED = re.compile(
    rb"\d{6} [0-9a-f]+ 0\t([^\0]+)\0  ctime: \d+:\d+\n  mtime: (\d+):(\d+)\n  dev: \d+\tino: (\d+)\n"
    rb"  uid: \d+\tgid: \d+\n  size: (\d+)\tflags: [0-9a-f]+\n"
)


@dataclass(frozen=True, slots=True)
class Way:
    """How the bytes of one file become those of an object."""

    text: str = "-text"
    ident: bool = False
    filter: str = ""  # what only another program can do, by its name

    @property
    def attributes(self) -> bytes:
        """What has a git do it that has no other attributes; a filter it never has."""
        ident = "ident" if self.ident else "-ident"
        return f"* {self.text} !eol {ident} -filter -working-tree-encoding !crlf\n".encode()


RAW = Way()  # a file is its bytes


def way(attributes: Mapping[str, str], autocrlf: bool) -> Way:
    """By the values of what is asked for. How lines end in the working tree does not matter on the way in."""
    text = TEXTS.get(attributes.get("text", ""), "") or TEXTS.get(attributes.get("crlf", ""), "")
    if not text and attributes.get("eol") in ("lf", "crlf"):
        text = "text"
    if not text and autocrlf:
        text = "text=auto"
    named = [attributes.get(name, "") for name in ("filter", "working-tree-encoding")]
    other = next((one for one in named if one not in SAYS_NOTHING), "")
    return Way(text or "-text", attributes.get("ident") == "set", other)


def read_attributes(out: bytes) -> dict[bytes, dict[str, str]]:
    """What `git check-attr -z` says."""
    words = out.split(b"\0")
    found: dict[bytes, dict[str, str]] = {}
    for path, name, value in zip(words[::3], words[1::3], words[2::3], strict=False):
        found.setdefault(path, {})[name.decode()] = value.decode(errors="replace")
    return found


@dataclass(frozen=True, slots=True)
class Mark:
    """What an index noted of a file when git last knew that it was as the index has it."""

    seconds: int
    fraction: int
    inode: int
    size: int

    def is_of(self, facts: stat_result) -> bool:
        """Whether that file still stands there. Some programs note no fraction of a second, or no inode."""
        seconds, fraction = divmod(facts.st_mtime_ns, 1_000_000_000)
        return (
            (self.seconds, self.size) == (seconds & WIDTH, facts.st_size & WIDTH)
            and self.fraction in (0, fraction)
            and self.inode in (0, facts.st_ino & WIDTH)
        )


def read_marks(out: bytes) -> dict[bytes, Mark]:
    """What `git ls-files -z -s --debug` says, but for what is not merged."""
    return {one[1]: Mark(*(int(number) for number in one.groups()[1:])) for one in STAGED.finditer(out)}
