"""What git does to bytes on their way in: the decisions, as tables."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fleet.host.attributes import RAW, Mark, Way, read_attributes, read_marks, way


@pytest.mark.parametrize(
    ("attributes", "autocrlf", "expected"),
    [
        ({}, False, RAW),
        ({}, True, Way("text=auto")),
        ({"text": "unset"}, True, RAW),
        ({"text": "set"}, False, Way("text")),
        ({"text": "auto", "eol": "crlf"}, False, Way("text=auto")),
        ({"text": "unset", "eol": "crlf"}, False, RAW),
        ({"text": "unspecified", "eol": "lf"}, False, Way("text")),
        ({"text": "unspecified", "crlf": "unset"}, True, RAW),
        ({"text": "unspecified", "crlf": "input"}, False, Way("text")),
        ({"text": "what"}, True, Way("text=auto")),
        ({"ident": "set"}, False, Way(ident=True)),
        ({"filter": "lfs", "text": "unset"}, True, Way(filter="lfs")),
        ({"filter": "set"}, False, RAW),
        ({"filter": "unset", "working-tree-encoding": "UTF-16"}, False, Way(filter="UTF-16")),
    ],
)
def test_a_files_way_into_git(attributes: dict[str, str], autocrlf: bool, expected: Way) -> None:
    assert way(attributes, autocrlf) == expected


def test_what_git_says_of_attributes_is_read_and_half_of_it_too() -> None:
    out = b"a b\0filter\0lfs\0a b\0text\0unset\0\xff\0filter\0unspecified\0"
    assert read_attributes(out) == {b"a b": {"filter": "lfs", "text": "unset"}, b"\xff": {"filter": "unspecified"}}
    assert read_attributes(out[:20]) == {b"a b": {"filter": "lfs"}}
    assert read_attributes(b"") == {}


def test_what_an_index_noted_is_read_and_compared_as_git_does(tmp_path: Path) -> None:
    facts = "  ctime: 5:6\n  mtime: {}:{}\n  dev: 7\tino: {}\n  uid: 0\tgid: 0\n  size: {}\tflags: 0\n"
    one, two = f"100644 {'a' * 40} 0\tone\0".encode(), f"100644 {'a' * 40} 2\ttwo\0".encode()
    rest = facts.format(1, 2, 3, 4).encode()
    assert read_marks(one + rest + two + rest) == {b"one": Mark(1, 2, 3, 4)}
    path = tmp_path / "file"
    path.write_text("four")
    os.utime(path, ns=(0, 1_000_000_002))
    seen = path.stat()
    inode = seen.st_ino & 0xFFFFFFFF
    assert all(mark.is_of(seen) for mark in (Mark(1, 2, inode, 4), Mark(1, 0, 0, 4)))
    others = (Mark(2, 2, inode, 4), Mark(1, 3, inode, 4), Mark(1, 2, inode + 1, 4), Mark(1, 2, inode, 5))
    assert not any(mark.is_of(seen) for mark in others)
