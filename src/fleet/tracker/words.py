"""What people write about tasks, checked before it is kept: data of any script, but nothing a terminal would obey."""

from __future__ import annotations

from fleet.core import BadConfig
from fleet.core.task import NewTask, NewWords
from fleet.core.text import has_controls

TITLE = 500
TEXT = 200_000
NOTE = 16_000
PRIORITIES = range(5)


def check(new: NewTask | NewWords) -> None:
    """Refuse words that could not be kept or shown as they are."""
    if new.title is not None:
        _check_title(new.title)
    if new.description is not None:
        _check_text("description", new.description)
    if new.priority is not None and (new.priority not in PRIORITIES or isinstance(new.priority, bool)):
        raise BadConfig(f"a priority is 0 (most urgent) to 4, not {new.priority}")


def comment(text: str) -> str:
    """A comment as it is kept: without the newlines that end a file or a pipe."""
    _check_text("comment", text)
    if not text.strip():
        raise BadConfig("the comment is empty")
    return text.rstrip("\n")


def note(text: str) -> str:
    """Our own remark about a task, which may quote an agent: cut and mended, never refused."""
    mended = text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode(errors="replace").decode()
    return mended if len(mended) <= NOTE else mended[: NOTE - 1] + "…"


def _check_title(title: str) -> None:
    if not title.strip():
        raise BadConfig("the title is empty")
    if has_controls(title):
        raise BadConfig("the title must be one line without control characters; more fits in the description")
    if len(title) > TITLE:
        raise BadConfig(f"the title is {len(title):,} characters long; {TITLE} fit, more fits in the description")


def _check_text(what: str, text: str) -> None:
    if "\0" in text:
        raise BadConfig(f"the {what} holds a NUL character")
    if len(text) > TEXT:
        raise BadConfig(f"the {what} is {len(text):,} characters long; {TEXT:,} fit", hint="put it in a file")
    if any("\ud800" <= c <= "\udfff" for c in text):
        raise BadConfig(f"the {what} is not valid UTF-8")
