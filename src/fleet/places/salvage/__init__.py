"""Everything that only a place has, kept in the main repository until it is dropped."""

from fleet.places.salvage.kept import Content, Kept, all, drop, find, show
from fleet.places.salvage.restore import clear_up, restore
from fleet.places.salvage.save import CAP, Saved, TooBig, earlier, is_as_saved, save, save_alone

__all__ = [
    "CAP",
    "Content",
    "Kept",
    "Saved",
    "TooBig",
    "all",
    "clear_up",
    "drop",
    "earlier",
    "find",
    "is_as_saved",
    "restore",
    "save",
    "save_alone",
    "show",
]
