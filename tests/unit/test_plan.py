"""A text becomes the tasks of a plan, or every problem it has, each with its line; nothing is lost in silence."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.core.proof import Scope
from fleet.core.task import NewTask, Spec
from fleet.tracker import spec as specs
from fleet.tracker.plan import MOST, NAMES, Circle, Plan, Planned, form_of, order, read

NEW, SPEC = NewTask("", priority=3), Spec(cwd="/work", coder="codex", timeout=60.0)


def md(text: str) -> Plan:
    return read(text, "md", NEW, SPEC)


def js(text: str) -> Plan:
    return read(text, "json", NEW, SPEC)


def tasks(text: str) -> tuple[Planned, ...]:
    plan = md(text)
    assert plan.problems == ()
    return plan.tasks


def waits(text: str) -> dict[str, tuple[str, ...]]:
    return {task.new.title: task.new.after for task in tasks(text)}


def problems(plan: Plan) -> list[tuple[int, str]]:
    return [(problem.place.line, problem.message) for problem in plan.problems]


# --- Markdown ---------------------------------------------------------------------------------------------------------


def test_a_task_says_what_it_needs_at_the_end_of_its_line() -> None:
    (task,) = tasks(
        "- [ ] Build the API (id: api; after: db, t7; priority: 0; coder: claude; model: big; timeout: 1h30m;"
        " attempts: 2; output: 5MB; cwd: sub/dir; check: `make test; echo (done)`)"
    )
    assert (task.key, task.line) == ("api", 1)
    assert task.new == NewTask("Build the API", "", 0, ("db", "t7"))
    assert task.spec == Spec("/work/sub/dir", "claude", "big", "make test; echo (done)", 5400.0, 2, 5_000_000)


def test_what_a_task_does_not_say_is_the_default() -> None:
    (task,) = tasks("* [ ] Just this")
    assert (task.new, task.spec) == (NewTask("Just this", priority=3), SPEC)


def test_everything_that_a_task_can_be_told_can_be_told_in_a_plan() -> None:
    wanted = set(specs.NAMES) - {"interactive", "checked_out"}
    assert wanted <= set(NAMES)
    said = {"cwd": "x", "coder": "x", "model": "x", "check": "x", "timeout": "3s", "attempts": "3", "output": "3MB"}
    said |= {"account": "x", "silence": "20m", "tokens": "2M", "cost": "5", "place": "clone", "kind": "research"}
    said |= {
        "allow": "`src/**`, *.md",
        "deny": "`a, b`",
        "protected": "uv.lock",
        "needs": "`.venv`, lib",
        "files": "3",
        "deletions": "0",
        "onto": "next",
    }
    assert set(said) == wanted, "text must become the value that task.json has: tracker.plan"
    (task,) = tasks(f"- [ ] All ({'; '.join(f'{name}: {value}' for name, value in said.items())})")
    assert None not in [getattr(task.spec, name) for name in wanted]
    assert task.spec.scope == Scope(("src/**", "*.md"), ("a", "b"), 3, 0, ("uv.lock",))


@pytest.mark.parametrize("mark", ["-", "*", "+", "1.", "12)"])
def test_every_kind_of_list_will_do(mark: str) -> None:
    assert [task.new.title for task in tasks(f"{mark} [ ] One\n{mark} [ ] Two")] == ["One", "Two"]


def test_what_is_indented_below_is_the_description_as_it_is() -> None:
    text = """\
# Plan

- [ ] One

  Words  with `code`.

  ```make
  all:
  \techo hi
  - [ ] no task
  # no heading
  ```
  - a bullet
    - a bullet in it
  > - [ ] quoted

Prose between.
- [ ] Two
      indented further
        and further
1. [ ] Three
\tby a tab
\t\tby two
- [ ] Four
goes on here
    and here
- [ ] Five
  two columns
	and a tab

  (after: all that)
- [ ] Six ` seven (model: big)
  An export (output: JSON) is made.
"""
    one, two, three, four, five, six = tasks(text)
    assert one.new.description == (
        "Words  with `code`.\n\n```make\nall:\n\techo hi\n- [ ] no task\n# no heading\n```\n"
        "- a bullet\n  - a bullet in it\n> - [ ] quoted"
    )
    assert two.new.description == "indented further\n  and further"
    assert three.new.description == "by a tab\n\tby two"
    assert four.new.description == "goes on here\nand here"
    assert five.new.description == "two columns\n  and a tab\n\n(after: all that)"
    assert (six.new.title, six.spec.model) == ("Six ` seven", "big")


def test_a_command_may_hold_backquotes_between_more_of_them() -> None:
    (task,) = tasks("- [ ] Tell the date (check: `` echo `date` ``)")
    assert task.spec.check == "echo `date`"


