"""What failed, read from what real runners printed."""

from __future__ import annotations

import pytest

from fleet.evidence.failures import MAX_MESSAGE_CHARS, first_failure, last_lines, last_words
from fleet.evidence.receipt import Check
from fleet.evidence.report import check_name

PYTEST = """\
FF.                                                                      [100%]
=================================== FAILURES ===================================
__________________________________ test_euros __________________________________

    def test_euros():
>       assert euros(12.3) == "12.30 EUR"
E       AssertionError: assert '12.3 EUR' == '12.30 EUR'
E
E         - 12.30 EUR

test_text.py:5: AssertionError
_______________________________ TestIt.test_two ________________________________

>       raise ValueError("boom: a very long message that goes on and on and on")
E       ValueError: boom: a very long message that goes on and on and on

=========================== short test summary info ============================
FAILED test_text.py::test_euros - AssertionError: assert '12.3 EUR' == '12.30...
FAILED test_text.py::TestIt::test_two - ValueError: boom: a very long message...
2 failed, 1 passed in 2.26s
"""
PYTEST_COLLECTING = """\
________________________ ERROR collecting test_text.py _________________________
test_text.py:1: in <module>
    import nothere
E   ModuleNotFoundError: No module named 'nothere'
=========================== short test summary info ============================
ERROR test_text.py
!!!!!!!!!!!!!!!!!!!! Interrupted: 1 error during collection !!!!!!!!!!!!!!!!!!!!
"""
PYTEST_QUIET = "FAILED tests/a/test_x.py::test_it[1-a b] - assert 1 == 2\n1 failed in 0.1s\n"
CARGO = """\
test tests::adds ... FAILED

failures:

---- tests::adds stdout ----

thread 'tests::adds' (22930) panicked at src/lib.rs:4:25:
assertion `left == right` failed
  left: -1
 right: 3
stack backtrace:
   0: __rustc::rust_begin_unwind

failures:
    tests::adds

test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.18s
error: test failed, to rerun pass `--lib`
"""
CARGO_OLD = """\
---- tests::says stdout ----
thread 'tests::says' panicked at 'no way', src/lib.rs:5:25
note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace
"""
RUSTC = """\
   Compiling demo v0.1.0
error[E0425]: cannot find value `c` in this scope
 --> src/lib.rs:1:41
  |
error: could not compile `demo` (lib test) due to 1 previous error
"""
GO = """\
--- FAIL: TestSub (0.00s)
    --- FAIL: TestSub/one (0.00s)
        m_test.go:4: x
        m_test.go:4: sub failed
--- FAIL: TestEuros (0.00s)
    m_test.go:3: got "12.3", want "12.30"
FAIL
FAIL\texample.com/m\t0.007s
"""
GO_PANIC = """\
--- FAIL: TestPanic (0.00s)
panic: assignment to entry in nil map [recovered, repanicked]

goroutine 21 [running]:
"""
GO_BUILD = "# example.com/m [example.com/m.test]\n./m.go:2:23: undefined: y\nFAIL\texample.com/m [build failed]\nFAIL\n"


@pytest.mark.parametrize(
    ("output", "said"),
    [
        (PYTEST, "test_text.py::test_euros: assert '12.3 EUR' == '12.30 EUR'"),
        (PYTEST_COLLECTING, "test_text.py: ModuleNotFoundError: No module named 'nothere'"),
        (PYTEST_QUIET, "tests/a/test_x.py::test_it[1-a b]: assert 1 == 2"),
        (CARGO, "tests::adds: assertion `left == right` failed, left: -1, right: 3"),
        (CARGO_OLD, "tests::says: no way"),
        (RUSTC, "src/lib.rs:1:41: cannot find value `c` in this scope"),
        (GO, "TestSub/one: sub failed"),
        (GO_PANIC, "TestPanic: panic: assignment to entry in nil map"),
        (GO_BUILD, "./m.go:2:23: undefined: y"),
        ("\x1b[31mFAILED\x1b[0m a_test.py::test_b - \x1b[1mno\x1b[0m", "a_test.py::test_b: no"),
        (GO.replace("\n", "\r\n"), "TestSub/one: sub failed"),
    ],
)
def test_the_first_failing_test_is_named_with_its_message(output: str, said: str) -> None:
    assert str(first_failure(output)) == said


@pytest.mark.parametrize("output", ["", "4 passed in 0.1s\n", "FAILED to connect\n", "--- FAIL\n", "error: \n"])
def test_what_no_runner_said_is_no_test(output: str) -> None:
    assert first_failure(output) is None


def test_a_message_without_end_is_cut() -> None:
    found = first_failure(f"FAILED a.py::test_b - {'x' * 10_000_000}")
    assert found is not None
    assert len(found.message) == MAX_MESSAGE_CHARS


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("a\n/bin/sh: 1: .venv/bin/pytest: not found\n", "/bin/sh: 1: .venv/bin/pytest: not found"),
        ("7 of 9 failed\n---\n\n", "7 of 9 failed"),
        ("", ""),
    ],
)
def test_the_last_line_that_says_something(output: str, said: str) -> None:
    assert last_words(output) == said


def test_a_talkative_stream_leaves_room_for_the_other() -> None:
    out, err = "".join(f"o{n}\n" for n in range(100)), "".join(f"e{n}\n" for n in range(100))
    lines = last_lines([out, err], 40).splitlines()
    assert (len(lines), lines[0], lines[19], lines[-1]) == (40, "o80", "o99", "e99")
    lines = last_lines([out, "e0\ne1\n"], 40).splitlines()
    assert (len(lines), lines[0], lines[-2:]) == (40, "o62", ["e0", "e1"])
    assert last_lines(["", "no end"], 40) == "no end"


@pytest.mark.parametrize(
    ("command", "name", "said"),
    [
        ("make test", "", "make test"),
        ("make test", "unit", "unit"),
        ("/home/me/shop/.venv/bin/python -m pytest -q", "", "python -m pytest -q"),
        ("/bin/x -q", "", "/bin/x -q"),
        (f"make {'x' * 40}", "", f"make {'x' * 26}…"),
        ("a\n  && b", "", "a && b"),
    ],
)
def test_a_check_is_called_by_what_leaves_room_for_what_failed(command: str, name: str, said: str) -> None:
    assert check_name(Check(command, False, "exit 1", 1, 1.0, "", name=name)) == f'check "{said}"'
