"""`@dataclass(frozen=True, slots=True)`, made in a third of the time: the standard one compiles six methods for each
class, which was two fifths of what a command took to load. Here all classes share them, but for `__init__`, and that
one is compiled when the first object is made.

To a type checker, and to `replace`, `fields` and `asdict`, it is the standard one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import MISSING, FrozenInstanceError
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(*, frozen: bool = False, slots: bool = False) -> Callable[[type], type]:
        """The standard one, unless both are asked for."""
        return _frozen if frozen and slots else dataclasses.dataclass(frozen=frozen, slots=slots)


def _frozen(cls: type) -> type:
    said = cls.__doc__
    cls.__doc__ = said or cls.__name__  # else the standard one works out a signature for it
    made: Any = dataclasses.dataclass(init=False, repr=False, eq=False, slots=True)(cls)
    made.__doc__ = said
    for method in (_repr, _eq, _hash, _setattr, _delattr, _getstate, _setstate):
        name = f"_{method.__name__}__"
        if name not in cls.__dict__:
            setattr(made, name, method)
    made.__init__ = _init(made)
    made.__compared__ = attrgetter("__class__", *(one.name for one in dataclasses.fields(made) if one.compare))
    return made  # type: ignore[no-any-return]


def _init(cls: type) -> Callable[..., None]:
    def first(self: object, *args: object, **kwargs: object) -> None:
        if cls.__init__ is first:  # type: ignore[misc]
            cls.__init__ = _compiled(cls)  # type: ignore[misc]
        cls.__init__(self, *args, **kwargs)  # type: ignore[misc]

    return first


def _compiled(cls: type) -> Callable[..., None]:
    """Positional parameters in the order of the fields, each set as it is given; what makes a default is called."""
    known: dict[str, Any] = {"_missing": MISSING, "_put": object.__setattr__}
    words, lines = ["self"], ["pass"]
    for one in dataclasses.fields(cls):
        name = value = one.name
        word = name
        if one.default is not MISSING:
            known[f"_default_{name}"] = one.default
            word = f"{name}=_default_{name}"
        elif one.default_factory is not MISSING:
            known[f"_default_{name}"] = one.default_factory
            word, value = f"{name}=_missing", f"_default_{name}() if {name} is _missing else {name}"
        words.append(word)
        lines.append(f"_put(self, {name!r}, {value})")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    exec(f"def __init__({', '.join(words)}):\n " + "\n ".join(lines), known)  # noqa: S102 - names of our own fields
    made: Callable[..., None] = known["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"  # as whoever calls it wrongly is told
    return made


@recursive_repr()
def _repr(self: Any) -> str:
    said = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__match_args__)
    return f"{type(self).__qualname__}({said})"


def _eq(self: Any, other: Any) -> object:
    if type(self) is not type(other):
        return NotImplemented
    return self.__compared__(self) == self.__compared__(other)


def _hash(self: Any) -> int:
    return hash(self.__compared__(self))


def _setattr(self: object, name: str, value: object) -> NoReturn:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _delattr(self: object, name: str) -> NoReturn:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _getstate(self: Any) -> list[object]:
    return [getattr(self, name) for name in self.__match_args__]


def _setstate(self: Any, state: list[object]) -> None:
    for name, value in zip(self.__match_args__, state, strict=True):
        object.__setattr__(self, name, value)