def test_a_task_waits_for_those_nested_in_it_and_they_for_what_it_waits_for() -> None:
    text = """\
- [ ] db (id: db)
- [ ] api (id: api; after: db)
  - [ ] routes (id: routes)
    - [ ] login
  - [ ] tests (after: routes)
  what the api is
- [ ] docs (after: api)
"""
    assert waits(text) == {
        "db": (),
        "api": ("db", "routes", "#5"),
        "routes": ("db", "#4"),
        "login": ("db",),
        "tests": ("routes", "db"),
        "docs": ("api",),
    }


def test_a_nested_task_is_as_urgent_and_worked_on_where_and_by_whom_the_one_around_it_is() -> None:
    text = """\
- [ ] a (priority: 0; cwd: sub; coder: claude; model: big; check: make; timeout: 5s; attempts: 1)
  - [x] b
    - [ ] c
  - [ ] d (priority: 4; cwd: /other)
"""
    _, c, d = tasks(text)
    assert (c.new.priority, c.spec) == (0, Spec("/work/sub", "claude", "big", timeout=60.0))
    assert (d.new.priority, d.spec.cwd) == (4, "/other")


def test_a_task_may_name_what_is_nested_in_it() -> None:
    assert waits("- [ ] a (id: a; after: b)\n  - [ ] b (id: b)") == {"a": ("b",), "b": ()}


def test_what_is_done_is_left_out_and_nobody_waits_for_it() -> None:
    plan = md(
        "- [x] a (id: a; note: of old)\n- [ ] b (after: a)\n  - [X] c\n    - [ ] d\n- [x] e (after: zz)\n  - [ ] f\n"
    )
    assert (plan.problems, plan.done) == ((), (1, 3, 5))
    assert {task.new.title: task.new.after for task in plan.tasks} == {"b": ("#4",), "d": (), "f": ()}


