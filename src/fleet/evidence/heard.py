"""What an agent's events show, added up one by one in bounded memory. Pure."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace

from fleet.core.proof import Heard
from fleet.core.text import clean
from fleet.core.work import Event, EventKind
from fleet.evidence.claims import claimed_only, is_shell

MOST_TOOLS, MOST_OPEN, MOST_COMMANDS = 200, 10_000, 200
LONGEST_COMMAND, LONGEST_WORDS = 300, 4000
OTHERS = "other tools"


@dataclass(slots=True)
class Listening:
    """Takes in the bytes of an output and the events in it, in their order."""

    size: int = 0
    _hash: hashlib._Hash = field(default_factory=hashlib.sha256)
    _tools: dict[str, int] = field(default_factory=dict)
    _open: set[str] = field(default_factory=set)
    _closed: set[str] = field(default_factory=set)
    _unnamed: int = 0  # calls that go by no name, or are too many to be told apart, and have not ended
    _commands: dict[str, None] = field(default_factory=dict)
    _words: list[str] = field(default_factory=list)

    def take(self, piece: bytes) -> None:
        self.size += len(piece)
        self._hash.update(piece)

    def add(self, event: Event) -> None:
        match event.kind:
            case EventKind.TOOL_CALLED:
                self._words.clear()
                self._called(event)
            case EventKind.TOOL_ENDED:
                self._words.clear()
                self._ended(event)
            case EventKind.SAID | EventKind.RESULT if event.text:
                self._say(event.text)

    def heard(self, *, tells_tools: bool) -> Heard:
        """What was heard; how many calls there were is known of those who tell them."""
        calls = sum(self._tools.values())
        told = Heard(
            sha256=self._hash.hexdigest(),
            size=self.size,
            tools=dict(self._tools),
            calls=calls if tells_tools or calls else None,
            unmatched=len(self._open) + self._unnamed,
            commands=tuple(self._commands),
            words=_joined(self._words),
        )
        return replace(told, claimed_only=claimed_only(told))

    def _called(self, event: Event) -> None:
        if event.call is not None and event.call in self._open:
            return  # told twice
        if event.call is None or len(self._open) >= MOST_OPEN:
            self._unnamed += 1
        else:
            self._open.add(event.call)
        name = self._count(event)
        if is_shell(name) and event.text and len(self._commands) < MOST_COMMANDS:
            self._commands[clean(" ".join(event.text.split()), LONGEST_COMMAND)] = None

    def _ended(self, event: Event) -> None:
        """A call that is told of only once it has ended counts as one that was made."""
        known = event.call is not None and (event.call in self._open or event.call in self._closed)
        if not known and self._unnamed:
            self._unnamed -= 1
        elif not known and len(self._closed) < MOST_OPEN:
            self._count(event)
        if event.call is not None:
            self._open.discard(event.call)
            if len(self._closed) < MOST_OPEN:
                self._closed.add(event.call)

    def _count(self, event: Event) -> str:
        """Count a call; the name that it is counted under."""
        name = clean(event.tool or "unknown", 80)
        if name not in self._tools and len(self._tools) >= MOST_TOOLS:
            name = OTHERS
        self._tools[name] = self._tools.get(name, 0) + 1
        return name

    def _say(self, text: str) -> None:
        if text in self._words:  # a result says again what was said last
            return
        self._words.append(text)
        while len(self._words) > 1 and sum(map(len, self._words)) > LONGEST_WORDS:
            self._words.pop(0)


def _joined(words: list[str]) -> str:
    """Messages one below the other; pieces of one message, as some agents tell them, as they belong together."""
    text = ""
    for piece in words:
        whole = not text or text.rstrip()[-1:] in ".!?:)`*" or text.endswith("\n") or piece[:1].isupper()
        text += f"\n{piece}" if text and whole else piece
    return text[-LONGEST_WORDS:].strip()
