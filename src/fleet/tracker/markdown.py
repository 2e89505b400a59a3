"""A Markdown task list as the tasks of a plan.

    - [ ] Build the API (id: api; after: db, auth; priority: 1; check: `make test`)
      What is indented below is the description, kept as it is.
      - [ ] Write its tests

A nested task is done first. `[x]` is done already. Code blocks, comments and everything that is no list are prose.
Where a reader could take something for a task or an option and we do not, it is a problem: nothing is lost in silence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from fleet.tracker.plan import MOST, NAMES, Entry, Found, unknown

ITEM = re.compile(r"(?:[-*+]|[0-9]{1,9}[.)])[ \t]+(.*)", re.DOTALL)
BOX = re.compile(r"\[([xX]|[^\w\]]?)\](?:[ \t]+(.*))?\Z", re.DOTALL)
RULE = re.compile(r"([-*_])[ \t]*(?:\1[ \t]*){2,}\Z")
FENCE = re.compile(r"(`{3,}(?=[^`]*\Z)|~{3,})")
NO_PARAGRAPH = re.compile(r"[#>|]|={3,}|-{3,}")
CODE = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)")
OPTIONS = re.compile(r"(?:(?<=[ \t])|^)\(([A-Za-z]+):(?![/:])")
AT_END = re.compile(OPTIONS.pattern + r"[^()]*\)\Z")
OPTION = re.compile(r"([A-Za-z]+)[ \t]*:[ \t]*(.*)\Z", re.DOTALL)
IN_LINE = tuple(name for name in NAMES if name not in ("title", "description"))
LISTS = ("after", "allow", "deny", "protected", "needs")
DEEPEST = 20
LONGEST = 10_000
EXPECTED = "a task is a list item with a checkbox: - [ ] Title"
NO_OPTION = "parentheses at the end of a title that are no options must not begin with a word and a colon"
PLACE = "Options stand in one pair of parentheses at the end of the task's first line, commands in backquotes"


@dataclass(slots=True)
class _Item:
    number: int
    indent: int
    entry: Entry
    head: str
    body: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Block:
    """Code or a comment: nothing in it is a task."""

    line: int
    end: re.Pattern[str]
    owner: _Item | None
    what: str


class _Reader:
    def __init__(self) -> None:
        self.found = Found()
        self.items: list[_Item] = []
        self._open: list[_Item] = []  # the task whose text may go on, behind those it is nested in
        self._block: _Block | None = None
        self._after_blank = True
        self.plain_list: int | None = None

    def take(self, number: int, line: str) -> None:
        width, rest = _indent(line)
        if self._block is not None and self._goes_on(self._block, width, line, rest):
            return
        if not rest:
            self._keep(line)
            self._after_blank = True
            return
        item = None if RULE.match(rest) else ITEM.match(rest)
        box = BOX.match(item[1]) if item else None
        if box and (self._open or width < 4):
            self._task(number, width, box)
        else:
            self._prose(number, width, line, rest, is_item=bool(item))
        self._after_blank = False

    def end(self) -> None:
        if self._block is not None:
            self.found.problem(self._block.line, f"this {self._block.what} is not closed")

    def _goes_on(self, block: _Block, width: int, line: str, rest: str) -> bool:
        """Whether the line is still part of a block; one that its task ends before it does is a problem."""
        if rest and block.owner is not None and width < block.owner.indent + 2:
            self.found.problem(block.line, f"this {block.what} is not closed before its task ends")
            self._block = None
            return False
        if block.owner is not None:
            block.owner.body.append(line)
        if block.end.search(rest):
            self._block = None
        return True

    def _task(self, number: int, indent: int, box: re.Match[str]) -> None:
        while self._open and indent < self._open[-1].indent + 2:
            self._open.pop()
        if box[1] not in (" ", "x", "X"):
            self.found.problem(number, f"[{box[1]}] is no checkbox; [ ] is to be done, [x] is done")
        if len(self._open) >= DEEPEST:
            self.found.problem(number, f"tasks are nested deeper than {DEEPEST} levels")
            self._open.pop()
        parent = self._open[-1].number if self._open else None
        entry = Entry(number, {}, box[1] in ("x", "X"), parent)
        item = _Item(len(self.items), indent, entry, box[2] or "")
        self.items.append(item)
        self._open.append(item)

    def _prose(self, number: int, width: int, line: str, rest: str, *, is_item: bool) -> None:
        fence = FENCE.match(rest)
        begins = is_item or bool(fence) or bool(RULE.match(rest)) or rest.startswith("<!--")
        lazy = not self._after_blank and not begins and not NO_PARAGRAPH.match(rest)
        left = [] if lazy else self._leave(width)
        if is_item and not self._open:
            if any(abs(item.indent - width) < 2 for item in left):
                self.found.problem(number, "this item has no checkbox; write - [ ] for a task, or indent it")
            self.plain_list = self.plain_list or number
        self._keep(line)
        owner = self._open[-1] if self._open else None
        if fence:
            self._block = _Block(number, _closing(fence[1]), owner, "code block")
        elif rest.startswith("<!--") and "-->" not in rest:
            self._block = _Block(number, re.compile("-->"), owner, "comment")

    def _leave(self, width: int) -> list[_Item]:
        """Close the tasks that a line of this indentation is no part of."""
        left = []
        while self._open and width < self._open[-1].indent + 2:
            left.append(self._open.pop())
        return left

    def _keep(self, line: str) -> None:
        if self._open:
            self._open[-1].body.append(line)


def find(text: str) -> Found:
    """The tasks of a Markdown text."""
    reader = _Reader()
    for number, line in enumerate(re.split(r"\r\n|\n|\r", text), 1):
        reader.take(number, line)
    reader.end()
    found = reader.found
    for item in reader.items[: MOST + 1]:
        _fill(item, found)
        found.entries.append(item.entry)
    if not reader.items:
        found.problem(reader.plain_list or 1, f"there is no task in it; {EXPECTED}")
    return found


def _fill(item: _Item, found: Found) -> None:
    """Split the first line of a task, and give it the text below. Of what is done only the id counts."""
    if len(item.head) > LONGEST:
        found.problem(item.entry.line, f"the line is {len(item.head):,} characters long; {LONGEST:,} fit")
        item.entry.said["title"] = "-"
        return
    wrong: list[str] = []
    title, options = _split(item.head, wrong)
    said = dict(_read(options, wrong, found))
    if item.entry.done:
        item.entry.said = {"id": said["id"]} if "id" in said else {}
        return
    below = (AT_END.search(_masked(line[:LONGEST]).strip()) for line in _first_paragraph(item.body))
    wrong += [_stray(_name(option)) for option in below if option and _name(option) in IN_LINE]
    item.entry.said = {"title": title, "description": _dedent(item.body), **said}
    for message in wrong:
        found.problem(item.entry.line, message)


def _split(head: str, wrong: list[str]) -> tuple[str, list[str]]:
    """A task's first line as its title and its options, which are the parentheses at its end that begin with a name."""
    masked = _masked(head).rstrip()
    found = AT_END.search(masked)
    title = head[: found.start()] if found else head
    # A backquote that is not closed makes code of what may be an option.
    looked = head if found is None and "`" in masked else masked[: len(title)]
    wrong += [_stray(name) for name in map(_name, OPTIONS.finditer(looked)) if name in IN_LINE][:1]
    options = _parts(head[found.start() + 1 : len(masked) - 1]) if found else []
    return re.sub(r"[ \t]+", " ", title).strip(" "), options


