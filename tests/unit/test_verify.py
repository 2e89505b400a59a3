"""What checks that were run again say of a receipt."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet.app.verify import _compared
from fleet.cli.verify import _result
from fleet.core.proof import Change
from fleet.core.work import Attempt
from fleet.evidence.receipt import Check, Process, Receipt, Result

PASSED = Check("test", True, "exit 0", 0, 1.0, "")
FAILED = Check("test", False, "exit 1", 1, 1.0, "")
NEVER_RAN = Check("test", False, "there is no repository any more", None, None, "")
CUT_OFF = Check("test", False, "it was cut off", None, None, "", lost=True)
OTHER = Check("lint", True, "exit 0", 0, 1.0, "")


@pytest.mark.parametrize(
    ("before", "now", "holds"),
    [
        ([PASSED], [PASSED], True),
        ([FAILED], [FAILED], True),
        ([PASSED], [FAILED], False),
        ([FAILED], [PASSED], False),
        ([PASSED], [NEVER_RAN], None),
        ([PASSED], [CUT_OFF], None),
        ([PASSED], [], None),
        ([NEVER_RAN], [NEVER_RAN], None),
        ([OTHER, PASSED], [OTHER, NEVER_RAN], None),
        ([OTHER, PASSED], [OTHER, FAILED], False),
    ],
)
def test_what_cannot_be_run_again_is_unknown_and_never_false(
    before: list[Check], now: list[Check], holds: bool | None
) -> None:
    attempt = Attempt("t1.1", "t1", 1, "c", None, "/", "me", 1.0)
    receipt = Receipt(attempt, Process("exited", 0), Result(None, None, [], [], None, None), before)
    assert _compared(receipt, now).holds is holds


def test_a_result_is_counted_whole_however_little_of_it_is_listed() -> None:
    listed = [Change(f"f{n}", 1, 0) for n in range(200)]
    result = Result(None, None, [], listed, [], [], totals={"files": 5000, "added": 9000, "removed": 7})
    assert _result(result).startswith("5000 files, +9000 -7, ")
    assert _result(replace(result, totals={})).startswith("200 files, +200 -0, ")
