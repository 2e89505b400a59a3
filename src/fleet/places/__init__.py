"""Where attempts work: the task's own directory, a git worktree, or a private clone.

What was saved of places that are gone is in `salvage`, which only those load who save, restore or remove.
"""

from fleet.core.work import PlaceKind
from fleet.places import record
from fleet.places.base import Condition, Place
from fleet.places.clone import collect
from fleet.places.condition import condition, conditions, size
from fleet.places.difference import difference, repositories
from fleet.places.ground import Ground, bring, ground
from fleet.places.inplace import prepare
from fleet.places.make import commit, make, must_be_free
from fleet.places.paths import PLACES, Project, check_branch, must_be_understood, path_for, project, root_for
from fleet.places.record import known
from fleet.places.remove import Left, finish, leftovers, remove

__all__ = [
    "PLACES",
    "Condition", "Ground", "Left", "Place", "PlaceKind", "Project", "bring", "check_branch",
    "collect", "commit", "condition", "conditions",
    "difference", "finish", "ground", "known", "leftovers", "make",
    "must_be_free", "must_be_understood", "path_for", "prepare", "project", "record", "remove",
    "repositories", "root_for", "size",
]  # fmt: skip
