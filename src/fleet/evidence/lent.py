"""What a check is lent from the project's own working tree: when it was made, and whether it leads back in there."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote, urlsplit

from fleet.host import files

MAX_DEPTH, MAX_DIRECTORIES = 4, 2000  # of what is lent, whose times are looked at
MAX_TEXT_BYTES = 64 * 1024
MAX_LEADS = 3  # that one sentence names
SITE_PACKAGES = ("lib/python*/site-packages", "Lib/site-packages")


def times(project: Path, needs: Sequence[str]) -> list[list[object]]:
    """What is lent, by its path and the times of its directories: what is installed or removed there changes them."""
    return [[str(project / need), *_times(project / need)] for need in needs]


def _times(top: Path) -> Iterator[int]:
    try:
        facts = top.stat()
    except OSError:
        return
    yield from (facts.st_ino, facts.st_mtime_ns, facts.st_size)
    below, count = [(top, 1)], 0
    while below and count < MAX_DIRECTORIES:
        directory, depth = below.pop()
        for one in sorted(_directories(directory), key=lambda entry: entry.name):
            count += 1
            with suppress(OSError):
                yield one.stat(follow_symlinks=False).st_mtime_ns
            if depth < MAX_DEPTH:
                below.append((Path(one.path), depth + 1))


def _directories(directory: Path) -> list[os.DirEntry[str]]:
    with suppress(OSError), os.scandir(directory) as found:
        return [one for one in found if one.is_dir(follow_symlinks=False)]
    return []


def leads_into(project: Path, needs: Sequence[str]) -> str:
    """Why what is lent brings the user's own files in, which are not what is checked; empty when it does not."""
    top = project.resolve()
    found = [f"{need} leads to {name}" for need in needs for name in _leads(top, (project / need).resolve())]
    return "; ".join(dict.fromkeys(found[:MAX_LEADS]))


def _leads(top: Path, need: Path) -> Iterator[str]:
    """What of the project's own files, outside of what is lent, a lent environment leads to."""
    for target in (*_python_targets(need), *_links(need)):
        real = Path(os.path.realpath(target))
        if real.is_relative_to(top) and not real.is_relative_to(need):
            yield "the project itself" if real == top else str(real.relative_to(top))


def _python_targets(need: Path) -> Iterator[str]:
    """The directories that are installed editable: by what says so of itself, and by lines that Python reads."""
    for site in (one for pattern in SITE_PACKAGES for one in need.glob(pattern)):
        for path in sorted(site.glob("*.dist-info/direct_url.json")):
            yield from _editable(_text(path))
        for path in (*sorted(site.glob("*.pth")), *sorted(site.glob("*.egg-link"))):
            yield from (line for line in map(str.strip, _text(path).splitlines()) if line.startswith("/"))


def _editable(text: str) -> Iterator[str]:
    with suppress(ValueError, AttributeError, TypeError):
        said = json.loads(text)
        if said["dir_info"].get("editable") and said["url"].startswith("file://"):
            yield unquote(urlsplit(said["url"]).path)


def _links(need: Path) -> Iterator[str]:
    """Links at the top of what is lent, and one below: so npm and its kind link a workspace's own packages."""
    for directory in (need, *(Path(one.path) for one in _directories(need) if one.name.startswith("@"))):
        with suppress(OSError), os.scandir(directory) as found:
            yield from (one.path for one in found if one.is_symlink())


def _text(path: Path) -> str:
    with suppress(OSError):
        return (files.read(path, limit=MAX_TEXT_BYTES) or b"").decode(errors="replace")
    return ""
