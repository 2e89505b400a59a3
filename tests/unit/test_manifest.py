"""What may be written over, and what never."""

from __future__ import annotations

import pytest

from fleet.generate.manifest import Change, Manifest, after, digest, judge, parse

OLD, NEW, OTHER = b"old", b"new", b"other"


@pytest.mark.parametrize(
    ("wanted", "on_disk", "ours", "expected"),
    [
        (NEW, None, None, Change.NEW),
        (NEW, None, digest(OLD), Change.NEW),
        (NEW, NEW, None, Change.SAME),
        (NEW, OLD, digest(OLD), Change.CHANGED),
        (NEW, OTHER, digest(OLD), Change.EDITED),
        (NEW, OLD, None, Change.FOREIGN),
        (None, OLD, digest(OLD), Change.OBSOLETE),
        (None, OTHER, digest(OLD), None),
        (None, OLD, None, None),
        (None, None, digest(OLD), None),
    ],
)
def test_every_case(wanted: bytes | None, on_disk: bytes | None, ours: str | None, expected: Change | None) -> None:
    assert judge(wanted, on_disk, ours) is expected


@pytest.mark.parametrize("content", [None, b"", b"[]", b"{", b'{"files": 3}', b'{"files": [], "targets": 1}', b"\xff"])
def test_a_spoilt_manifest_owns_nothing(content: bytes | None) -> None:
    assert parse(content) == Manifest({})


def test_a_manifest_reads_back() -> None:
    manifest = after(Manifest({"gone": "x", "kept": "y"}), {"a": b"1"}, ["gone"], ["claude"])
    assert parse(manifest.dump()) == manifest
    assert dict(manifest.hashes) == {"kept": "y", "a": digest(b"1")}
