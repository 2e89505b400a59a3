"""Machines that serve models: what they have, what they hold, and how to warm them."""

from fleet.nodes.base import LoadedModel, ServedModel, State, Survey, find_model, same_name
from fleet.nodes.local import Found, Pair, find, pair, usual_places
from fleet.nodes.survey import Warmed, survey, warm

__all__ = [
    "Found",
    "LoadedModel",
    "Pair",
    "ServedModel",
    "State",
    "Survey",
    "Warmed",
    "find",
    "find_model",
    "pair",
    "same_name",
    "survey",
    "usual_places",
    "warm",
]
