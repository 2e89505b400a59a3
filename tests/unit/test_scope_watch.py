"""What is said of an agent's changes while it still works."""

from __future__ import annotations

from fleet.core.proof import Change, ChangeKind, CheckSpec, Demands, EntryKind, Scope
from fleet.evidence.touched import between, merged, standing_changes
from fleet.supervisor.flagged import Flagged, summary
from fleet.supervisor.scope_watch import worth_saying

CAME, GONE = ChangeKind.ADDED, ChangeKind.DELETED


def rules(*changes: Change, **scope: int) -> list[str]:
    return [breach.rule for breach in worth_saying(list(changes), Demands(scope=Scope(**scope)))]  # type: ignore[arg-type]


def test_a_file_on_its_way_to_a_new_name_is_no_deletion_yet() -> None:
    assert rules(Change("a", change=GONE), Change("b", change=CAME)) == []
    assert rules(Change("a", change=GONE), Change("c", change=GONE), Change("b", change=CAME)) == ["deletions"]
    assert rules(Change("a", change=GONE)) == ["deletions"]
    assert rules(Change("a", change=GONE), deletions=1) == []


def test_tests_that_went_and_settings_of_a_runner_that_came_are_flagged() -> None:
    asked = Demands(checks=(CheckSpec("pytest -q"),), scope=Scope(deletions=9))
    changes = [Change("tests/test_a.py", change=GONE), Change("conftest.py", change=CAME)]
    assert [breach.path for breach in worth_saying(changes, asked)] == ["tests/test_a.py", "conftest.py"]
    honest = [Change("tests/test_a.py"), Change("tests/test_b.py", change=CAME)]
    assert worth_saying(honest, asked) == [], "whether a test was weakened is seen at the end"


def test_a_renamed_file_is_counted_once() -> None:
    assert rules(Change("a", change=GONE), Change("b", change=CAME), files=1) == []
    assert rules(Change("a"), Change("b", change=CAME), files=1) == ["files"]
    assert rules(Change("uv.lock"), files=1) == ["protected"]


def test_what_stands_there_goes_before_what_was_committed() -> None:
    committed = between(":100644 100755 aa bb M\0a\0:000000 160000 00 cc A\0sub\0:000000 100644 00 cc A\0new\0")
    gone = "1 .D N... 100644 100644 000000 aa bb new\0" + "1 D. N... 100644 000000 000000 aa 00 old\0"
    status = gone + "? x y\0" + "u UU N... 1 2 3 4 5 6 7 both\0"
    found = {change.path: change for change in merged(committed, list(standing_changes(status)))}
    assert set(found) == {"a", "sub", "old", "x y", "both"}
    assert (found["old"].change, found["x y"].change) == (GONE, CAME)
    assert found["sub"].entry is EntryKind.SUBMODULE
    assert (found["a"].old_mode, found["a"].mode) == ("100644", "100755")


def test_people_are_told_the_first_and_how_many_more() -> None:
    assert summary(Flagged()) == ""
    assert summary(Flagged(("a is b",))) == "outside its scope: a is b"
    assert summary(Flagged(("a is b", "c", "d"))) == "outside its scope: a is b (and 2 more)"
