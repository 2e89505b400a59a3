"""How fleet was installed, from what the installer left; and which of two versions is newer."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from fleet.app.update import Facts, Method, judge, order

PYTHON = "/x/bin/python"
RECEIPT = {
    "tool": {
        "options": {
            "no-index": True,
            "find-links": ["file:///a", "file:///b"],
            "index": [{"url": "https://one", "default": True}, {"url": "https://two"}],
        }
    }
}


@pytest.mark.parametrize(
    ("facts", "method", "command"),
    [
        ({"receipt": RECEIPT, "installer": "uv"}, Method.UV_TOOL, "uv tool upgrade fleet"),
        ({"receipt": {}, "installer": "uv"}, Method.UV_TOOL, "uv tool upgrade fleet"),
        ({"pipx": {"main_package": {"pip_args": ["--pre"]}}}, Method.PIPX, "pipx upgrade fleet"),
        ({"installer": "uv"}, Method.UV, f"uv pip install --python {PYTHON} --upgrade fleet"),
        ({}, Method.PIP, f"{PYTHON} -m pip install --upgrade fleet"),
        ({"of_user": True}, Method.USER, f"{PYTHON} -m pip install --user --upgrade fleet"),
        ({"direct": {"url": "file:///src/f%20x", "dir_info": {"editable": True}}}, Method.SOURCE, ""),
        ({"direct": {"url": "file:///a.whl", "archive_info": {}}, "receipt": RECEIPT}, Method.FILE, ""),
        ({"direct": {"url": "https://h/r.git", "vcs_info": {}}, "pipx": {}}, Method.FILE, ""),
    ],
)
def test_the_tool_that_installed_it_is_the_one_that_updates_it(
    facts: dict[str, Any], method: Method, command: str
) -> None:
    found = judge(Facts(Path("/x"), PYTHON, **facts))
    assert (found.method, " ".join(found.command)) == (method, command)


def test_uv_is_asked_where_it_looked_before_and_pipx_too() -> None:
    asked = " ".join(judge(Facts(Path("/x"), PYTHON, receipt=RECEIPT)).ask)
    wanted = "--no-index --find-links file:///a --find-links file:///b --default-index https://one --index https://two"
    assert asked.endswith(wanted)
    assert judge(Facts(Path("/x"), PYTHON, pipx={"main_package": {"pip_args": ["--pre"]}})).ask[-1] == "--pre"


def test_where_it_came_from_is_told_as_a_path() -> None:
    direct = {"url": "file:///src/f%20x", "dir_info": {}}
    assert judge(Facts(Path("/x"), PYTHON, direct=direct)).origin == "/src/f x"


def test_versions_have_an_order() -> None:
    versions = [
        "nonsense",
        "0.9",
        "1.0.dev1",
        "1.0a1",
        "1.0b1",
        "1.0rc1.dev1",
        "1.0rc1",
        "1.0",
        "1.0.post1",
        "1.0.1",
        "1.10",
    ]
    assert all(order(one) < order(two) for one, two in pairwise(versions))
    assert order("1.0") == order("1.0.0")
