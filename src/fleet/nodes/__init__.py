"""Machines that serve models: what they have, what they hold, and how to warm them."""

from fleet.nodes.base import Abilities, LoadedModel, ServedModel, State, Survey, same_name
from fleet.nodes.local import Found, Pair, find, pair, usual_places
from fleet.nodes.survey import Warmed, abilities, survey, warm

__all__ = [
    "Abilities",
    "Found",
    "LoadedModel",
    "Pair",
    "ServedModel",
    "State",
    "Survey",
    "Warmed",
    "abilities",
    "find",
    "pair",
    "same_name",
    "survey",
    "usual_places",
    "warm",
]
