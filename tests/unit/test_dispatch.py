"""Whether an agent has begun, and what kept one that has not: tables of events, and of what real programs say."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleet.coders import OURS, find
from fleet.coders.base import Job
from fleet.coders.command import Declared
from fleet.core.dispatch import Beginning, Remains, begins, hindrance, tail
from fleet.core.work import Attempt, Event, EventKind, Hindrance, Usage
from fleet.supervisor.begun import begun

TRANSCRIPTS = Path(__file__).resolve().parents[1] / "transcripts"
NONCE = "6f0c1f6e-6f3c-4b8e-9a37-0f4f2f1f7d11"
OURS_ONLY = Beginning((NONCE,), words=True)
ANY = Beginning((), words=True)
JUNK = [
    Event(EventKind.OTHER, text="Welcome to Agent 1.0"),
    Event(EventKind.OTHER, text="Please visit https://agent.invalid/login"),
    Event(EventKind.ERROR, text="the model did not answer", status=401),
    Event(EventKind.RESULT, ok=False, text="Invalid API key"),
    Event(EventKind.RESULT, text="it does not say whether that was well"),
    Event(EventKind.LIMITED),
    Event(EventKind.PERMISSION, tool="Bash"),
    Event(EventKind.USAGE),
]


@pytest.mark.parametrize("event", JUNK, ids=lambda event: f"{event.kind} {event.text}")
@pytest.mark.parametrize("by", [OURS_ONLY, ANY, Beginning()])
def test_rubbish_and_errors_show_nothing(event: Event, by: Beginning) -> None:
    assert not begins(event, by)


@pytest.mark.parametrize(
    ("event", "by", "shows"),
    [
        (Event(EventKind.SESSION, session=NONCE), OURS_ONLY, True),
        (Event(EventKind.SESSION, session="another"), OURS_ONLY, False),
        (Event(EventKind.SESSION, model="m"), OURS_ONLY, False),
        (Event(EventKind.SESSION, session="another"), ANY, True),
        (Event(EventKind.SESSION), ANY, False),
        (Event(EventKind.TOOL_CALLED, tool="Bash"), OURS_ONLY, True),
        (Event(EventKind.USAGE, usage=Usage(1, 1)), Beginning(), True),
        (Event(EventKind.RESULT, ok=True), Beginning(), True),
        (Event(EventKind.SAID, text="hello"), ANY, True),
        (Event(EventKind.SAID, text="hello"), Beginning(), False),
    ],
)
def test_what_shows_that_an_agent_has_begun(event: Event, by: Beginning, shows: bool) -> None:
    assert begins(event, by) is shows


def test_it_is_dated_once() -> None:
    attempt = Attempt("t1.1", "t1", 1, "c", None, "/", "me", 0.0, nonce=NONCE)
    first = begun(attempt, [*JUNK, Event(EventKind.SESSION, session=NONCE)], OURS_ONLY, 5.0)
    assert begun(attempt, JUNK, OURS_ONLY, 5.0).dispatched is None
    assert begun(first, [Event(EventKind.TOOL_CALLED)], OURS_ONLY, 9.0).dispatched == 5.0


@pytest.mark.parametrize("name", ["claude", "gemini", "qwen"])
def test_who_can_be_told_the_name_of_its_session_is_told_it_once(name: str) -> None:
    coder = find(name, {})
    assert coder.can.name
    named = f"--session-id={NONCE}"
    assert named in coder.command(Job("do", Path("/"), nonce=NONCE)).argv
    assert named not in coder.command(Job("do", Path("/"), nonce=NONCE, args=("--session-id=mine",))).argv
    assert named not in coder.command(Job("do", Path("/"), nonce=NONCE, session="s1")).argv
    assert not any("--session-id" in word for word in coder.command(Job("do", Path("/"))).argv)


@pytest.mark.parametrize(
    ("name", "file"),
    [
        (path.parent.name, path)
        for path in sorted(TRANSCRIPTS.glob("*/works.*"))
        if path.parent.name != "acp" and path.parent.name in OURS
    ],
)
def test_every_recorded_run_shows_that_it_has_begun_by_its_session_and_by_its_model(name: str, file: Path) -> None:
    coder = find(name, {})
    events = [event for line in file.read_bytes().splitlines() for event in coder.read(line)]
    assert any(begins(event, Beginning((), coder.can.words)) for event in events)
    assert any(begins(event, Beginning(("not this one",), coder.can.words)) for event in events), "a model answered"


def test_plain_text_is_believed_at_its_first_line_and_a_stream_of_our_own_is_not() -> None:
    line = b"Welcome!"
    for stream, shows in (("text", True), ("jsonl", False), ("claude", False), ("aider", False)):
        coder = Declared("mine", ("mine",), events=stream)
        assert any(begins(event, Beginning((), coder.can.words)) for event in coder.read(line)) is shows, stream


@pytest.mark.parametrize(
    ("remains", "kind"),
    [
        (Remains(error="ENOENT: No such file or directory: claude"), Hindrance.PROGRAM),
        (Remains(error="EAGAIN: no process to be had"), Hindrance.UNKNOWN),
        (Remains(code=127, said=["/bin/sh: 1: agent: not found"]), Hindrance.PROGRAM),
        (Remains(code=126), Hindrance.PROGRAM),
        (Remains(code=1, said=["Invalid API key · Please run /login"]), Hindrance.LOGIN),
        (Remains(code=1, said=["Not logged in · Please run /login"]), Hindrance.LOGIN),
        (Remains(code=1, status=401, said=["whatever"]), Hindrance.LOGIN),
        (Remains(code=1, status=404, said=["whatever"]), Hindrance.MODEL),
        (
            Remains(1, None, None, ["unexpected status 401 Unauthorized: Missing bearer authentication in header"]),
            Hindrance.LOGIN,
        ),
        (
            Remains(41, None, None, ["you must specify the GEMINI_API_KEY environment variable."]),
            Hindrance.LOGIN,
        ),
        (
            Remains(
                1, None, None,
                ["There's an issue with the selected model (nope). It may not exist or you may not have access to it."],
            ),
            Hindrance.MODEL,
        ),
        (Remains(1, None, None, ["ProviderModelNotFoundError: Model not found: x/y"]), Hindrance.MODEL),
        (Remains(1, None, None, ["litellm.NotFoundError: model `nope` does not exist"]), Hindrance.MODEL),
        (Remains(1, None, None, ["Error: connect ECONNREFUSED 127.0.0.1:9"]), Hindrance.MODEL),
        (
            Remains(
                1, None, None, ["Raw mode is not supported on the current process.stdin, which Ink uses"]
            ),
            Hindrance.TERMINAL,
        ),
        (Remains(1, None, None, ["Error: stdin is not a terminal"]), Hindrance.TERMINAL),
        (Remains(1, None, None, ["stty: 'standard input': Inappropriate ioctl for device"]), Hindrance.TERMINAL),
        (Remains(1, None, None, ["bash: cannot set terminal process group: not a tty"]), Hindrance.TERMINAL),
        (
            Remains(
                1, None, None,
                ["--dangerously-skip-permissions cannot be used with root/sudo privileges for security reasons"],
            ),
            Hindrance.ROOT,
        ),
        (
            Remains(1, None, None, ["Not inside a trusted directory and --skip-git-repo-check was not specified."]),
            Hindrance.LEAVE,
        ),
        (
            Remains(0, None, None, ["Claude requested permissions to use Write, but you haven't granted it yet."]),
            Hindrance.LEAVE,
        ),
        (
            Remains(
                1, None, None,
                ["Error: Input must be provided either through stdin or as a prompt argument when using --print"],
            ),
            Hindrance.PROMPT,
        ),
        (Remains(1, None, None, ["No prompt provided via stdin."]), Hindrance.PROMPT),
        (Remains(1, None, None, ["You must provide a message or a command"]), Hindrance.PROMPT),
        (Remains(1, None, None, ["No auth type is selected. Please configure an auth type"]), Hindrance.LOGIN),
        (Remains(41, None, None, ["Please set an Auth method in your settings.json or specify"]), Hindrance.LOGIN),
        (Remains(1, None, None, ["unexpected status 404 Not Found: model: nope, url: http://x/v1"]), Hindrance.MODEL),
        (Remains(1, None, 401, ["[API Error: 401 invalid x-api-key]"]), Hindrance.LOGIN),
        (Remains(1, None, None, ["[API Error: model: nope]"]), Hindrance.UNKNOWN),
        (Remains(1, None, None, ["segmentation fault"]), Hindrance.UNKNOWN),
        (Remains(), Hindrance.UNKNOWN),
    ],
)  # fmt: skip
def test_what_kept_it_is_told_from_what_is_left(remains: Remains, kind: Hindrance) -> None:
    assert hindrance(remains) is kind


def test_the_last_line_that_says_something_counts() -> None:
    said = ["Invalid API key", "trying another", "Model not found: x"]
    assert hindrance(Remains(1, None, None, said)) is Hindrance.MODEL


def test_what_was_seen_is_told_on_one_line_and_from_its_end() -> None:
    assert tail(["a  b", "", "c"]) == "a b / c"
    assert (len(tail(["x" * 1000])), tail(["y" * 1000])[0]) == (300, "…")
