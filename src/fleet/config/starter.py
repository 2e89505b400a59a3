"""The runtime.toml of a new home, from the schema: every key explained, none of them set."""

from __future__ import annotations

import json
import textwrap
import typing
from collections.abc import Iterator

from msgspec import NODEFAULT, Meta, structs

from fleet.config.runtime_schema import Budget, Liveness, MachineLimits, RuntimeFile
from fleet.config.shape import Part

HEAD = """\
# The settings of this machine. A running supervisor reads them again when they change.
#
# A line that begins with # and a name shows a default: take the # away and change the value, or let fleet do it:
#   fleet config set max_concurrent=5
#   fleet config show --origin
"""
CODERS = """\
# Any program as a coder, without code. Those that are built in or installed (fleet coders list) take of these keys
# context_limit, args, env, pass_env and pass_login. Nothing secret is passed on to an agent but what pass_env names,
# and its own login (pass_login = false switches that off).
#
# [coders.my-agent]
# argv = ["my-agent", "--go"]             # the program and its options
# prompt = "stdin"                        # or "arg": as the last argument, which every user of the machine can see;
#                                         # or "acp": by the Agent Client Protocol, without events and the two flags
# permissions = "allow"                   # or "reject": what it is answered when it asks whether it may; with "acp"
# events = "text"                         # or "jsonl", or the name of a CLI, such as "claude": how its output is read
# model_flag = "--model"
# resume_flag = "--resume"
# interactive = ["my-agent"]              # how it is started in a terminal, where you talk to it
# context_limit = 128000                  # tokens
# args = ["--extra"]
# env = {NAME = "value"}
# pass_env = ["MY_API_KEY"]               # names of variables, taken from the supervisor's environment
"""
ACCOUNTS = """\
# Several accounts of one coder: the first that is not used up is taken, in this order.
#
# [accounts.work]
# coder = "claude"
# env = {CLAUDE_CONFIG_DIR = "~/.claude-work"}  # what chooses the account
# pass_env = []                                 # or names of variables, taken from the supervisor's environment
"""
CONCURRENT = """\
[concurrent.coders]
# At most so many of one coder at once, by its name.
#claude = 2

[concurrent.models]
# At most so many with one model at once, by its name.
#opus = 1

[concurrent.projects]
# At most so many at work below one directory at once, by its absolute path.
#"/home/me/project" = 2

[concurrent.accounts]
# At most so many with one account at once, by its name.
#work = 2
"""


def starter() -> str:
    """The text. What explains a table stands under its header: a key that is added comes after everything above it."""
    limits = f"[limits]\n{_explained(MachineLimits.__doc__ or '')}"
    budget = f"[budget]\n{_explained(Budget.__doc__ or '')}"
    liveness = f"[liveness]\n{_explained(Liveness.__doc__ or '')}"
    parts = [limits, *_keys(MachineLimits), budget, *_keys(Budget), liveness, *_keys(Liveness)]
    return "\n".join([HEAD, *_keys(RuntimeFile), CODERS, ACCOUNTS, *parts, CONCURRENT])


def _keys(kind: type[Part]) -> Iterator[str]:
    for field in structs.fields(kind):
        if field.default is NODEFAULT or isinstance(field.default, Part):
            continue
        notes = [note for note in typing.get_args(field.type) if isinstance(note, Meta)]
        words = " ".join([note.description for note in notes if note.description] + [_range(note) for note in notes])
        yield f"{_explained(words)}#{field.name} = {json.dumps(field.default)}\n"


def _range(note: Meta) -> str:
    return "" if note.ge is None else f"{note.ge} to {note.le}."


def _explained(words: str) -> str:
    return textwrap.indent(textwrap.fill(words.strip(), 116) + "\n", "# ")
