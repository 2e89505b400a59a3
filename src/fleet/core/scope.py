"""What a result may touch: a pure judgement over its changes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import cache

from fleet.core.globs import folded, is_match, matching, may_match
from fleet.core.proof import Breach, Change, ChangeKind, EntryKind, Scope
from fleet.core.text import clean, sayable

NAMED = 3  # paths that one sentence names
PROTECTED = {
    "CI": (
        ".github/", "CODEOWNERS", ".gitlab-ci.yml", ".gitlab/", ".circleci/", ".travis.yml", ".buildkite/",
        ".drone.yml", ".woodpecker/", ".woodpecker.y*ml", ".cirrus.yml", ".teamcity/", ".forgejo/", ".gitea/",
        "Jenkinsfile*", "azure-pipelines*", ".azure-pipelines/", "bitbucket-pipelines.yml", "appveyor.yml",
        ".appveyor.yml", "cloudbuild.y*ml", "buildspec.y*ml", "codemagic.yaml", ".pre-commit-config.yaml", ".husky/",
        "lefthook.y*ml",
    ),
    "instructions or settings of agents": (
        "CLAUDE.md", "CLAUDE.local.md", "AGENTS.md", "AGENTS.override.md", "GEMINI.md", "QWEN.md",
        ".claude/", ".claude.json", ".codex/", ".opencode/", "opencode.json*", ".cursor/", ".cursorrules",
        ".cursorignore", ".aider*", ".mcp.json", "mcp.json", ".qwen/", ".gemini/", ".agents/", ".agent/",
        ".antigravity/", ".windsurf/", ".windsurfrules", ".clinerules", ".roo/", ".roomodes", ".kiro/", ".junie/",
        ".amazonq/", ".continue/", ".goosehints", ".vscode/mcp.json",
    ),
    "a lock file": (
        "package-lock.json", "npm-shrinkwrap.json", "pnpm-lock.yaml", "yarn.lock", "bun.lock", "bun.lockb",
        "deno.lock", "uv.lock", "poetry.lock", "pdm.lock", "pixi.lock", "pylock*.toml", "Pipfile.lock",
        "conda-lock.yml", "Cargo.lock", "go.sum", "go.work.sum", "Gemfile.lock", "gems.locked", "composer.lock",
        "mix.lock", "rebar.lock", "pubspec.lock", "Podfile.lock", "Package.resolved", "packages.lock.json",
        "paket.lock", "gradle.lockfile", "flake.lock", "MODULE.bazel.lock", ".terraform.lock.hcl", "Chart.lock",
        "stack.yaml.lock", "shard.lock", "requirements*.lock",
    ),
    "what a shell or an editor runs by itself": (
        ".envrc", ".devcontainer/", ".devcontainer.json", ".vscode/tasks.json", ".vscode/settings.json",
    ),
    "a file of fleet": ("fleet.yaml",),
    "what is installed, and not written": ("node_modules/", ".venv/", "venv/", "site-packages/"),
    "a file that tells git what to do": (".gitattributes", ".gitmodules", ".gitconfig", ".lfsconfig"),
}  # fmt: skip


def combine(project: Scope, task: Scope) -> Scope:
    """The scope of one task: what it says itself goes before what its project says, but a project's `deny` stays."""
    return Scope(
        allow=task.allow or project.allow,
        deny=(*project.deny, *task.deny),
        files=task.files if task.files is not None else project.files,
        deletions=task.deletions if task.deletions is not None else project.deletions,
        protected=(*project.protected, *task.protected),
        on_breach=task.on_breach or project.on_breach,
    )


def breaches(changes: Sequence[Change], scope: Scope, *, check_files: Collection[str] = ()) -> list[Breach]:
    """What of these changes is outside the scope. `check_files` are what the checks themselves are made of.

    A path is judged by the first rule that it breaks. What was renamed is judged at both ends.
    """
    own = frozenset(folded(path) for path in check_files)
    found = [breach for change in changes for breach in _of_one(change, scope, own)]
    return [*found, *_of_all(changes, scope)]


