"""What the scripts of a check lead to."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from fleet.evidence.scripts import led_to

PACKAGE = '{"scripts": {"test": "node t.js && npm run lint", "start": "node app.js"}}'


@pytest.mark.parametrize(
    ("command", "files", "found"),
    [
        ("make", {"Makefile": "include x.mk\ntest:\n\t@sh ci/run\n", "x.mk": "", "ci/run": ""}, "x.mk ci/run"),
        ("make", {"Makefile": "-include a.mk $(DEPS)\n", "a.mk": "include b.mk\n", "b.mk": ""}, "a.mk b.mk"),
        ("make", {"Makefile": "t:\n\t$(PYTHON) -m pytest\n", "pyproject.toml": "", "app.py": ""}, ""),
        ("./check.sh", {"check.sh": ". ./lib.sh\nassert 1\n", "lib.sh": ""}, "lib.sh"),
        ("ci/check", {"ci/check": '. "$(dirname "$0")/lib.sh"', "ci/lib.sh": "", "app.sh": ""}, "ci/lib.sh"),
        ("cd sub && ./check.sh", {"sub/check.sh": "source lib.sh", "sub/lib.sh": ""}, "sub/lib.sh"),
        ("./check.sh", {"check.sh": "grep -q x app.txt; cat src/x", "app.txt": "", "src/x": ""}, ""),
        ("./check.sh", {"check.sh": "./hello.sh | grep hi; python app.py", "hello.sh": "", "app.py": ""}, ""),
        ("./check.sh", {"check.sh": ". src/calc.sh; node x.js", "src/calc.sh": "", "x.js": ""}, ""),
        ("sh tests/run.sh", {"tests/run.sh": ". ./calc.sh", "calc.sh": ""}, ""),
        ("npm test", {"package.json": PACKAGE, "t.js": "", "app.js": ""}, "t.js"),
        ("npm test", {"package.json": "[" * 100_000, "t.js": ""}, ""),
        ("npm test", {"package.json": '{"scripts": ["test"]}'}, ""),
        ("python3 -m ci", {"ci/__main__.py": "", "ci/core.py": ""}, "ci/"),
        ("python3 -m app", {"app/__main__.py": ""}, ""),
        ("python3 -m pytest", {"app.py": ""}, ""),
        ("./check.sh", {"check.sh": "./check.sh\n"}, ""),
        ("true", {"Makefile": "include x.mk", "x.mk": ""}, ""),
    ],
)  # fmt: skip
def test_what_a_check_leads_to(command: str, files: dict[str, str], found: str) -> None:
    def read(paths: Sequence[str]) -> dict[str, str]:
        return {path: files[path] for path in paths if path in files}

    assert led_to([command], files, read).back == set(found.split())
