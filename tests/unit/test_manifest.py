"""What may be written over, and what never."""

from __future__ import annotations

import pytest

from fleet.generate.manifest import Change, Manifest, after, digest, during, judge, parse

GONE, KEPT = ".claude/agents/gone.md", ".claude/agents/kept.md"
OLD, NEW, OTHER = b"old", b"new", b"other"


@pytest.mark.parametrize(
    ("wanted", "on_disk", "ours", "expected"),
    [
        (NEW, None, (), Change.NEW),
        (NEW, None, (digest(OLD),), Change.NEW),
        (NEW, NEW, (), Change.SAME),
        (NEW, OLD, (digest(OLD),), Change.CHANGED),
        (NEW, OLD, (digest(OLD), digest(NEW)), Change.CHANGED),
        (NEW, OTHER, (digest(OLD),), Change.EDITED),
        (NEW, OLD, (), Change.FOREIGN),
        (None, OLD, (digest(OLD),), Change.OBSOLETE),
        (None, OTHER, (digest(OLD),), None),
        (None, OLD, (), None),
        (None, None, (digest(OLD),), None),
    ],
)
def test_every_case(
    wanted: bytes | None, on_disk: bytes | None, ours: tuple[str, ...], expected: Change | None
) -> None:
    assert judge(wanted, on_disk, ours) is expected


@pytest.mark.parametrize("content", [None, b"", b"[]", b"{", b'{"files": 3}', b'{"files": [], "targets": 1}', b"\xff"])
def test_a_spoilt_manifest_owns_nothing(content: bytes | None) -> None:
    assert parse(content) == Manifest({})


def test_a_manifest_reads_back() -> None:
    before = Manifest({GONE: ("x",), KEPT: ("y",)})
    manifest = after(before, {"litellm_config.yaml": b"1"}, [GONE], ["claude"])
    assert parse(manifest.dump()) == manifest
    assert dict(manifest.hashes) == {KEPT: ("y",), "litellm_config.yaml": (digest(b"1"),)}


def test_while_a_file_is_replaced_its_old_and_its_new_content_are_ours() -> None:
    between = during(Manifest({KEPT: (digest(OLD),)}), {KEPT: NEW})
    assert {judge(NEW, on_disk, between.hashes[KEPT]) for on_disk in (OLD, NEW)} == {Change.CHANGED, Change.SAME}


@pytest.mark.parametrize(
    "path",
    ["fleet.yaml", "src/main.py", "../litellm_config.yaml", "/etc/passwd", ".claude/agents/../../x.md", ".git/config"],
)
def test_a_forged_record_owns_only_what_a_target_could_have_written(path: str) -> None:
    forged = Manifest({path: ("x",), KEPT: ("y",)}).dump()
    assert set(parse(forged).hashes) == {KEPT}
