"""Git, told to do something: in a repository of the user's, or in a bare one of ours.

What an agent could have planted in a working tree never runs: hooks are off, and an agent's tree is only ever looked
at through a git directory of ours, with no config, no attributes and no filters but our own. Of the config of the
user's own repository, filters are all that is run.
"""

from fleet.host.repository.feed import fast_import
from fleet.host.repository.merge import Merged, Merges
from fleet.host.repository.refs import blob, branch_of, linked, linked_below, make_way, ref, refs, tree_of
from fleet.host.repository.remove import Stuck, remove_tree, room
from fleet.host.repository.tell import Locked, ask, do, now, refused, under
from fleet.host.repository.workshop import Entry, Waits, Workshop, workshop

__all__ = [
    "Entry",
    "Locked",
    "Merged",
    "Merges",
    "Stuck",
    "Waits",
    "Workshop",
    "ask",
    "blob",
    "branch_of",
    "do",
    "fast_import",
    "linked",
    "linked_below",
    "make_way",
    "now",
    "ref",
    "refs",
    "refused",
    "remove_tree",
    "room",
    "tree_of",
    "under",
    "workshop",
]
