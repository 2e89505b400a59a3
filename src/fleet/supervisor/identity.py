"""Who commits what an agent did: the user, as git knows them, or else an identity that says whose work it is."""

from __future__ import annotations

import re
from pathlib import Path

from fleet.host import git, repository

NAME, EMAIL = "fleet agent", "agent@no-git-identity.invalid"
UNKNOWN = f"git does not know who you are, so agents commit as {NAME} <{EMAIL}>"
SET_IDENTITY = 'git config --global user.name "Your Name" && git config --global user.email you@example.org'
IDENT = re.compile(r"(?P<name>.+) <(?P<email>[^<>]*)> [0-9]+ [+-][0-9]+\Z")


def git_identity(directory: Path) -> dict[str, str]:
    """The variables that an agent needs to commit in a directory; none where git knows its user by its settings."""
    found = git.find(directory)
    if found is None:
        return {}
    known = repository.ask(found.common, "config", "--get-regexp", r"^user\.(name|email)$").out.split()
    if b"user.name" in known and b"user.email" in known:
        return {}
    said = repository.ask(found.common, "-c", "user.useConfigOnly=true", "var", "GIT_COMMITTER_IDENT")
    return variables_of(said.out.decode(errors="replace").strip() if said.code == 0 else "")


def variables_of(ident: str) -> dict[str, str]:
    """The settings of git for who commits, as variables, from a line such as `A Name <a@example.org> 1700000000 +0000`.

    They go before the files of git, and an agent's own `git -c user.name=…` goes before them.
    """
    found = IDENT.match(ident)
    name, email = (found["name"], found["email"]) if found else (NAME, EMAIL)
    settings = {"user.name": name, "user.email": email}
    variables = {"GIT_CONFIG_COUNT": str(len(settings))}
    for number, (key, value) in enumerate(settings.items()):
        variables |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return variables
