"""The text of a Q&A.md: questions, each with its answer below it, in any hand.

    ## Q: Which database?

    It may be changed later.

    Options:
    - SQLite
    - Postgres

    ## A: 2026-05-03 14:10

    SQLite.

    <!-- fleet: answered by ann -->

What stands in a fenced code block is neither. Everything here is pure, and only ever puts something in: not one
character that was there is lost or changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

HEAD = re.compile(r" {0,3}#{1,2}[ \t]*([QA])[ \t]*[0-9]{0,6}[ \t]*:(.*)", re.DOTALL)
FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)", re.DOTALL)
WHEN = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}(:[0-9]{2})?\Z")
ITEM = re.compile(r"[ \t]*[-*][ \t]+(.*\S)[ \t\r]*\Z")
OPTIONS = "Options:"
READ = "<!-- fleet: the agent has read this answer -->"
BY = re.compile(r"<!-- fleet: answered by (\S+) -->\Z")


class Question(NamedTuple):
    """One question. `end` is where its block ends in the text: an answer is put there."""

    number: int
    text: str
    options: tuple[str, ...]
    answer: str | None
    answered: str | None  # when, as it was written down
    by: str | None  # who answered, if not with an editor: then it was not the agent itself
    read: bool  # it was given to the agent while that waited
    end: int
    fence: str  # the mark that closes the code block which the question leaves open

    @property
    def is_open(self) -> bool:
        return self.answer is None


class _Line(NamedTuple):
    text: str
    end: int
    head: str  # Q or A, of a line that begins one
    rest: str
    plain: bool  # not in a code block
    fence: str  # the mark that is still to be closed after this line


def parse(text: str) -> list[Question]:
    """The questions in the order they were asked, numbered from 1."""
    blocks: list[list[_Line]] = []
    for line in _lines(text):
        if line.head == "Q":
            blocks.append([line])
        elif blocks:
            blocks[-1].append(line)
    return [_question(number, block) for number, block in enumerate(blocks, 1)]


def ask(text: str, prompt: str, options: Sequence[str] = ()) -> str:
    """The text with one more question at its end."""
    choice = f"\n{OPTIONS}\n" + "".join(f"- {' '.join(option.split())}\n" for option in options) if options else ""
    tamed = _tame(prompt)
    beside = "\n\n" if FENCE.match(tamed) else " "  # a code block begins on a line of its own
    return text + _gap(text, _left_open(text)) + f"## Q:{beside}{tamed}{choice}"


def answer(text: str, question: Question, words: str, when: str, by: str | None = None) -> str:
    """The text with an answer below its question, and under that, unseen in the rendered page, who gave it."""
    name = re.sub(r"[^\w.@+-]", "_", by or "")
    signed = f"\n<!-- fleet: answered by {name} -->\n" if name else ""
    return _put(text, question, f"## A: {when}\n\n{_tame(words)}{signed}")


def mark_read(text: str, question: Question) -> str:
    """The text with a mark, which nobody sees in the rendered page, that the agent was given the answer."""
    return text if question.read else _put(text, question, f"{READ}\n")


def news(questions: Sequence[Question], before: int, changed: bool) -> list[Question]:
    """The questions of one attempt: those behind the ones there were before it.

    An agent that wrote its file anew, with no more questions than before, has asked the last of them.
    """
    return list(questions[before:]) or (list(questions[-1:]) if changed else [])


def find(questions: Sequence[Question], wanted: Question) -> Question | None:
    """The same question in a later text, even when others were taken out before it."""
    same = [one for one in questions if one.text == wanted.text]
    return next((one for one in same if one.number == wanted.number), same[-1] if same else None)


def summary(question: Question) -> str:
    """The question on one line."""
    return " ".join(question.text.split()) or "it asks, and does not say what"


def _lines(text: str) -> Iterator[_Line]:
    fence, end = "", 0
    for line in re.findall(r"[^\n]*\n|[^\n]+\Z", text):
        end += len(line)
        found, was = FENCE.match(line), fence
        if fence:
            closes = found is not None and found[1].startswith(fence) and not found[2].strip()
            fence = "" if closes else fence
        elif found is not None and not (found[1][0] == "`" and "`" in found[2]):
            fence = found[1]
        head = None if was or fence else HEAD.match(line)
        yield _Line(line, end, head[1] if head else "", head[2] if head else "", not (was or fence), fence)


def _question(number: int, block: list[_Line]) -> Question:
    starts = [n for n, line in enumerate(block) if line.head == "A"]
    asked = block[: starts[0]] if starts else block
    said, options = _split(asked)
    body = "".join([said[0].rest, *(line.text for line in said[1:])]).strip()
    found = [_answer(block[first:last]) for first, last in pairwise([*starts, len(block)])]
    told, when, by = next((one for one in found if one[0]), (None, None, None))
    read = any(line.plain and line.text.strip() == READ for line in block)
    return Question(number, body, options, told, when, by, read, block[-1].end, block[-1].fence)


def _answer(block: list[_Line]) -> tuple[str, str | None, str | None]:
    """What an answer says, when it was given and by whom; a head without a time may hold the answer itself."""
    rest, body = block[0].rest.strip(), "".join(line.text for line in block[1:] if not _is_mark(line))
    by = next((found[1] for line in block if line.plain and (found := BY.match(line.text.strip()))), None)
    if WHEN.match(rest):
        return body.strip(), rest, by
    return f"{rest}\n{body}".strip(), None, by


def _is_mark(line: _Line) -> bool:
    said = line.text.strip()
    return line.plain and (said == READ or BY.match(said) is not None)


def _split(asked: list[_Line]) -> tuple[list[_Line], tuple[str, ...]]:
    """The words of a question, and the answers to choose from: a list under a line `Options:` that ends it."""
    starts = [n for n, line in enumerate(asked) if line.plain and line.text.strip().lower() == OPTIONS.lower()]
    if not starts:
        return asked, ()
    items = [ITEM.match(line.text.rstrip("\n")) for line in asked[starts[-1] + 1 :] if line.text.strip()]
    options = tuple(item[1] for item in items if item is not None)
    return (asked[: starts[-1]], options) if options and len(options) == len(items) else (asked, ())


def _put(text: str, question: Question, block: str) -> str:
    before, after = text[: question.end], text[question.end :]
    return before + _gap(before, question.fence) + block + ("\n" if after else "") + after


def _gap(text: str, fence: str) -> str:
    """What has to stand between a text and a new block: a code block that is open is closed first."""
    ends = "" if not text or text.endswith("\n") else "\n"
    closed = f"{fence}\n" if fence else ""
    return ends + closed + ("\n" if text else "")


def _left_open(text: str) -> str:
    fence = ""
    for line in _lines(text):
        fence = line.fence
    return fence


def _tame(words: str) -> str:
    """Words that neither begin another question or answer nor leave a code block open."""
    lines = []
    for line in _lines(words.strip() + "\n"):
        lines.append(f"\\{line.text.lstrip()}" if line.head or _is_mark(line) else line.text)
    tamed = "".join(lines)
    left = _left_open(tamed)
    return tamed + (f"{left}\n" if left else "")