def _name(option: re.Match[str]) -> str:
    return option[1].lower()


def _stray(name: str) -> str:
    return f"what is meant by ({name}: …)? {PLACE}"


def _parts(text: str) -> list[str]:
    masked, parts, start = _masked(text), [], 0
    for end in [*(match.start() for match in re.finditer(";", masked)), len(text)]:
        parts.append(text[start:end].strip())
        start = end + 1
    return [part for part in parts if part]


def _read(options: list[str], wrong: list[str], found: Found) -> Iterator[tuple[str, object]]:
    seen = set()
    for option in options:
        match = OPTION.match(option)
        name = match[1].lower() if match else option
        if match is None or name not in IN_LINE:
            wrong.append(f"{unknown(name, IN_LINE, found.problems)}; {NO_OPTION}")
        elif name in seen:
            wrong.append(f"{name} is given twice")
        elif not (value := _plain(match[2])):
            wrong.append(f"{name} is empty")
        else:
            seen.add(name)
            yield name, [part.strip(" \t`") for part in match[2].split(",")] if name in LISTS else value


def _plain(value: str) -> str:
    """A value without the backquotes around it, and the spaces that Markdown drops there."""
    code = CODE.fullmatch(value)
    if code is None:
        return value
    inner = code[2]
    return inner[1:-1] if inner.startswith(" ") and inner.endswith(" ") and inner.strip() else inner


def _first_paragraph(body: list[str]) -> Iterator[str]:
    """What stands right below a title: where options come to stand when an editor breaks the line."""
    for line in body:
        if not line.strip() or FENCE.match(line.lstrip()):
            return
        yield line


def _masked(text: str) -> str:
    """The text with its code blanked out, so that positions stay."""
    return CODE.sub(lambda code: "\0" * len(code[0]), text)


def _closing(fence: str) -> re.Pattern[str]:
    return re.compile(rf"\A{fence[0]}{{{len(fence)},}}[ \t]*\Z")


def _indent(line: str) -> tuple[int, str]:
    """How far a line is indented, with tabs to every fourth column, and what stands there."""
    rest = line.lstrip(" \t")
    return len(line[: len(line) - len(rest)].expandtabs(4)), rest


def _dedent(body: list[str]) -> str:
    """The text below a task as if it stood alone."""
    widths = [width for width, rest in map(_indent, body) if rest and width]
    cut = min(widths, default=0)
    return "\n".join(_cut(line, cut) for line in body).strip("\n")


def _cut(line: str, columns: int) -> str:
    """The line without so many columns of indentation; a tab that is cut in two leaves spaces."""
    width, rest = _indent(line)
    if not rest:
        return ""
    if width <= columns:
        return rest
    lead, at, column = line[: len(line) - len(rest)], 0, 0
    while column < columns:
        column += 4 - column % 4 if lead[at] == "\t" else 1
        at += 1
    return " " * (column - columns) + lead[at:] + rest
