"""Results of tasks, brought together: what a task stands on, and the commit that its agent begins from.

Commits are merged in a bare repository of fleet's own. No checkout, index, setting, hook or merge driver of the user's
is touched or run.
"""

from fleet.results.build import BASE, Base, NoBase, build_base
from fleet.results.choose import Chosen, Dependency, choose_onto, choose_results, is_made_anew, no_longer
from fleet.results.words import stands_on_text

__all__ = [
    "BASE",
    "Base",
    "Chosen",
    "Dependency",
    "NoBase",
    "build_base",
    "choose_onto",
    "choose_results",
    "is_made_anew",
    "no_longer",
    "stands_on_text",
]
