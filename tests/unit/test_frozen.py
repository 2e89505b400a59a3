"""Our `dataclass(frozen=True, slots=True)` beside the standard one: whatever is done with them, both do the same."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, asdict, astuple, field, fields, replace
from typing import Any, ClassVar

import msgspec
import pytest

from fleet.core import frozen


class _Plain:
    """Something with every kind of field that is used."""

    kind: ClassVar[str] = "plain"
    name: str
    size: int = 3
    seen: list[str] = field(default_factory=list)
    aside: str | None = field(default=None, compare=False)

    @property
    def long(self) -> str:
        return self.name * self.size


def _both() -> list[Any]:
    """The same class, made by each of the two."""
    made: list[Any] = []
    for make in (dataclasses.dataclass, frozen.dataclass):
        body = {name: value for name, value in vars(_Plain).items() if name not in ("__dict__", "__weakref__")}
        made.append(make(frozen=True, slots=True)(type("Plain", (), body)))
    return made


THEIRS, OURS = _both()


@dataclasses.dataclass(frozen=True, slots=True)
class Theirs:
    one: int = 1


@frozen.dataclass(frozen=True, slots=True)
class Ours:
    one: int = 1


DEEDS: list[Callable[[Any], object]] = [
    lambda made: repr(made("a")),
    lambda made: repr(made("a", 4, ["b"], "c")),
    lambda made: repr(made(size=1, name="b")),
    lambda made: made("ab").long,
    lambda made: made("a") == made("a"),
    lambda made: made("a") == made("b"),
    lambda made: made("a", aside="b") == made("a", aside="c"),
    lambda made: made("a") == "a",
    lambda made: made("a", seen=()) in {made("a", seen=()): 1},
    lambda made: hash(made("a", seen=(), aside="b")) == hash(made("a", seen=(), aside="c")),
    lambda made: made("a").seen is not made("a").seen,
    lambda made: (made.__match_args__, made.__doc__, made.__slots__, made.__name__),
    lambda made: [(one.name, one.type, one.default is dataclasses.MISSING) for one in fields(made)],
    lambda made: asdict(made("a", seen=["b"])),
    lambda made: astuple(made("a")),
    lambda made: repr(replace(made("a"), size=9)),
    lambda made: repr(copy.deepcopy(made("a", seen=["b"]))),
    lambda made: repr(copy.copy(made("a"))),
    lambda made: repr(msgspec.convert({"name": "a", "seen": ["b"]}, made)),
    lambda made: msgspec.json.encode(made("a")),
]


@pytest.mark.parametrize("deed", DEEDS)
def test_ours_does_what_the_standard_one_does(deed: Callable[[Any], object]) -> None:
    assert deed(OURS) == deed(THEIRS)


WRONGS: list[Callable[[Any], object]] = [
    lambda made: made(),
    lambda made: made("a", 1, [], None, "more"),
    lambda made: made("a", other=1),
    lambda made: made("a", name="b"),
    lambda made: hash(made("a")),
    lambda made: replace(made("a"), other=1),
    lambda made: setattr(made("a"), "name", "b"),
    lambda made: delattr(made("a"), "name"),
]


@pytest.mark.parametrize("deed", WRONGS)
def test_ours_refuses_what_the_standard_one_refuses(deed: Callable[[Any], object]) -> None:
    with pytest.raises((TypeError, AttributeError)) as theirs:
        deed(THEIRS)
    with pytest.raises(theirs.type) as ours:
        deed(OURS)
    assert str(ours.value) == str(theirs.value)


def test_one_that_is_kept_comes_back_the_same() -> None:
    """Byte for byte nothing is promised, but each comes back as itself."""
    assert pickle.loads(pickle.dumps(Ours(2))) == Ours(2)
    assert pickle.loads(pickle.dumps(Theirs(2))) == Theirs(2)


def test_nothing_of_one_can_be_changed() -> None:
    one = Ours()
    with pytest.raises(FrozenInstanceError):
        one.one = 2  # type: ignore[misc]
    assert one.one == 1


def test_what_a_class_says_of_itself_is_kept() -> None:
    @frozen.dataclass(frozen=True, slots=True)
    class Secret:
        key: str

        def __repr__(self) -> str:
            return "Secret(…)"

    assert repr(Secret("k")) == "Secret(…)"


def test_one_looks_at_itself_when_it_is_made() -> None:
    @frozen.dataclass(frozen=True, slots=True)
    class Even:
        number: int

        def __post_init__(self) -> None:
            if self.number % 2:
                raise ValueError("odd")

    assert Even(2).number == 2
    with pytest.raises(ValueError, match="odd"):
        Even(1)


def test_one_that_may_change_is_the_standard_one() -> None:
    @frozen.dataclass(slots=True)
    class Count:
        number: int = 0

    count = Count()
    count.number += 1
    assert count == Count(1)
