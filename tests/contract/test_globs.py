"""Patterns of paths, held against git itself."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleet.core.globs import is_match, problem

NAMES = ("a", "b", "ab", "a.b", "B")
DEEPER = [f"{above}/{name}" for above in NAMES for name in NAMES]
PATHS = [*NAMES, *DEEPER, *(f"{above}/{path}" for above in "ab" for path in DEEPER)]
PARTS = st.sampled_from(["a", "b", "ab", "*", "?", "**", "a*", "*b", "a?", "[ab]", "[!a]", "[^b]*", "*.b", r"\a"])
PATTERN = st.builds(
    lambda first, steps, last: first + "/".join(steps) + last,
    st.sampled_from(["", "/", "**/"]),
    st.lists(PARTS, min_size=1, max_size=4),
    st.sampled_from(["", "", "/", "/**"]),
)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("globs")
    subprocess.run(["git", "init", "-q", made], check=True)
    return made


@given(PATTERN)
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_pattern_means_what_git_takes_it_for(repository: Path, pattern: str) -> None:
    assert problem(pattern) is None
    (repository / ".gitignore").write_text(pattern + "\n")
    argv = ["git", "-c", "core.ignoreCase=false", "check-ignore", "--no-index", "--stdin", "-z"]
    done = subprocess.run(argv, cwd=repository, input="\0".join(PATHS).encode(), capture_output=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    ignored = set(done.stdout.decode().split("\0")) - {""}
    assert {path for path in PATHS if is_match(pattern, path)} == ignored
