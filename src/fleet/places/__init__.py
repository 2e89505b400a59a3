"""Where attempts work. For now every attempt works in its task's own directory."""

from fleet.places.base import Place
from fleet.places.inplace import prepare

__all__ = ["Place", "prepare"]
