"""Whether what a check is lent leads back into the user's own files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from fleet.evidence.lent import leads_into, times

SITE = ".venv/lib/python3.12/site-packages"


def _editable(top: Path, url: str, *, editable: bool = True) -> None:
    said = {"url": url, "dir_info": {"editable": editable}}
    _write(top / SITE / "shop-1.dist-info/direct_url.json", json.dumps(said))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _link(path: Path, target: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)


MAKES: dict[str, tuple[Callable[[Path], None], str]] = {
    "nothing": (lambda top: _write(top / SITE / "six.py", ""), ""),
    "editable": (lambda top: _editable(top, top.as_uri()), ".venv leads to the project itself"),
    "editable, a part of it": (lambda top: _editable(top, (top / "lib").as_uri()), ".venv leads to lib"),
    "installed from there, copied": (lambda top: _editable(top, top.as_uri(), editable=False), ""),
    "editable, elsewhere": (lambda top: _editable(top, "file:///elsewhere"), ""),
    "by a line of Python's": (lambda top: _write(top / SITE / "e.pth", f"import x\n{top}/src\n"), ".venv leads to src"),
    "as it was done once": (lambda top: _write(top / SITE / "e.egg-link", f"{top}/src\n.\n"), ".venv leads to src"),
    "into itself": (lambda top: _write(top / SITE / "e.pth", f"{top}/{SITE}/more\n"), ""),
    "damaged": (lambda top: _write(top / SITE / "a.dist-info/direct_url.json", "[1]"), ""),
    "a workspace of npm's": (lambda top: _link(top / "node_modules/@me/ui", "../../ui"), "node_modules leads to ui"),
    "pnpm's own links": (lambda top: _link(top / "node_modules/a", ".pnpm/a/node_modules/a"), ""),
}


@pytest.mark.parametrize(("make", "said"), MAKES.values(), ids=MAKES.keys())
def test_where_what_is_lent_leads(tmp_path: Path, make: Callable[[Path], None], said: str) -> None:
    make(tmp_path)
    assert leads_into(tmp_path, [".venv", "node_modules"]) == said


def test_the_times_of_what_is_lent_change_with_what_is_installed(tmp_path: Path) -> None:
    _write(tmp_path / SITE / "six.py", "")
    before = times(tmp_path, [".venv"])
    assert times(tmp_path, [".venv"]) == before
    _write(tmp_path / SITE / "more/__init__.py", "")
    assert times(tmp_path, [".venv"]) != before
    assert len(times(tmp_path, ["gone"])[0]) == 1
