"""What kind of project a directory holds, and what its places need before an agent can work there."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from fleet.evidence.lent import leads_into
from fleet.host import files, machine

# The first whose file is there; a package.json beside the others is for assets.
SIGNS = {
    "rails": ("Gemfile",),
    "python": ("pyproject.toml", "requirements.txt", "setup.py"),
    "go": ("go.mod",),
    "rust": ("Cargo.toml",),
    "node": ("package.json",),
}
KINDS = ("rails", "node", "python", "go", "rust")
CREDENTIALS = {
    "rails": (
        "config/master.key", "config/credentials/development.key", "config/credentials/test.key", ".env", ".env.local",
    ),
    "node": (".env", ".env.local"),
    "python": (".env", "secrets.json"),
    "go": (".env",),
    "rust": (".env",),
}  # fmt: skip
LOCKS = {
    "pnpm-lock.yaml": "pnpm install --frozen-lockfile",
    "bun.lock": "bun install --frozen-lockfile",
    "bun.lockb": "bun install --frozen-lockfile",
    "package-lock.json": "npm ci",
    "npm-shrinkwrap.json": "npm ci",
}
VENV_DIRECTORY, CHECK_VENV = ".venv", ".venv-check"
VENV = "python3 -m venv .venv && echo '*' > .venv/.gitignore"
PIP = f"{VENV} && .venv/bin/pip install"
REQUIREMENTS = ("requirements.txt", "requirements-dev.txt", "requirements-test.txt", "requirements_dev.txt")
EXTRAS = ("test", "tests", "testing", "dev")  # under which projects name what their tests need
LARGEST = 4 * 1024 * 1024


def detect(project: Path) -> str | None:
    """The kind of a project, from the files at its top; None when none of them says."""
    return next((kind for kind, signs in SIGNS.items() if any((project / sign).is_file() for sign in signs)), None)


def workspace(kind: str, project: Path) -> dict[str, object]:
    """What `workspace:` should say: files that are there and not in git, commands of tools that the project shows."""
    there = [name for name in CREDENTIALS[kind] if (project / name).is_file()]
    secret = [name for name in there if not machine.is_tracked_by_git(project / name)]
    commands = list(_commands(kind, project))
    serves = {"env": {"PORT": "{port}"}} if kind in ("rails", "node") else {}
    found = {"credential_files": secret, "setup": commands, **serves}
    return {key: value for key, value in found.items() if value}


def checks(kind: str, project: Path) -> list[dict[str, object]]:
    """What `checks:` could say: the tests that such a project usually has, and what git lacks for them."""
    match kind:
        case "rails":
            return [{"run": "bundle exec rails test"}]
        case "python":
            environment = VENV_DIRECTORY if not check_setup(kind, project) else CHECK_VENV
            path = "PYTHONPATH=src " if (project / "src").is_dir() else ""
            return [{"run": f"{path}{environment}/bin/python -m pytest -q", "needs": [environment]}]
        case "go":
            return [{"run": "go test ./..."}]
        case "rust":
            return [{"run": "cargo test --offline"}]
        case "node" if "test" in _scripts(project / "package.json"):
            if leads_into(project, ["node_modules"]):
                return [{"run": "npm ci --offline && npm test"}]
            return [{"run": "npm test", "needs": ["node_modules"]}]
    return []


def check_setup(kind: str, project: Path) -> str:
    """What to run once for an environment that checks can be lent; empty when there is one that tests nothing else."""
    there = (project / VENV_DIRECTORY).is_dir()
    if kind != "python" or (there and not leads_into(project, [VENV_DIRECTORY])):
        return ""
    wanted = "-r requirements.txt" if (project / "requirements.txt").is_file() else ""
    wanted = wanted or ("." if (project / "pyproject.toml").is_file() else "")
    packages = " ".join(filter(None, (wanted, "pytest")))
    return (
        f"python3 -m venv {CHECK_VENV} && echo '*' > {CHECK_VENV}/.gitignore && {CHECK_VENV}/bin/pip install {packages}"
    )


def _commands(kind: str, project: Path) -> Iterator[str]:
    match kind:
        case "rails":
            yield "bundle install"
        case "python":
            yield from _python(project)
        case "go":
            yield "go mod download"
        case "rust":
            yield "cargo fetch"
    if (project / "package.json").is_file():
        yield from _node(project, build=kind == "node")
    elif kind == "node":
        yield "npm install"
    if kind == "rails" and (project / "config/database.yml").is_file():
        yield "bundle exec rails db:create db:migrate"


def _node(project: Path, *, build: bool) -> Iterator[str]:
    yarn = "yarn install --immutable" if (project / ".yarnrc.yml").is_file() else "yarn install --frozen-lockfile"
    locks = LOCKS | {"yarn.lock": yarn}
    install = next((command for lock, command in locks.items() if (project / lock).is_file()), "npm install")
    yield install
    if build and "build" in _scripts(project / "package.json"):
        yield f"{install.split()[0]} run build"


def _scripts(path: Path) -> dict[str, object]:
    try:
        read = json.loads(files.read(path, follow=True, limit=LARGEST) or b"{}")
    except (OSError, ValueError, RecursionError):
        return {}
    scripts = read.get("scripts") if isinstance(read, dict) else None
    return scripts if isinstance(scripts, dict) else {}


def _python(project: Path) -> Iterator[str]:
    there = set(os.listdir(project))
    if "uv.lock" in there:
        install, python = "uv sync", "uv run python"
    elif "poetry.lock" in there:
        install, python = "poetry install", "poetry run python"
    elif "Pipfile.lock" in there:
        install, python = "pipenv sync --dev", "pipenv run python"
    else:
        wanted = pip_wants(there, _toml(project / "pyproject.toml"), has_tests=_has_tests(project, there))
        install, python = (f"{PIP} {' '.join(wanted)}", ".venv/bin/python") if wanted else ("", "python3")
    if install:
        yield install
    if "manage.py" in there:
        yield f"{python} manage.py migrate"


def pip_wants(there: Collection[str], pyproject: Mapping[str, Any], *, has_tests: bool) -> list[str]:
    """What pip is to install for a project and its tests: pure. `there` are the names at its top."""
    listed = [name for name in REQUIREMENTS if name in there]
    wanted = [word for name in listed for word in ("-r", name)]
    project, tools = _table(pyproject, "project"), _table(pyproject, "tool")
    extras = _table(project, "optional-dependencies")
    extra = next((name for name in EXTRAS if name in extras), None)
    if "requirements.txt" not in there and (project or "build-system" in pyproject or "setup.py" in there):
        wanted += ["-e", f"'.[{extra}]'" if extra else "."]
    for_tests = extra is not None or set(listed) - {"requirements.txt"}
    return wanted if for_tests or not (has_tests or "pytest" in tools) else [*wanted, "pytest"]


def _has_tests(project: Path, there: Collection[str]) -> bool:
    """Whether it shows tests of pytest: its settings, or files that it would find."""
    if {"conftest.py", "pytest.ini"} & set(there):
        return True
    return any(next((project / where).glob("test_*.py"), None) is not None for where in (".", "tests", "test"))


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads((files.read(path, follow=True, limit=LARGEST) or b"").decode())
    except (OSError, ValueError, RecursionError):
        return {}


def _table(found: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = found.get(name)
    return value if isinstance(value, dict) else {}