def protected_as(path: str) -> str | None:
    """What a path is that may not be changed unless it is said; None when it may. Nobody gets around it by spelling."""
    seen = folded(path)
    return next((what for what, patterns in _kinds() if may_match(patterns, seen) and matching(patterns, seen)), None)


@cache
def _kinds() -> tuple[tuple[str, tuple[str, ...]], ...]:
    return tuple((what, tuple(folded(pattern) for pattern in patterns)) for what, patterns in PROTECTED.items())


def leads_out(path: str, target: str) -> bool:
    """Whether a symbolic link may lead out of the tree, or into its .git. A `..` after a name counts as if it did:
    where that leads depends on whether the name is a link too.
    """
    steps = target.split("/")
    names = [step for step in steps if step not in ("", ".")]
    ups = next((n for n, step in enumerate(names) if step != ".."), len(names))
    if target.startswith("/") or ".." in names[ups:] or ups > path.count("/"):
        return True
    return any(folded(step) == ".git" for step in names)


def _of_one(change: Change, scope: Scope, own: frozenset[str]) -> Iterator[Breach]:
    for path in filter(None, (change.old_path, change.path)):
        broken = _denied(path, change, scope) or _protected(path, change, scope, own)
        if broken is not None:
            yield broken
    if _is_a_way_out(change) and not matching(scope.protected, change.path):
        reason = f"{_shown(change.path)} is a symbolic link that leads out of the repository"
        yield Breach(change.path, "symlink", reason)


def _denied(path: str, change: Change, scope: Scope) -> Breach | None:
    name = _name(path, change)
    denied = next((pattern for pattern in scope.deny if is_match(folded(pattern), folded(name))), None)
    if denied is not None:
        return Breach(path, "deny", f"{_shown(path)} may not be touched (deny: {clean(denied, 80)})")
    if scope.allow and not matching(scope.allow, name):
        return Breach(path, "allow", f"{_shown(path)} is outside what may be touched ({_listed(scope.allow)})")
    return None


def _protected(path: str, change: Change, scope: Scope, own: frozenset[str]) -> Breach | None:
    if matching(scope.protected, _name(path, change)):
        return None
    what = _what_is(path, change, own)
    return None if what is None else Breach(path, "protected", f"{_shown(path)} is {what}, which is protected")


def _what_is(path: str, change: Change, own: frozenset[str]) -> str | None:
    if folded(path) in own:
        return "part of the checks"
    if change.entry is EntryKind.SUBMODULE or "160000" in (change.mode, change.old_mode):
        return "a submodule"
    return protected_as(_name(path, change))


def _name(path: str, change: Change) -> str:
    """A path as patterns see it: a link and a submodule may be a directory to whoever opens them."""
    return path if change.entry is EntryKind.FILE else f"{path}/"


def _is_a_way_out(change: Change) -> bool:
    is_there = change.entry is EntryKind.SYMLINK and change.change is not ChangeKind.DELETED
    return is_there and change.target is not None and leads_out(change.path, change.target)


def _of_all(changes: Sequence[Change], scope: Scope) -> Iterator[Breach]:
    deleted = [change.path for change in changes if change.change is ChangeKind.DELETED]
    allowed = scope.deletions or 0
    if len(deleted) > allowed:
        limit = f"no more than {allowed}" if allowed else "none"
        yield Breach("", "deletions", f"{_counted(deleted)} deleted, and {limit} may be: {_listed(deleted)}")
    if scope.files is not None and len(changes) > scope.files:
        yield Breach("", "files", f"{len(changes)} files are changed, and no more than {scope.files} may be")


def _counted(paths: Sequence[str]) -> str:
    return "1 file is" if len(paths) == 1 else f"{len(paths)} files are"


def _listed(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - NAMED} more" if len(paths) > NAMED else ""
    return ", ".join(_shown(path) for path in paths[:NAMED]) + more


def _shown(path: str) -> str:
    return clean(sayable(path), 120)
