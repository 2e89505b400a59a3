"""Any agent that speaks the Agent Client Protocol, declared in runtime.toml.

[coders.NAME]
argv = ["claude-agent-acp"]
prompt = "acp"
permissions = "allow"     # or "reject": what it is answered when it asks whether it may
context_limit = 200000

The protocol is a conversation, so a program of ours leads it: `bridge`, which is started in the agent's place, starts
the agent, and prints what happens under our own field names. What the agent's messages mean is said here.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field

from fleet.coders.base import Can, Coder, Command, Job, checked, option
from fleet.coders.command import jsonl
from fleet.coders.stream import (
    Fields,
    brief,
    count,
    dollars,
    dumped,
    fields,
    has_count,
    items,
    known,
    other,
    print_of,
    short,
    word,
)  # fmt: skip
from fleet.core.errors import BadConfig
from fleet.core.text import clean, nearest
from fleet.core.work import Event, EventKind, Usage

POLICIES = ("allow", "reject")
BRIDGE = (sys.executable, "-P", "-m", "fleet.coders.bridge")  # -P: nothing is imported from the working directory
CAN = Can(resume=True, ask=True, usage=True, cost=True, tools=True, words=True)
LOGIN = -32000  # the protocol's code for an agent that nobody has logged in to
STATUS = re.compile(r"\b(401|402|403|429|500|502|503|504|529)\b")
MOST_CALLS = 10_000
LONGEST_MESSAGE = 64 * 1024


@dataclass(frozen=True, slots=True)
class Acp:
    """An agent with the facts its user declared. Facts that cannot be meant are refused at once."""

    name: str
    argv: tuple[str, ...]
    permissions: str = "allow"
    context_limit: int | None = None
    can: Can = CAN
    unproven: str = "declared by you; agents differ in what they offer"

    def __post_init__(self) -> None:
        key = f"coders.{clean(self.name)}"
        if not self.argv or not self.argv[0] or any("\0" in word for word in self.argv):
            raise BadConfig(f"{key}.argv names no program", hint=f'{key}.argv = ["my-agent"]')
        if self.argv[0].startswith("-"):
            raise BadConfig(f"{key}.argv begins with an option: {clean(self.argv[0])}")
        if self.permissions not in POLICIES:
            said = f"{key}.permissions is {clean(self.permissions)!r}{nearest(self.permissions, POLICIES)}"
            raise BadConfig(said, hint=f"one of: {', '.join(POLICIES)}")

    @property
    def program(self) -> str:
        return self.argv[0]

    def command(self, job: Job) -> Command:
        job = checked(job)
        model = option("--model", job.model)
        session = option("--session", job.session)
        ask = tuple(f"--ask={word}" for word in job.ask)
        options = (f"--permissions={self.permissions}", *model, *session, *ask)
        return Command((*BRIDGE, *options, *self.argv, *job.args), stdin=job.prompt)

    def read(self, line: bytes) -> list[Event]:
        return jsonl(line)


def chosen(options: object, policy: str) -> str | None:
    """The option that answers a permission request by policy; None when none of that kind is offered.

    Once rather than always: an answer that lasts would be written to settings that are the user's own.
    """
    offered = {word(option.get("kind")): word(option.get("optionId")) for option in items(options)}
    return offered.get(f"{policy}_once") or offered.get(f"{policy}_always")


def models(answer: Fields) -> tuple[str | None, Fields]:
    """The model in use, and what is to be asked for another one; nothing where the agent offers no choice."""
    for one in items(answer.get("configOptions")):
        if one.get("category") == "model" and one.get("type") == "select":
            return word(one.get("currentValue")), {"configId": word(one.get("id"))}
    older = fields(answer.get("models"))  # of agents that are older than options
    return word(older.get("currentModelId")), {"modelId": None} if older else {}


def refused(code: object, message: str, data: object, last: str) -> tuple[str, int | None]:
    """What an agent says that went wrong, and what the provider answered, if that is what it was."""
    details = word(fields(data).get("details")) or ""
    said = short(": ".join(dict.fromkeys(part for part in (message, details) if part)) or "it did not say what")
    text = short(f"{said} ({last})") if last and last not in said else said
    if isinstance(code, int) and 400 <= code < 600:
        return text, code
    if code == LOGIN:
        return text, 401
    found = STATUS.search(said)  # never in the agent's own words
    if found is None and fields(data).get("errorKind") == "rate_limit":
        return text, 429
    return text, int(found[1]) if found else None


@dataclass(slots=True)
class _Call:
    """A tool call, as far as it was told."""

    known: Fields = field(default_factory=dict)
    called: bool = False
    ended: bool = False


@dataclass(slots=True)
class Turn:
    """What an agent tells from a prompt to its end, as events: whole messages out of pieces, calls with their input."""

    said: str = ""  # its last whole message
    _cost: float = 0.0  # US dollars, as last told
    _words: str = ""  # of the message that is being said
    _message: object = None
    _thinking: bool = False
    _calls: dict[str, _Call] = field(default_factory=dict)

    def hear(self, update: Fields) -> list[Event]:
        """The events in one `session/update`; never raises, and an unknown kind is one event of the kind `other`."""
        kind = update.get("sessionUpdate")
        thinks, self._thinking = self._thinking, kind == "agent_thought_chunk"
        match kind:
            case "agent_message_chunk":
                return self._piece(update)
            case "agent_thought_chunk":
                return [] if thinks else [*self.pause(), other("thinking")]
            case "tool_call" | "tool_call_update":
                return self._tool(update)
            case "usage_update":
                return [self._context(update)]
            case _:
                return [other(word(kind) or dumped(update))]

    def asked(self, request: Fields) -> list[Event]:
        """The events in a request for permission: of the call that it is about some agents tell only there."""
        return self._tool({**fields(request.get("toolCall")), "sessionUpdate": "tool_call_update"})

    def pause(self) -> list[Event]:
        """The message so far, as a whole one."""
        text, self._words = self._words.strip(), ""
        if not text:
            return []
        self.said = short(text)
        return [Event(EventKind.SAID, text=self.said)]

    def end(self, answer: Fields) -> list[Event]:
        """The end of a turn, as the agent answers its prompt."""
        reason = word(answer.get("stopReason"))
        events = self.pause()
        done = reason == "end_turn"
        text = self.said if done and self.said else f"the agent stopped: {reason or 'it did not say why'}"
        return [*events, Event(EventKind.RESULT, text=short(text), ok=done, usage=_usage(answer.get("usage")))]

    def _piece(self, update: Fields) -> list[Event]:
        message = update.get("messageId")
        before = self.pause() if message != self._message else []
        self._message = message
        text = fields(update.get("content")).get("text")
        self._words += text if isinstance(text, str) else ""
        return [*before, *self.pause()] if len(self._words) > LONGEST_MESSAGE else before

    def _tool(self, update: Fields) -> list[Event]:
        """A call is told once its input is known, and its end once: agents announce it first and fill it in later."""
        name = word(update.get("toolCallId")) or "unnamed"
        if len(self._calls) >= MOST_CALLS:
            self._calls.clear()
        call = self._calls.setdefault(name, _Call())
        if call.ended:
            return []
        call.known |= {key: value for key, value in update.items() if value is not None}
        status, events = call.known.get("status"), self.pause()
        over = status in ("completed", "failed")
        filled_in = update["sessionUpdate"] == "tool_call_update" and bool(update.get("rawInput"))
        if not call.called and (filled_in or over or status == "in_progress"):
            call.called = True
            events.append(_called(name, call.known))
        if over:
            events.append(Event(EventKind.TOOL_ENDED, text=_output(call.known), call=name, ok=status == "completed"))
            call.ended, call.known = True, {}
        return events

    def _context(self, update: Fields) -> Event:
        """How full its context is, which is told instead of what a request read; and what was spent since.

        The protocol's cost is that of the session so far, and agents count it from when they were started.
        """
        cost = fields(update.get("cost"))
        amount = dollars(cost.get("amount")) if cost.get("currency") == "USD" else None
        spent = max(0.0, (amount or 0.0) - self._cost) or None  # 0 is told of models whose price nobody knows
        self._cost = amount or self._cost
        limit, used = count(update.get("size")) or None, count(update.get("used")) or None
        return Event(EventKind.USAGE, context=used, spent=spent, context_limit=limit)


def _called(name: str, known: Fields) -> Event:
    """Titles are sentences and differ with every call: the tool is its name where that is told, else its kind."""
    tool = word(known.get("name")) or word(known.get("kind")) or "tool"
    given = known.get("rawInput")
    text = brief(given) or word(known.get("title"))
    return Event(EventKind.TOOL_CALLED, text=text, tool=tool, call=name, given=print_of(given))


def _output(known: Fields) -> str | None:
    texts = [word(fields(part.get("content")).get("text")) or "" for part in items(known.get("content"))]
    raw = known.get("rawOutput")
    return word("\n".join(filter(None, texts))) or word(raw) or (dumped(raw) if raw else None)


def _usage(value: object) -> Usage | None:
    """What a turn read, from a cache or not, and what it wrote."""
    used, read = fields(value), ("inputTokens", "cachedReadTokens", "cachedWriteTokens")
    cached, stored = known(used.get("cachedReadTokens")), known(used.get("cachedWriteTokens"))
    prompt = sum(count(used.get(name)) for name in read)
    if not has_count(used, *read, "outputTokens"):
        return None
    return Usage(prompt, count(used.get("outputTokens")), cached, stored)


_promise: type[Coder] = Acp
