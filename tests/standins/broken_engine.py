"""An engine that cannot be launched: a DBOS in front of the installed one."""

from __future__ import annotations

from pathlib import Path

LAUNCH = "DBOS failed to launch: cannot start a transaction within a transaction"


def shadow(root: Path, version: str) -> Path:
    """A directory of packages that comes before the installed ones, with another DBOS that cannot be launched."""
    site = root / "site"
    (site / "dbos").mkdir(parents=True)
    lines = LAUNCH.replace(": ", ":\n")
    (site / "dbos/__init__.py").write_text(f"raise RuntimeError({lines!r})\n")
    (site / f"dbos-{version}.dist-info").mkdir()
    (site / f"dbos-{version}.dist-info/METADATA").write_text(f"Metadata-Version: 2.1\nName: dbos\nVersion: {version}\n")
    return site
