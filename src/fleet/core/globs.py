"""Patterns of paths, as a .gitignore has them: purely, and in time that grows with the path and not beyond.

`*` and `?` stay within a name, `**` crosses directories. A pattern without a slash matches a name at any depth; one
with a slash begins at the top. What matches a directory matches everything in it. A slash at the end: directories only.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from fnmatch import translate
from functools import lru_cache

ANY_DEPTH = "**"
OPEN = re.compile(r"\[(?![!^]?\]?[^\]]*\])")


def is_match(pattern: str, path: str) -> bool:
    """Whether a path, or a directory that it lies in, is meant. A path that ends in a slash is a directory itself."""
    only_directories = pattern.endswith("/") and not pattern.endswith("\\/")
    steps = path.strip("/").split("/")
    wanted = _steps(pattern)
    longest = len(steps) if path.endswith("/") or not only_directories else len(steps) - 1
    return any(_fits(wanted, steps[:length]) for length in range(1, longest + 1))


def matching(patterns: Iterable[str], path: str) -> str | None:
    """The first of these patterns that means the path."""
    return next((pattern for pattern in patterns if is_match(pattern, path)), None)


def may_match(patterns: tuple[str, ...], path: str) -> bool:
    """Whether one of many patterns may mean a path; quick, and never False for one that does. Whatever a path is meant
    by, one of its names is like the last name of the pattern.
    """
    return any(map(_last_names(patterns).match, path.strip("/").split("/")))


def folded(text: str) -> str:
    """A path or a pattern as a careless file system sees it: without case, invisible marks and what ends a name."""
    if text.isascii():
        plain = text.lower()
    else:
        marks = "".join(sign for sign in text if unicodedata.category(sign) != "Cf")
        plain = unicodedata.normalize("NFC", unicodedata.normalize("NFC", marks).casefold())
    return "/".join(step if set(step) <= set(".*?") else step.rstrip(". ") for step in plain.split("/"))


def problem(pattern: str) -> str | None:
    """What is wrong with a pattern that a person wrote, in the words that follow its name; None when nothing is."""
    if not pattern.strip("/ "):
        return "is empty"
    if pattern.startswith("!"):
        return "must not begin with !: what is not to be touched stands in deny"
    if not {".", ".."}.isdisjoint(pattern.split("/")):
        return "must not have a step . or ..: paths are those of the repository, such as src/**"
    if pattern.startswith("~"):
        return "must be a path in the repository, such as src/**"
    if any(OPEN.search(step) for step in re.sub(r"\\.", "", pattern).split("/")):
        return "has a [ that is not closed"
    return None


@lru_cache(4096)
def _steps(pattern: str) -> tuple[str, ...]:
    """The steps from the top; what has no slash but one at its end may begin anywhere."""
    is_anchored = "/" in pattern.rstrip("/")
    steps = [step for step in pattern.split("/") if step]
    if not is_anchored and steps != [ANY_DEPTH]:
        steps.insert(0, ANY_DEPTH)
    return tuple(step for n, step in enumerate(steps) if step != ANY_DEPTH or steps[n - 1 : n] != [ANY_DEPTH])


def _fits(wanted: tuple[str, ...], steps: list[str]) -> bool:
    """Whether the steps of a pattern are those of a path, from the first to the last one.

    After a `**` the nearest fit is as good as any, so only the last one is ever gone back to.
    """
    if wanted[-1] == ANY_DEPTH:  # everything inside: at least one step
        wanted = (*wanted, "*")
    at = here = 0
    again: tuple[int, int] | None = None
    while here < len(steps):
        if at < len(wanted) and wanted[at] == ANY_DEPTH:
            at += 1
            again = (at, here)
        elif at < len(wanted) and _name(wanted[at]).match(steps[here]):
            at, here = at + 1, here + 1
        elif again is None:
            return False
        else:
            again = (again[0], again[1] + 1)
            at, here = again
    return all(step == ANY_DEPTH for step in wanted[at:])


@lru_cache(64)
def _last_names(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """One expression for the last name of each pattern."""
    lasts = (next((step for step in reversed(_steps(one)) if step != ANY_DEPTH), "*") for one in patterns)
    return re.compile("|".join(_name(step).pattern for step in lasts))


@lru_cache(4096)
def _name(step: str) -> re.Pattern[str]:
    """One step of a pattern, for one name."""
    plain = re.sub(r"\\(.)", lambda found: f"[{found[1]}]" if found[1] in "*?[" else found[1], step)
    return re.compile(translate(plain.replace("[^", "[!")))