def test_what_only_looks_like_options_stays_in_the_title() -> None:
    titles = ["Mend it (soon)", "See [this](http://x: y)", "Port (http://x)", "Use `f(after: x)`", "`(after: x)`",
              "Call (std::sort)", "Meet (10: 30)", "(again) and again", "x{#id}", "f(after: x)"]  # fmt: skip
    assert [task.new.title for task in tasks("\n".join(f"- [ ] {title}" for title in titles))] == titles


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("", 1, "there is no task in it; a task is a list item with a checkbox: - [ ] Title"),
        ("# Plan\n\n- one\n- two", 3, "there is no task in it"),
        ("    - [ ] code", 1, "there is no task in it"),
        ("<!--\n- [ ] a\n-->\n```\n- [ ] b\n```", 1, "there is no task in it"),
        ("- [ ] a\n- b", 2, "no checkbox"),
        ("- [ ] a\n- [] b", 2, "[] is no checkbox"),
        ("- [ ] a\n- [-] b", 2, "[-] is no checkbox"),
        ("- [ ] a (aftr: b)", 1, "aftr is nothing that a task can say (did you mean after?)"),
        ("- [ ] a (see: b)", 1, "see is nothing that a task can say"),
        ("- [ ] a (priority: 1; b)", 1, "b is nothing that a task can say"),
        ("- [ ] a (after: b).", 1, "at the end of the task's first line"),
        ("- [ ] a (after: b) (really)", 1, "at the end of the task's first line"),
        ("- [ ] a (check: test $(ls))", 1, "commands in backquotes"),
        ("- [ ] a ` b (check: `make`)", 1, "commands in backquotes"),
        ("- [ ] a\n  (after: b)", 1, "at the end of the task's first line"),
        ("- [ ] a\n  wrapped (after: b)", 1, "at the end of the task's first line"),
        ("- [ ] a (output: JSON) and more", 1, "what is meant by (output: …)?"),
        ("- [ ] a (after: )", 1, "after is empty"),
        ("- [ ] a (after: b,)", 1, "after must name tasks"),
        ("- [ ] a (id: x; id: y)", 1, "id is given twice"),
        ("- [ ] a (id: x)\n\n- [x] b (id: x)", 3, "id x is given twice; first in line 1"),
        ("- [ ] a (id: a b)", 1, "id must be a word"),
        ("- [ ] a (priority: high)", 1, "priority must be 0 (most urgent) to 4, not 'high'"),
        ("- [ ] a (attempts: 0)", 1, "attempts must be a whole number over 0, not 0"),
        ("- [ ] a (timeout: soon)", 1, "timeout must be seconds"),
        ("- [ ] a (timeout: 0s)", 1, "timeout must be a number of seconds over 0"),
        ("- [ ] a (cwd: \x1b[2J)", 1, "cwd must be the absolute path"),
        ("- [ ] a\n```sh\nls\n", 2, "this code block is not closed"),
        ("- [ ] a\n  ~~~\n  x\n- [ ] b", 2, "this code block is not closed before its task ends"),
        ("- [ ] a\n<!-- b\n", 2, "this comment is not closed"),
        ("- [ ] " + "x" * 1_000_000, 1, "1,000,000 characters long"),
        ("\n".join(f"{'  ' * n}- [ ] {n}" for n in range(21)), 21, "nested deeper than 20"),
        ("- [ ] a\n" * (MOST + 1), MOST + 1, "more than 10,000 tasks"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_line(text: str, line: int, said: str) -> None:
    assert [where for where, message in problems(md(text)) if said in message] == [line], problems(md(text))


def test_every_problem_is_told_at_once() -> None:
    found = problems(md("- [ ] a (prio: 1; timeout: x; attempts: y)\n- b\n- [ ] c (id: ?)"))
    assert [line for line, _ in found] == [2, 1, 3, 1, 1]


def test_groups_without_a_checkbox_are_no_tasks() -> None:
    text = "- Phase 1\n  - [ ] a\n  - [ ] b\n- Phase 2\n  - [ ] c\n\n- a note\n"
    assert list(waits(text)) == ["a", "b", "c"]


def test_a_bullet_beside_nested_tasks_belongs_to_the_one_around_them() -> None:
    one, two = tasks("- [ ] One\n  - [ ] Two\n  - a note\n")
    assert (one.new.description, two.new.description) == ("- a note", "")


def test_line_ends_of_every_system_are_line_ends_and_nothing_else_is() -> None:
    one, two = tasks("- [ ] One\r\n  text\x0b\x85\u2028more\r- [ ] Two\r\n")
    assert (one.new.description, two.new.title) == ("text\x0b\x85\u2028more", "Two")


# --- JSON -------------------------------------------------------------------------------------------------------------

OBJECTS = [{"id": "b", "title": "B", "after": ["a"], "timeout": "30m", "priority": 0}, {"id": "a", "title": "A"}]


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(OBJECTS),
        json.dumps({"tasks": OBJECTS}, indent=2),
        "\n".join(map(json.dumps, OBJECTS)),
        "\n\n".join(json.dumps(one, indent=1) for one in OBJECTS) + "\n",
    ],
)
def test_an_array_an_object_and_lines_are_the_same(text: str) -> None:
    plan = js(text)
    assert plan.problems == ()
    assert [(task.key, task.new.title, task.new.after) for task in plan.tasks] == [("b", "B", ("a",)), ("a", "A", ())]
    assert (plan.tasks[0].spec.timeout, plan.tasks[0].new.priority, plan.tasks[1].new.priority) == (1800.0, 0, 3)


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("[]", 1, "there is no task in it"),
        ("", 1, "there is no task in it"),
        ("[\n  {,}]", 2, "it is not JSON"),
        ("[" * 100_000, 1, "it is not JSON"),
        ('[{"priority": NaN}]', 1, "NaN is not a number of JSON"),
        ('[{"priority": ' + "9" * 5000 + "}]", 1, "it is not JSON that can be read"),
        ('[\n {"title": "a"},\n 3]', 3, "3 is no task"),
        ('{"tasks": 3}', 1, "tasks must be an array"),
        ('{"tasks": [],\n "more": 1}', 2, "more is not tasks"),
        ('[{"title": "a",\n "prio": 1}]', 2, "prio is nothing that a task can say (did you mean priority?)"),
        ('[{"title": "a",\n "title": "b"}]', 2, "title is given twice"),
        ('[{"title": 3}]', 1, "title must be text, not 3"),
        ('[{"title": "a", "priority": true}]', 1, "priority must be 0"),
        ('[{"title": "a", "priority": 1.5}]', 1, "priority must be 0"),
        ('[{"title": "a", "after": [1]}]', 1, "after must name tasks"),
        ('[{"title": "a", "timeout": -1}]', 1, "timeout must be a number of seconds over 0"),
        ('[{"title": "a", "check": "a\\u001b"}]', 1, "check must be a command"),
        ('[{"title": "a", "cwd": 3}]', 1, "cwd must be"),
        ('[{"title": "a", "id": 3}]', 1, "id must be a word"),
    ],
)
def test_what_is_wrong_with_json_is_said_with_its_line(text: str, line: int, said: str) -> None:
    assert [where for where, message in problems(js(text)) if said in message] == [line], problems(js(text))


@pytest.mark.parametrize(
    ("suffix", "text", "form"),
    [
        (".md", "[]", "md"), (".JSON", "- [ ] a", "json"), (".jsonl", "", "json"), ("", "\n {", "json"),
        ("", "[ {", "json"), ("", "[]", "json"), (".txt", "[link](x)", "md"), ("", "- [ ] a", "md"), ("", "", "md"),
    ],
)  # fmt: skip
def test_the_format_is_told_by_the_name_or_the_beginning(suffix: str, text: str, form: str) -> None:
    assert form_of(suffix, text) == form


