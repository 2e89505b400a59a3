"""What pip is to install for a project and its tests."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.app.kinds import pip_wants

PROJECT: dict[str, Any] = {"project": {"name": "x"}}


def with_extras(*names: str) -> dict[str, Any]:
    return {"project": {"name": "x", "optional-dependencies": {name: ["pytest"] for name in names}}}


@pytest.mark.parametrize(
    ("there", "pyproject", "has_tests", "wanted"),
    [
        (["pyproject.toml"], PROJECT, False, ["-e", "."]),
        (["pyproject.toml"], PROJECT, True, ["-e", ".", "pytest"]),
        (["pyproject.toml"], with_extras("docs", "dev", "test"), True, ["-e", "'.[test]'"]),
        (["pyproject.toml"], with_extras("docs"), True, ["-e", ".", "pytest"]),
        (["pyproject.toml"], {"tool": {"pytest": {}}}, False, ["pytest"]),
        (["pyproject.toml"], {"tool": {"ruff": {}}}, False, []),
        (["pyproject.toml"], {"build-system": {}}, False, ["-e", "."]),
        (["pyproject.toml"], {"project": "not a table"}, True, ["pytest"]),
        (["setup.py"], {}, True, ["-e", ".", "pytest"]),
        (["requirements.txt", "pyproject.toml"], PROJECT, True, ["-r", "requirements.txt", "pytest"]),
        (["requirements-dev.txt"], {}, True, ["-r", "requirements-dev.txt"]),
        ([], {}, True, ["pytest"]),
        ([], {}, False, []),
    ],
)  # fmt: skip
def test_an_environment_holds_what_the_tests_need(
    there: list[str], pyproject: dict[str, Any], has_tests: bool, wanted: list[str]
) -> None:
    assert pip_wants(there, pyproject, has_tests=has_tests) == wanted
