"""How fleet was installed, from what the installer left; and what its origin has."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.app.update import Facts, Found, Method, command_of, judge_checkout, judge_refs, method_of, origin_of

PYTHON = "/x/bin/python"
URL = "https://git.example.com/fleet.git"
GIT = {"url": URL, "vcs_info": {"vcs": "git", "commit_id": "a" * 40}}
CHECKOUT: dict[str, object] = {"url": "file:///src/f%20x", "dir_info": {}}


@pytest.mark.parametrize(
    ("facts", "method"),
    [
        ({"has_uv_receipt": True, "installer": "uv", "direct": GIT}, Method.UV_TOOL),
        ({"has_pipx_metadata": True, "installer": "uv", "direct": CHECKOUT}, Method.PIPX),
        ({"installer": "uv"}, Method.UV),
        ({"direct": GIT}, Method.PIP),
        ({"direct": {"url": "file:///src", "dir_info": {"editable": True}}, "has_uv_receipt": True}, Method.SOURCE),
        ({"direct": {"dir_info": "nonsense"}}, Method.PIP),
    ],
)
def test_the_tool_that_installed_it_is_known_by_what_it_left(facts: dict[str, Any], method: Method) -> None:
    assert method_of(Facts("1.0", **facts)) == method


@pytest.mark.parametrize("method", [one for one in Method if one is not Method.SOURCE])
def test_what_brings_it_asks_for_its_origin_and_for_no_name(method: Method) -> None:
    command = command_of(method, origin_of(GIT), PYTHON)
    of_its_receipt = ("uv", "tool", "upgrade", "fleet-agents", "--reinstall-package", "fleet-agents")
    assert command[-1] == f"git+{URL}" or command == of_its_receipt


@pytest.mark.parametrize(
    ("direct", "origin"),
    [
        (None, ""),
        (CHECKOUT, "file:///src/f%20x"),
        (GIT, f"git+{URL}"),
        ({**GIT, "vcs_info": {"vcs": "git", "requested_revision": "next"}}, f"git+{URL}@next"),
        ({**GIT, "subdirectory": "part"}, f"git+{URL}#subdirectory=part"),
    ],
)
def test_where_it_came_from_is_written_as_installers_want_it(direct: dict[str, object] | None, origin: str) -> None:
    assert origin_of(direct) == origin


REFS = {
    "HEAD": "b" * 40,
    "refs/heads/main": "b" * 40,
    "refs/heads/old": "a" * 40,
    "refs/tags/v1.0": "a" * 40,
    "refs/tags/v1.10": "b" * 40,
    "refs/tags/v1.10^{}": "c" * 40,
    "refs/tags/v1.9": "c" * 40,
    "refs/tags/v2.0rc1; reboot": "d" * 40,
    "refs/tags/nightly": "e" * 40,
}


@pytest.mark.parametrize(
    ("revision", "newest", "newer"),
    [
        (None, "b" * 12, True),
        ("main", "b" * 12, True),
        ("old", "a" * 12, False),
        ("v1.0", "v1.10", True),
        ("a" * 40, "v1.10", True),
    ],
)
def test_of_a_branch_the_newest_commit_counts_and_of_the_rest_the_newest_version(
    revision: str | None, newest: str, newer: bool
) -> None:
    vcs = {"vcs": "git", "commit_id": "a" * 40, "requested_revision": revision}
    found = judge_refs({"url": URL, "vcs_info": vcs}, REFS, "1.0")
    assert (found.newest, found.newer) == (newest, newer)
    assert (f"git+{URL}@v1.10" in found.hint) == newest.startswith("v"), "who named a version is told, and decides"


def test_who_has_the_newest_version_is_told_so_and_where_none_is_tagged_too() -> None:
    direct = {"url": URL, "vcs_info": {"vcs": "git", "commit_id": "b" * 40, "requested_revision": "v1.10"}}
    assert judge_refs(direct, REFS, "1.10").newer is False
    untagged = judge_refs(direct, {"HEAD": "b" * 40}, "1.10")
    assert (untagged.newest, untagged.newer) == (None, None)


@pytest.mark.parametrize(
    ("said", "other", "found"),
    [
        ("1.1", True, Found("1.1", True)),
        ("1.0", True, Found("1.0", True)),
        ("1.0", False, Found("1.0", False)),
        ("0.9", True, Found("0.9", False)),
    ],
)
def test_a_checkout_is_newer_by_its_version_or_by_its_code(said: str, other: bool, found: Found) -> None:
    assert judge_checkout(f'"""x"""\n\n__version__ = "{said}"\n', other, "1.0") == found


@pytest.mark.parametrize("text", ["", "nothing", '__version__ = "nonsense"\n'])
def test_a_checkout_that_is_gone_is_nothing_newer(text: str) -> None:
    found = judge_checkout(text, True, "1.0")
    assert (found.newer, bool(found.reason), bool(found.hint)) == (None, True, True)