# --- order ------------------------------------------------------------------------------------------------------------


def ordered(*pairs: tuple[str, str]) -> list[str]:
    return [task.key for task in order([Planned(key, 1, NewTask(key, after=tuple(n)), SPEC) for key, n in pairs])]


def test_tasks_come_as_they_stand_but_after_what_they_wait_for() -> None:
    assert ordered(("a", "c"), ("b", "x"), ("c", ""), ("d", "a")) == ["b", "c", "a", "d"]


def test_a_long_chain_is_put_in_order() -> None:
    chain = [Planned(str(n), n, NewTask("x", after=(str(n + 1),)), SPEC) for n in range(MOST)]
    assert [task.line for task in order(chain)] == list(range(MOST - 1, -1, -1))


def test_a_circle_is_named_by_those_in_it() -> None:
    with pytest.raises(Circle) as found:
        ordered(("z", "a"), ("a", "b"), ("b", "c"), ("c", "a"))
    assert [task.key for task in found.value.tasks] == ["a", "b", "c"]


# --- whatever stands there --------------------------------------------------------------------------------------------

PIECES = st.sampled_from(
    ["- [ ] ", "- [x] ", "1. [ ] ", "- ", "* * *", "```", "~~~~", "\n", "\n\n", "\r\n", "  ", "    ", "\t", "(after: ",
     "(id: ", "; ", ")", "`", "``", "a", "b", ", ", "# ", "<!-- ", "-->", "\0", "\x1b", "\ud800", "{", "}", "[", "]",
     '"', '"title"', ":", ",", "3", "null", "1e999", "\ufeff", "é"]
)  # fmt: skip


@given(st.one_of(st.text(), st.lists(PIECES, max_size=60).map("".join)), st.sampled_from(["md", "json"]))
def test_no_text_is_too_much(text: str, form: str) -> None:
    plan = read(text, form, NEW, SPEC)
    assert plan.tasks or plan.done or plan.problems
    lines = text.count("\n") + text.count("\r") + 1
    assert all(1 <= problem.place.line <= lines for problem in plan.problems)


@dataclass(frozen=True)
class Written:
    """A task as a person would write it."""

    title: str
    description: str
    after: tuple[int, ...]
    priority: int | None
    check: str | None


WORD = st.text(st.characters(categories=["L", "N", "S", "P"], exclude_characters="`();:[]"), min_size=1, max_size=8)
LINE = st.lists(WORD, min_size=1, max_size=5).map(" ".join)
TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"], exclude_characters="`"), min_size=1)
BLOCK = st.one_of(
    LINE.map(lambda line: f"w {line}"),
    LINE.map(lambda line: f"- {line}\n  - {line}"),
    LINE.map(lambda line: f"```\n- [ ] {line}\n\n\t(after: x)\n~~~\n```"),
)
WRITTEN = st.builds(
    Written, LINE, st.lists(BLOCK, max_size=3).map("\n\n".join), st.lists(st.integers(0, 4)).map(tuple),
    st.none() | st.integers(0, 4), st.none() | TEXT,
)  # fmt: skip


def markdown(written: list[Written]) -> str:
    lines = []
    for n, task in enumerate(written):
        said = [f"id: k{n}"]
        said += [f"after: {', '.join(f'k{m}' for m in task.after)}"] * bool(task.after)
        said += [f"priority: {task.priority}"] * (task.priority is not None)
        said += [f"check: `{task.check}`"] * (task.check is not None)
        lines += [f"- [ ] {task.title} ({'; '.join(said)})", ""]
        lines += [f"  {line}" if line else "" for line in task.description.split("\n")]
    return "\n".join(lines)


def objects(written: list[Written]) -> str:
    return json.dumps(
        [
            {"id": f"k{n}", "title": task.title, "description": task.description, "priority": task.priority,
             "after": [f"k{m}" for m in task.after], "check": task.check}
            for n, task in enumerate(written)
        ]
    )  # fmt: skip


@given(st.lists(WRITTEN, min_size=1, max_size=5), st.sampled_from(["md", "json"]))
def test_a_plan_that_is_written_down_is_read_as_it_was_meant(written: list[Written], form: str) -> None:
    plan = read(markdown(written) if form == "md" else objects(written), form, NEW, SPEC)
    assert plan.problems == ()
    for n, (task, meant) in enumerate(zip(plan.tasks, written, strict=True)):
        assert task.key == f"k{n}"
        assert (task.new.title, task.new.description) == (meant.title, meant.description)
        assert task.new.after == tuple(dict.fromkeys(f"k{m}" for m in meant.after))
        assert task.new.priority == (3 if meant.priority is None else meant.priority)
        assert task.spec.check == meant.check
