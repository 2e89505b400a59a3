"""What a result may touch."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.core.globs import folded, is_match, may_match, problem
from fleet.core.proof import Change, ChangeKind, EntryKind, Scope
from fleet.core.scope import PROTECTED, breaches, combine, leads_out, protected_as

GONE = ChangeKind.DELETED
STEP = st.text(st.sampled_from("abAB.é_-"), min_size=1, max_size=4).filter(lambda step: step.strip(".") != "")
PATH = st.lists(STEP, min_size=1, max_size=4).map("/".join)


def rules(*changes: Change, check_files: tuple[str, ...] = (), **scope: object) -> list[tuple[str, str]]:
    return [(b.rule, b.path) for b in breaches(changes, Scope(**scope), check_files=check_files)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("pattern", "hits", "misses"),
    [
        ("src/**", ["src/a", "src/a/b.py"], ["src", "lib/src/a", "srcs/a"]),
        ("src/", ["src/a", "lib/src/a"], ["src", "srcs/a"]),
        ("/src", ["src", "src/a"], ["lib/src"]),
        ("*.md", ["README.md", "docs/a/b.md"], ["README.mdx", "md"]),
        ("docs/*.md", ["docs/a.md"], ["docs/a/b.md", "x/docs/a.md", "docs/amd"]),
        ("docs/*", ["docs/a", "docs/a/b"], ["docs"]),
        ("**/tests/**", ["tests/a", "x/y/tests/z/a"], ["tests", "test/a"]),
        ("a/**/b", ["a/b", "a/x/b", "a/x/y/b", "a/x/b/c"], ["a/x", "b"]),
        ("a/**/b/**/c", ["a/b/c", "a/b/x/b/c"], ["a/c", "a/b"]),
        ("file[0-9].txt", ["file1.txt", "x/file9.txt"], ["filea.txt"]),
        ("file[!0-9].txt", ["filea.txt"], ["file1.txt"]),
        ("file[^0-9].txt", ["filea.txt"], ["file1.txt"]),
        ("a?c", ["abc"], ["ac", "a/c"]),
        (r"\*.md", ["*.md"], ["a.md"]),
        ("*", ["a", "a/b/c"], []),
        ("**", ["a", "a/b/c"], []),
        ("Makefile", ["Makefile", "x/Makefile"], ["makefile"]),
    ],
)
def test_patterns_mean_what_they_mean_in_a_gitignore(pattern: str, hits: list[str], misses: list[str]) -> None:
    assert problem(pattern) is None
    assert [path for path in hits if not is_match(pattern, path)] == []
    assert [path for path in misses if is_match(pattern, path)] == []
    assert [path for path in hits if not may_match(("zzz", pattern), path)] == []


PIECES = st.lists(st.sampled_from(["a", "b", "ab", "*", "?", "**", "a*", "[ab]", "[!a]", "/"]), min_size=1, max_size=6)


@given(PIECES, st.lists(st.sampled_from(["a", "b", "ab", "c"]), min_size=1, max_size=4), st.booleans())
def test_what_a_pattern_means_it_may_mean(pattern: list[str], steps: list[str], is_directory: bool) -> None:
    written, path = "".join(pattern), "/".join(steps) + ("/" if is_directory else "")
    assert may_match((written, "zzz"), path) or not is_match(written, path)


def test_a_hostile_name_does_not_hold_a_pattern_up() -> None:
    assert not is_match("*a" * 40 + "b", "a" * 255)
    assert not is_match("**/a/" * 30 + "b", "/".join("a" * 400))


@pytest.mark.parametrize("pattern", ["", "/", "!src", "../x", "src/./a", "~/x", "a[b", "a[b/c]d"])
def test_a_pattern_that_makes_no_sense_is_said_to_make_none(pattern: str) -> None:
    assert problem(pattern)


def test_without_a_scope_everything_may_be_changed_but_nothing_deleted() -> None:
    assert rules(Change("src/a.py"), Change("b.py", change=ChangeKind.ADDED)) == []
    assert rules(Change("a.py", change=GONE)) == [("deletions", "")]
    assert rules(Change("a.py", change=GONE), deletions=1) == []


def test_a_rename_is_no_deletion_and_is_judged_at_both_ends() -> None:
    moved = Change("src/new.py", change=ChangeKind.RENAMED, old_path="lib/old.py")
    assert rules(moved) == []
    assert rules(moved, allow=("src/",)) == [("allow", "lib/old.py")]
    assert rules(moved, deny=("lib/",)) == [("deny", "lib/old.py")]
    hidden = Change("attic/ci.yml", change=ChangeKind.RENAMED, old_path=".github/workflows/ci.yml")
    assert rules(hidden) == [("protected", ".github/workflows/ci.yml")]


def test_deny_wins_over_allow_and_does_not_care_for_case() -> None:
    assert rules(Change("src/secret.py"), allow=("src/",), deny=("src/secret.py",)) == [("deny", "src/secret.py")]
    assert rules(Change("src/SECRET.py"), deny=("src/secret.py",)) == [("deny", "src/SECRET.py")]
    assert rules(Change("SRC/a.py"), allow=("src/",)) == [("allow", "SRC/a.py")]


def test_too_many_files_are_counted_and_deletions_named() -> None:
    many = [Change(f"f{n}.py") for n in range(5)]
    assert rules(*many, files=5) == []
    [breach] = breaches(many, Scope(files=4))
    assert breach.reason == "5 files are changed, and no more than 4 may be"
    [breach] = breaches([Change(f"f{n}.py", change=GONE) for n in range(5)], Scope())
    assert breach.reason == "5 files are deleted, and none may be: f0.py, f1.py, f2.py and 2 more"
    [breach] = breaches([Change(f"f{n}.py", change=GONE) for n in range(2)], Scope(deletions=1))
    assert breach.reason == "2 files are deleted, and no more than 1 may be: f0.py, f1.py"


@pytest.mark.parametrize(
    "path",
    [
        ".github/workflows/ci.yml", ".GitHub/workflows/ci.yml", ".gitlab-ci.yml", "Jenkinsfile",
        "sub/.circleci/config.yml",
        "CLAUDE.md", "claude.md", "docs/AGENTS.md", ".claude/settings.json", ".aider.conf.yml", "opencode.jsonc",
        "package-lock.json", "web/yarn.lock", "uv.lock", "requirements-dev.lock", ".envrc",
        "a/.devcontainer/x", ".vscode/tasks.json", "Cargo.lock", "fleet.yaml", "Fleet.YAML", ".gitattributes",
        "x/.gitattributes", ".gitmodules", ".git\u200bhub/x", ".github./x", "claude.md ", ".mcp.json",
    ],
)  # fmt: skip
def test_what_is_protected_needs_to_be_allowed_however_it_is_spelt(path: str) -> None:
    assert rules(Change(path)) == [("protected", path)]
    assert rules(Change(path), protected=("*",)) == []
    assert rules(Change(path), protected=(path.rstrip(" "),)) == [] or path.endswith(" ")


@pytest.mark.parametrize("path", [".gitignore", "requirements.txt", "src/github/a.py", "lock.py", "docs/claude.txt"])
def test_what_only_looks_alike_is_not_protected(path: str) -> None:
    assert protected_as(path) is None


def test_the_checks_own_files_are_protected() -> None:
    own = ("tools/check.sh", "caf\u00e9.sh")
    assert rules(Change("tools/check.sh"), check_files=own) == [("protected", "tools/check.sh")]
    assert rules(Change("tools/Check.sh"), check_files=own) == [("protected", "tools/Check.sh")]
    assert rules(Change(unicodedata.normalize("NFD", "café.sh")), check_files=own)
    assert rules(Change("tools/check.sh"), check_files=own, protected=("tools/",)) == []
    assert rules(Change("tools/other.sh"), check_files=own) == []


def test_a_submodule_is_protected_and_a_pattern_for_directories_means_it() -> None:
    bump = Change("vendor/lib", entry=EntryKind.SUBMODULE)
    assert rules(bump) == [("protected", "vendor/lib")]
    assert rules(bump, protected=("vendor/",)) == []
    assert rules(bump, deny=("vendor/lib/",), protected=("*",)) == [("deny", "vendor/lib")]
    assert rules(Change("vendor/lib", old_mode="160000", mode="100644")) == [("protected", "vendor/lib")]


@pytest.mark.parametrize(
    ("path", "target", "out"),
    [
        ("a/link", "../b", False),
        ("link", "a/b", False),
        ("link", "./a", False),
        ("link", "../a", True),
        ("a/link", "../../b", True),
        ("link", "/etc/passwd", True),
        ("link", "a/../../b", True),
        ("link", "sub/..", True),
        ("link", ".git/config", True),
        ("a/link", "../.GIT/hooks", True),
        ("link", "", False),
    ],
)
def test_a_link_that_leads_out_of_the_repository(path: str, target: str, out: bool) -> None:
    assert leads_out(path, target) is out
    found = rules(Change(path, entry=EntryKind.SYMLINK, target=target, change=ChangeKind.ADDED))
    assert found == ([("symlink", path)] if out else [])


def test_reasons_carry_no_control_bytes() -> None:
    [breach] = breaches([Change("\x1b[2Jx\ny.lock")], Scope(allow=("src/",)))
    assert breach.reason.isprintable()
    [breach] = breaches([Change("src/a\udcff\n.py", change=GONE)], Scope())
    assert breach.reason.isprintable()


def test_a_task_adds_to_what_its_project_denies() -> None:
    project = Scope(allow=("src/",), deny=("src/keys/",), files=5, protected=("uv.lock",))
    both = combine(project, Scope(allow=("docs/",), deny=("docs/old/",), deletions=2))
    assert both == Scope(("docs/",), ("src/keys/", "docs/old/"), 5, 2, ("uv.lock",))
    assert combine(project, Scope()) == project


@given(PATH)
def test_a_path_means_itself_and_everything_below_it(path: str) -> None:
    assert is_match("/" + path, path)
    assert is_match("/" + path, path + "/below")
    assert is_match("/" + path + "/", path + "/below")
    assert not is_match("/" + path + "/", path)


@given(PATH, st.sampled_from([pattern for patterns in PROTECTED.values() for pattern in patterns]))
def test_no_spelling_gets_past_the_protected_list(above: str, pattern: str) -> None:
    plain = pattern.strip("/").replace("*", "x")
    if "/" not in plain:
        assert protected_as(f"{above}/{plain}/") is not None
    assert protected_as(plain.upper() + ("/x" if pattern.endswith("/") else "")) is not None


@given(st.lists(PATH, max_size=6), st.lists(PATH, max_size=3), st.lists(PATH, max_size=3))
def test_more_denied_is_never_fewer_breaches(paths: list[str], deny: list[str], more: list[str]) -> None:
    changes = [Change(path) for path in paths]
    few = {b.path for b in breaches(changes, Scope(deny=tuple(deny)))}
    assert few <= {b.path for b in breaches(changes, Scope(deny=(*deny, *more)))}


@given(st.text(max_size=30))
def test_folding_is_done_once(text: str) -> None:
    assert folded(folded(text)) == folded(text)
