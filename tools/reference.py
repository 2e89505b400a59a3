"""Writes what the documentation says about the program from the program itself: `make docs`. `--check` only compares.

docs/reference comes from the command tree and the schemas of both files, the generated examples from the three nodes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from fleet import assist
from fleet.cli import COMMANDS, program
from fleet.config import json_schema, load
from fleet.config.runtime_schema import RuntimeFile
from fleet.evidence.receipt import Receipt
from fleet.generate import gateway_file, target

ROOT = Path(__file__).resolve().parent.parent
MARKETPLACE = (".agents", ".claude-plugin", "plugins")  # what `fleet plugins install` writes
OURS = ("docs/reference", "examples/litellm", "examples/claude-agents", *MARKETPLACE)  # nothing else may stand in these
NOTICE = "<!-- Written by tools/reference.py. Change the program, then run: make docs -->"
Schema = Mapping[str, Any]


def outputs() -> dict[str, bytes]:
    """Every file, by its path in the project."""
    schema = json_schema()
    texts = {
        "docs/reference/cli.md": cli_page(),
        "docs/reference/fleet-yaml.md": schema_page(schema),
        "docs/reference/fleet.schema.json": json.dumps(schema, indent=2) + "\n",
        "docs/reference/receipt.schema.json": json.dumps(receipt_schema(), indent=2) + "\n",
        "docs/reference/runtime-toml.md": settings_page(runtime_schema()),
    }
    plugins = {file.path: file.content for file in assist.plugin_bundle()}
    return {path: text.encode() for path, text in texts.items()} | examples() | plugins


def examples() -> dict[str, bytes]:
    fleet = load(ROOT / "examples/three-node-cluster/fleet.yaml").fleet
    agents = {f"examples/claude-agents/{Path(file.path).name}": file for file in target("claude").render(fleet)}
    configs = {f"examples/litellm/{file.path}": file for file in gateway_file(fleet)}
    return {path: file.content for path, file in (configs | agents).items()}


def cli_page() -> str:
    head = [
        NOTICE,
        "# The command line",
        "`fleet`, `flt` and `subagent-fleet` are the same program. Data goes to stdout, talk to stderr; `--json` "
        "prints data that a program can read. Every command has `--help`.",
    ]
    with click.Context(program, info_name="fleet") as ctx:
        head += [f"## {group}\n\n" + "\n\n".join(_group(ctx, commands)) for group, commands in COMMANDS.items()]
    return "\n\n".join(head) + "\n"


def _group(ctx: click.Context, names: Mapping[str, object]) -> Iterator[str]:
    for name in names:
        command = program.get_command(ctx, name)
        assert command is not None
        yield from _command(click.Context(command, info_name=name, parent=ctx))


def _command(ctx: click.Context) -> Iterator[str]:
    command = ctx.command
    yield f"### {ctx.command_path}"
    yield "\n\n".join(" ".join(part.split()) for part in (command.help or "").split("\n\n"))
    if isinstance(command, click.Group):
        for name in command.list_commands(ctx):
            child = command.get_command(ctx, name)
            assert child is not None
            yield from _command(click.Context(child, info_name=name, parent=ctx))
        return
    records = [record for param in command.params if (record := param.get_help_record(ctx))]
    yield table(("option", "meaning"), [(f"`{names}`", words) for names, words in records])


def schema_page(schema: Schema) -> str:
    head = [
        NOTICE,
        "# fleet.yaml, key by key",
        "A walk through it, with the errors: [the guide](../guides/fleet-yaml.md). For editors: "
        "[fleet.schema.json](fleet.schema.json), which `fleet validate --schema` prints too.",
    ]
    return "\n\n".join([*head, *_parts(schema, ORDER)]) + "\n"


def settings_page(schema: Schema) -> str:
    head = [
        NOTICE,
        "# runtime.toml, key by key",
        "The settings of a machine, in `$FLEET_HOME`. How to show and change them: [the guide](../guides/settings.md).",
    ]
    return "\n\n".join([*head, *_parts(schema, SETTINGS_ORDER)]) + "\n"


def runtime_schema() -> dict[str, Any]:
    schema = msgspec.json.schema(RuntimeFile)
    return {**schema["$defs"].pop("RuntimeFile"), "$defs": schema["$defs"]}


def receipt_schema() -> dict[str, Any]:
    """The form of a receipt, with its parts in the order of their names."""
    schema = msgspec.json.schema(Receipt)
    parts = {name: schema["$defs"][name] for name in sorted(schema["$defs"]) if name != "Receipt"}
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return {**head, **schema["$defs"]["Receipt"], "$defs": parts}


def _parts(schema: Schema, order: Sequence[str]) -> list[str]:
    """The file, and each of its parts, with every key."""
    parts = {_title(schema, name): part for name, part in schema["$defs"].items() if "properties" in part}
    assert sorted(parts) == sorted(order)
    sections = [("The file", schema), *((title, parts[title]) for title in order)]
    return [f"## {title}\n\n{part['description']}\n\n{_keys(schema, part)}" for title, part in sections]


ORDER = [
    "project",
    "gateway",
    "nodes.NAME",
    "models.NAME",
    "agents.NAME",
    "limits",
    "workspace",
    "results",
    "checks",
    "scope",
    "evidence",
]
SETTINGS_ORDER = ["limits", "budget", "liveness", "concurrent", "coders.NAME", "accounts.NAME"]


def _title(schema: Schema, part: str) -> str:
    """Where in the file a part stands, from the key that refers to it."""
    for key, about in schema["properties"].items():
        if part in json.dumps(about):
            return f"{key}.NAME" if about.get("type") == "object" else str(key)
    raise LookupError(part)


def _keys(schema: Schema, part: Schema) -> str:
    needed = part.get("required") or part.get("anyOf", [{}])[0].get("required", ())
    rows = [
        (f"`{key}`", kind(schema, about), _default(about, key in needed), _meaning(schema, about))
        for key, about in part["properties"].items()
    ]
    return table(("key", "value", "default", "meaning"), rows)


def _meaning(schema: Schema, about: Schema) -> str:
    """What the key says about itself, else what the part says that stands there."""
    part = schema["$defs"][about["$ref"].rpartition("/")[2]] if "$ref" in about else {}
    return str(about.get("description") or part.get("description") or "")


def _default(about: Schema, needed: bool) -> str:
    if needed:
        return "required"
    value = about.get("default")
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return "none" if value in (None, "", [], ()) or isinstance(value, dict) else f"`{value}`"


def kind(schema: Schema, about: Schema) -> str:
    """What may stand there, in words."""
    if "$ref" in about:
        return kind(schema, schema["$defs"][about["$ref"].rpartition("/")[2]])
    if "anyOf" in about:
        return " or ".join(kind(schema, one) for one in about["anyOf"] if one.get("type") != "null")
    if "enum" in about:
        return ", ".join(f"`{value}`" for value in about["enum"])
    match about["type"]:
        case "array":
            return f"a list of {kind(schema, about['items'])}"
        case "object":
            return "a mapping"
        case "boolean":
            return "`true` or `false`"
        case "integer" | "number":
            return ("a whole number" if about["type"] == "integer" else "a number") + _bounds(about)
        case _:
            return "text"


def _bounds(about: Schema) -> str:
    low = about.get("minimum", about.get("exclusiveMinimum"))
    if low is None:
        return ""
    above = "" if "minimum" in about else "above "
    return f", {above}{low:g} to {about['maximum']}"


def table(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [heads, tuple("---" for _ in heads), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def stale() -> list[str]:
    """The files that are missing, out of date, or not ours to have."""
    wanted = outputs()
    there = {str(path.relative_to(ROOT)) for folder in OURS for path in (ROOT / folder).rglob("*") if path.is_file()}
    different = {path for path, content in wanted.items() if path in there and (ROOT / path).read_bytes() != content}
    return sorted(different | (there ^ wanted.keys()))


def write() -> None:
    wanted = outputs()
    for path in stale():
        if path not in wanted:
            (ROOT / path).unlink()
            continue
        (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / path).write_bytes(wanted[path])


def main(argv: list[str]) -> int:
    if argv not in ([], ["--check"]):
        print("usage: reference.py [--check]", file=sys.stderr)
        return 2
    found = stale()
    for path in found:
        print(f"stale: {path}" if argv else f"wrote {path}")
    if argv:
        return 1 if found else 0
    write()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
