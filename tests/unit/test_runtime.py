"""runtime.toml: every rule, every problem at once, the places of keys, limits and who set them."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from msgspec import structs

from fleet.config import runtime, settings, toml, units
from fleet.config.limits import Origin, candidates, project_limits, resolve_limits
from fleet.config.problems import InvalidFile
from fleet.config.runtime import Live, Runtime
from fleet.config.runtime_schema import BUILT_IN, Concurrent, RuntimeFile
from fleet.config.starter import starter
from fleet.core import BadConfig
from fleet.core.life import Action, LifeState, Rule
from fleet.core.task import Spec
from fleet.core.work import Limits, ProjectLimits

FILE = Path("runtime.toml")
GUIDE = Path(__file__).resolve().parent.parent.parent / "docs/guides/settings.md"


def parse(text: str) -> Runtime:
    return runtime.parse(text, FILE)


def problems(text: str) -> list[str]:
    with pytest.raises(InvalidFile) as caught:
        parse(text)
    return [f"{problem.place.line}: {problem.message}" for problem in caught.value.problems]


def test_the_defaults_are_those_of_the_specification() -> None:
    got = parse("")
    assert (got.max_concurrent, got.coder, got.model, got.context_pressure_threshold_pct) == (3, "claude", "sonnet", 90)
    assert (got.tracker, got.min_free_disk, got.dead_man) == ("local", 10**9, 3600.0)
    assert (got.backoff, got.ask_wait) == (10.0, 900.0)
    assert got.limits == Limits(timeout=7200.0, attempts=3, output=10**9, silence=3600.0)
    assert (got.concurrent.coders, got.concurrent.models, got.coders) == ({}, {}, {})
    assert got.known_coders == list(BUILT_IN)


def test_a_new_file_sets_nothing_and_shows_every_default() -> None:
    text = starter()
    assert settings.flat(toml.table(text)) == {}
    shown = "\n".join(
        line.removeprefix("#") for line in text.splitlines() if line.startswith("#") and line[1:2].isalpha()
    )
    defaults = settings.flat(parse("").written)
    assert {key[-1] for key in defaults} | {"claude", "opus", "work", "quiet_hours"} == set(toml.table(shown))
    assert max(map(len, text.splitlines())) <= 120


def test_every_runtime_toml_in_the_guide_is_valid() -> None:
    blocks = re.findall(r"^```toml\n(# runtime.toml\n.*?)^```", GUIDE.read_text(), re.DOTALL | re.MULTILINE)
    assert len(blocks) == 2
    first, second = map(parse, blocks)
    assert structs.replace(first.written, concurrent=Concurrent()) == RuntimeFile(), "the guide shows the defaults"
    assert second.coder == "my-agent"


def test_a_coder_of_ones_own_needs_no_code() -> None:
    got = parse(
        'coder = "mine"\n[coders.mine]\nargv = ["my-agent", "it\'s\\n\\"so\\""]\nprompt = "arg"\nevents = "jsonl"\n'
        'model_flag = "--model"\ncontext_limit = 128000\nenv = {A = "b"}\npass_env = ["MY_KEY"]\n'
        '[coders.claude]\nargs = ["--verbose"]\n[concurrent.coders]\nmine = 2\n[concurrent.models]\n"gpt-4.1" = 1\n'
    )
    mine = got.coders["mine"]
    assert (got.coder, mine.argv, mine.prompt, mine.events) == ("mine", ("my-agent", 'it\'s\n"so"'), "arg", "jsonl")
    assert (mine.env, mine.pass_env, mine.resume_flag) == ({"A": "b"}, ("MY_KEY",), None)
    assert got.coders["claude"].args == ("--verbose",)
    assert (got.concurrent.coders, got.concurrent.models) == ({"mine": 2}, {"gpt-4.1": 1})
    assert got.known_coders[-1] == "mine"


def test_an_agent_that_speaks_a_protocol_is_declared_by_it() -> None:
    got = parse('[coders.mine]\nargv = ["my-agent"]\nprompt = "acp"\npermissions = "reject"\ncontext_limit = 5000\n')
    assert (got.coders["mine"].prompt, got.coders["mine"].permissions) == ("acp", "reject")
    assert parse('[coders.mine]\nargv = ["my-agent"]\nprompt = "acp"\n').coders["mine"].permissions == "allow"
    acp = 'argv = ["x"]\nprompt = "acp"\nevents = "jsonl"\nmodel_flag = "-m"\nresume_flag = "-r"\npermissions = "ask"\n'
    assert problems(f'[coders.a]\n{acp}[coders.b]\nargv = ["x"]\npermissions = "allow"\n') == [
        '4: coders.a.events means nothing with prompt = "acp"',
        '5: coders.a.model_flag means nothing with prompt = "acp"',
        '6: coders.a.resume_flag means nothing with prompt = "acp"',
        "7: coders.a.permissions must be one of allow, reject",
        '10: coders.b.permissions means nothing without prompt = "acp"',
    ]
    (built_in,) = problems('[coders.claude]\npermissions = "allow"\n')
    assert "claude is built in" in built_in


def test_every_problem_is_reported_at_once_with_its_line() -> None:
    text = """\
# settings
max_concurrent = -5
cooder = "claude"
coder = "claud"
tracker = "bead"
dead_man = "soon"

[limits]
attempts = 0
timeout = [
  1,
]
output = "1"

[concurrent.coders]
cluade = 2
[coders.mine]
prompt = "argv"
[coders.Bad]
argv = ["x"]
[coders.codex]
argv = ["other"]
env = {"A B" = "c"}
pass_env = ["A=b"]
"""
    assert problems(text) == [
        "2: max_concurrent must be a whole number, at least 1",
        "3: cooder is not a known key (did you mean coder?)",
        "4: coder names an unknown coder: 'claud' (did you mean claude?)",
        "5: tracker must be one of local, beads (did you mean beads?)",
        "6: dead_man must be seconds as a number, or a duration such as 90s, 30m or 1h30m",
        "9: limits.attempts must be a whole number, at least 1",
        "10: limits.timeout must be a number or text",
        "13: limits.output must be bytes as a number, or a size such as 500MB, 1GB or 1GiB",
        "16: concurrent.coders.cluade names an unknown coder: 'cluade' (did you mean claude?)",
        "17: coders.mine.argv is missing: the program to start, and its options",
        "18: coders.mine.prompt must be one of stdin, arg, acp (did you mean arg?)",
        "19: coders: 'Bad' is not a usable name: lowercase letters, digits, hyphens and underscores, at most 64, "
        "the first a letter or digit",
        "22: coders.codex.argv: codex is built in; give a coder of your own another name",
        "23: coders.codex.env.A B is not the name of an environment variable",
        "24: coders.codex.pass_env[0] must be the name of an environment variable, such as MY_API_KEY "
        "(never the key itself)",
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("max_concurrent = 501", "max_concurrent must be a whole number, at most 500"),
        ("max_concurrent = true", "max_concurrent must be a whole number"),
        ("max_concurrent = 2.5", "max_concurrent must be a whole number"),
        ("context_pressure_threshold_pct = 9", "context_pressure_threshold_pct must be a whole number, at least 10"),
        ("context_pressure_threshold_pct = 101", "context_pressure_threshold_pct must be a whole number, at most 100"),
        ('model = "a\\nb"', "model must be one line without control characters"),
        ("dead_man = nan", "dead_man must be a number, at least 0.1"),
        ("dead_man = inf", "dead_man must be a number, at most 2592000"),
        ("backoff = -1", "backoff must be a number, at least 0"),
        ('backoff = "11m"', "backoff must be from 0s to 10min"),
        ('ask_wait = "25h"', "ask_wait must be from 0s to 24h"),
        ('limits.timeout = "0s"', "limits.timeout must be from 0.1s to 720h"),
        (
            'limits.silence = "soon"',
            "limits.silence must be seconds as a number, or a duration such as 90s, 30m or 1h30m",
        ),
        ('limits.silence = "0.01s"', "limits.silence must be from 0.1s to 720h, or none"),
        ('limits.tokens = "2G"', "limits.tokens must be tokens as a number, or such as 500k or 2M, or none"),
        ("limits.cost = -1", "limits.cost must be a number, at least 0"),
        ("limits.timeout = 1979-05-27", "limits.timeout must be a number or text"),
        ("limits = 3", "limits must be a mapping"),
        ("coders.x = 3", "coders.x must be a mapping"),
        ("coders.x.argv = []", "coders.x.argv is missing: the program to start, and its options"),
        ('coders.x.argv = ["a\\u0000"]', "coders.x.argv[0] must not contain a NUL, which no program can be given"),
        ("concurrent.models.a = 0", "concurrent.models.a must be a whole number, at least 1"),
    ],
)
def test_values_out_of_range_are_refused(text: str, problem: str) -> None:
    assert problems(text) == [f"1: {problem}"]


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("a = 1\nb = ", "2: not TOML: Invalid value"),
        ("a = 1\na = 2\n", "2: not TOML: Cannot overwrite a value"),
        ("a = " + "[" * 5000 + "]" * 5000, "1: not TOML: it is too deep"),
        ("a = " + "{a=" * 60 + "1" + "}" * 60, "1: not TOML: it is too deep"),
        (".".join("a" * 20_000) + " = 1", "1: not TOML: it is too deep"),
        ("a = " + "9" * 5000, "1: not TOML: it is too deep, or a number"),
        ("limits.timeout = 0x" + "f" * 40, "1: limits.timeout must be"),
    ],
)
def test_a_hostile_text_is_a_problem_and_nothing_worse(text: str, start: str) -> None:
    (problem,) = problems(text)
    assert problem.startswith(start)


def test_thousands_of_problems_are_counted_and_not_all_shown() -> None:
    with pytest.raises(InvalidFile) as caught:
        parse("".join(f"key{n} = 1\n" for n in range(3000)))
    assert len(caught.value.problems) == 3000
    assert len(caught.value.message.splitlines()) < 200
    assert caught.value.message.endswith("and 2900 more")


def test_the_places_of_keys_are_found_around_long_values_and_comments() -> None:
    text = (
        'a = 1 # [no]\r\nz = 1\r\n# [nor.this]\nb.c = """\n[not]\nd = 1\n"""\n\n[x."y.z"]\ne = [\n  1, # ]\n  2,\n]\n'
        "[[list]]\nf = {g = 1}\n"
    )
    found = {key: place.line for key, place in toml.places(text).items()}
    assert found == {
        ("a",): 1, ("z",): 2, ("b",): 4, ("b", "c"): 4, ("x",): 9, ("x", "y.z"): 9, ("x", "y.z", "e"): 10,
        ("list",): 14, ("list", "f"): 15, ("list", "f", "g"): 15,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        (90, 90), (0.5, 0.5), ("90s", 90), ("30m", 1800), ("30min", 1800), ("2h", 7200), ("1h30m", 5400),
        ("1h1m1s", 3661), ("1.5h", 5400),
    ],
)  # fmt: skip
def test_durations(written: str | float, seconds: float) -> None:
    assert units.seconds(written) == seconds


@pytest.mark.parametrize(
    ("written", "size"),
    [(90, 90), ("1GB", 10**9), ("1GiB", 2**30), ("500MB", 5 * 10**8), ("1.5kB", 1500), ("2 TB", 2 * 10**12), ("7B", 7)],
)
def test_sizes(written: str | int, size: int) -> None:
    assert units.size(written) == size


@pytest.mark.parametrize("written", ["", "s", "5", "5 parsecs", "m5", "1m1h", "-5s", "5s\n", "\u0665s", "1" * 13 + "s"])
def test_what_is_no_duration_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match="seconds"):
        units.seconds(written)


@pytest.mark.parametrize("written", ["", "5", "B", "5G", "5GB\n", "-5GB", "5 G B"])
def test_what_is_no_size_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match="bytes"):
        units.size(written)


@pytest.mark.parametrize(
    ("written", "tokens"), [(5, 5), ("0", 0), ("none", 0), ("900", 900), ("500k", 500_000), ("1.5M", 1_500_000)]
)
def test_tokens(written: str | int, tokens: int) -> None:
    assert units.tokens(written) == tokens


@pytest.mark.parametrize(("written", "dollars"), [(5, 5.0), (0.5, 0.5), ("none", 0.0), ("5", 5.0), ("$2.50", 2.5)])
def test_dollars(written: str | float, dollars: float) -> None:
    assert units.dollars(written) == dollars


def test_a_limit_can_be_switched_off() -> None:
    assert (units.silence("none"), units.silence(0), units.silence("20m")) == (0.0, 0.0, 1200.0)
    off = parse('[limits]\nsilence = "none"\ntokens = 0\ncost = "none"\n').limits
    assert (off.silence, off.tokens, off.cost) == (None, None, None)


@pytest.mark.parametrize("written", ["", "M", "2G", "-5", "5 tokens", "None", "1e6"])
def test_what_is_no_number_of_tokens_or_dollars_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match="tokens"):
        units.tokens(written)
    with pytest.raises(ValueError, match="dollars"):
        units.dollars(written)


def test_what_is_written_for_people_can_be_read_again() -> None:
    for seconds in (0.5, 59, 60, 90, 1200, 3600, 5400, 86400):
        assert units.seconds(units.time_text(seconds)) == seconds
    for size in (700, 1000, 1_500_000, 10**9, 2 * 10**12):
        assert units.size(units.size_text(size)) == size
    for tokens in (0, 999, 1000, 15_300, 2_000_000, 2_100_000):
        assert units.tokens(units.tokens_text(tokens)) == tokens
    for dollars in (0.0, 0.0123, 0.25, 5.0, 1234.5):
        assert units.dollars(units.dollars_text(dollars)) == dollars


def test_a_limit_is_the_tasks_then_the_projects_then_the_machines() -> None:
    machine = parse('[limits]\noutput = "2GB"\ncost = 7\n')
    spec = Spec(cwd="/x", timeout=60.0, silence=0.0)
    got = resolve_limits(spec, ProjectLimits(timeout=5.0, attempts=9, silence=5.0, tokens=100), machine)
    assert got.limits == Limits(timeout=60.0, attempts=9, output=2 * 10**9, silence=None, tokens=100, cost=7.0)
    assert got.origins == {
        "timeout": Origin.TASK, "attempts": Origin.PROJECT, "output": Origin.MACHINE, "silence": Origin.TASK,
        "tokens": Origin.PROJECT, "cost": Origin.MACHINE,
    }  # fmt: skip
    assert set(resolve_limits(Spec(cwd="/x"), None, parse("")).origins.values()) == {"default"}


FLEET = """\
project: {name: x}
nodes: {n: {endpoint: "http://127.0.0.1:1"}}
models: {m: {node: n, ollama_model: m, litellm_alias: a}}
agents: {planner: {model: m, description: plans}}
limits: {attempts: 7}
"""


def test_a_projects_limits_are_found_from_inside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    inside = tmp_path / "repo" / "src" / "deep"
    inside.mkdir(parents=True)
    assert project_limits(inside) is None
    (tmp_path / "fleet.yaml").write_text(FLEET)
    assert project_limits(inside) == ProjectLimits(attempts=7)
    (tmp_path / "repo/.git").write_text("gitdir: elsewhere")
    assert project_limits(inside) is None, "another repository's fleet.yaml is none of ours"
    (tmp_path / "repo/fleet.yaml").write_text("limits: 5\n")
    with pytest.raises(BadConfig, match=str(tmp_path / "repo/fleet.yaml")):
        project_limits(inside)


def test_a_fleet_yaml_in_somebody_elses_directory_is_not_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/nowhere")
    ours = tmp_path / "theirs" / "project" / "src"
    found = list(candidates(ours, is_ours=lambda directory: directory.endswith("/project")))
    assert found == [ours / "fleet.yaml", ours.parent / "fleet.yaml"]
    assert list(candidates(ours, is_ours=lambda directory: False)) == [ours / "fleet.yaml"]


def test_a_running_supervisor_follows_the_file_and_survives_a_broken_one(tmp_path: Path) -> None:
    path = tmp_path / "runtime.toml"
    live = Live(path)
    assert not live.refresh().changed
    path.write_text("max_concurrent = 5\n")
    change = live.refresh()
    assert (change.changed, change.before.max_concurrent, change.after.max_concurrent) == (True, 3, 5)
    assert not live.refresh().changed
    path.write_text("max_concurrent = \n")
    assert live.refresh().problem is None, "somebody may still be writing"
    settle(path)
    change = live.refresh()
    assert (change.changed, live.runtime.max_concurrent) == (False, 5)
    assert change.problem is not None
    assert "not TOML" in change.problem.message
    assert live.refresh().problem is None, "a problem is told once"
    path.unlink()
    change = live.refresh()
    assert change.problem is not None
    assert "is gone" in change.problem.message
    assert (live.refresh().problem, live.runtime.max_concurrent) == (None, 5)
    path.write_text("max_concurrent = 6\n")
    settle(path)
    assert live.refresh().after.max_concurrent == 6


def settle(path: Path) -> None:
    """Let the last change be a while ago."""
    then = path.stat().st_mtime - 1
    os.utime(path, (then, then))


def test_a_file_that_is_being_written_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "runtime.toml"
    path.write_text("max_concurrent = 5\n")
    settle(path)
    live = Live(path)
    path.write_text("")
    assert (live.refresh().problem, live.runtime.max_concurrent) == (None, 5)
    settle(path)
    change = live.refresh()
    assert change.problem is not None
    assert "is empty" in change.problem.message
    assert live.runtime.max_concurrent == 5


def test_a_change_that_puts_the_old_time_back_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "runtime.toml"
    path.write_text("max_concurrent = 5\n")
    os.utime(path, (1, 1))
    live = Live(path)
    assert not live.refresh().changed
    path.write_text("max_concurrent = 6\n")
    os.utime(path, (1, 1))
    assert live.refresh().changed


def test_a_supervisor_does_not_start_with_a_broken_file(tmp_path: Path) -> None:
    (tmp_path / "runtime.toml").write_text("max_concurrent = -5\n")
    with pytest.raises(BadConfig, match="at least 1"):
        Live(tmp_path / "runtime.toml")


@pytest.mark.parametrize(
    ("written", "key"),
    [
        ("max_concurrent", ("max_concurrent",)),
        ("limits.timeout", ("limits", "timeout")),
        ("concurrent.models.gpt-4.1", ("concurrent", "models", "gpt-4.1")),
        ('concurrent.models."gpt-4.1"', ("concurrent", "models", "gpt-4.1")),
        ("coders.x.env.A", ("coders", "x", "env", "A")),
    ],
)
def test_a_setting_is_found_by_its_name(written: str, key: settings.Key) -> None:
    assert settings.find(written).key == key
    assert settings.find(settings.name(key)).key == key


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("max_concurent", r"is not a known key \(did you mean max_concurrent\?\)"),
        ("timeout", r"did you mean limits.timeout\?"),
        ("coders.x.arv", r"did you mean coders.x.argv\?"),
        ("max_concurrent.x", "not a known key"),
        ("", "not a known key"),
        ("limits.", "not a known key"),
        ("concurrent.models.", "not a known key"),
        ('"', "not a known key"),
        ('a = 1\nmax_concurrent', "not a known key"),
        ("limits", "is a table; set what is in it, such as limits.timeout"),
        ("coders.x.env", "is a table"),
    ],
)  # fmt: skip
def test_a_name_that_means_nothing_is_refused(written: str, problem: str) -> None:
    with pytest.raises(BadConfig, match=problem):
        settings.find(written)


@pytest.mark.parametrize(
    ("key", "written", "value"),
    [
        ("max_concurrent", "5", 5),
        ("max_concurrent", "five", "five"),
        ("max_concurrent", "5\nmodel = 1", "5\nmodel = 1"),
        ("model", "opus", "opus"),
        ("model", "5", "5"),
        ("model", "", ""),
        ("model", '"opus"', "opus"),
        ("model", 'a"b', 'a"b'),
        ("limits.timeout", "30m", "30m"),
        ("limits.timeout", "90", 90),
        ("coders.x.argv", '["a", "b"]', ["a", "b"]),
        ("coders.x.argv", "a", "a"),
        ("coders.x.env.A", "true", "true"),
    ],
)
def test_a_value_is_what_the_key_wants(key: str, written: str, value: object) -> None:
    assert settings.value(settings.find(key), written) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# mine\nmax_concurrent = 4 # four\n\n[limits] # all of them\ntimeout = '1h'\n",
        "limits.timeout = '1h'\nconcurrent = {coders = {claude = 1}}\n",
        "[coders.x]\nargv = ['a']\n[limits]\n[coders.y]\nargv = ['b']\n",
        "model = '''\n#max_concurrent = 3'''\n",
        "max_concurrent = 4\r\n[limits]\r\n",
        starter(),
    ],
)
def test_a_change_touches_nothing_else(text: str) -> None:
    changes: dict[settings.Key, object] = {
        ("max_concurrent",): 5, ("limits", "attempts"): 2, ("concurrent", "coders", "codex"): 1,
        ("coders", "z", "argv"): ["it's", '"so"', "a\nb\\", "\x7f\u2028é"], ("coders", "z", "env", "A"): "",
    }  # fmt: skip
    new = settings.changed(text, changes)
    assert settings.flat(toml.table(new)) == settings.flat(toml.table(text)) | changes
    for line in text.splitlines():
        if line.startswith("# "):
            assert line in new.splitlines()


def test_a_default_that_stands_as_a_comment_becomes_the_key() -> None:
    new = settings.changed(starter(), {("max_concurrent",): 5, ("limits", "timeout"): "30m"})
    assert new == starter().replace("#max_concurrent = 3", "max_concurrent = 5").replace(
        '#timeout = "2h"', 'timeout = "30m"'
    )


def test_what_sounds_like_a_secret_is_not_shown() -> None:
    assert settings.shown(("coders", "x", "env", "MY_API_KEY"), "s3cret") == settings.HIDDEN
    assert settings.shown(("coders", "x", "env", "EDITOR"), "vi") == "vi"
    assert settings.shown(("coder",), "claude") == "claude"
    assert settings.shown(("accounts", "work", "env", "ANTHROPIC_API_KEY"), "s3cret") == settings.HIDDEN
    assert settings.shown(("accounts", "work", "env", "CLAUDE_CONFIG_DIR"), "~/.claude-work") == "~/.claude-work"
    assert settings.shown(("accounts", "work", "env", "PROXY"), "http://me:pw@proxy:1") == settings.HIDDEN
    assert settings.shown(("coders", "x", "env", "EXTRA"), "sk-ant-1") == settings.HIDDEN


def test_what_is_done_about_an_agent_is_read_with_its_patience() -> None:
    text = '[liveness]\nquiet = "2m"\nrepeats = 5\nlooping = "end"\nlooping_after = "10m"\nsilent = "ask"\n'
    policy = runtime.parse(text, Path("runtime.toml")).liveness
    assert (policy.quiet, policy.repeats) == (120.0, 5)
    assert policy.rules[LifeState.LOOPING] == Rule(Action.END, 600.0)
    assert policy.rules[LifeState.TOOL] == Rule(Action.LEAVE)
    assert policy.with_silence(30.0).rules[LifeState.SILENT] == Rule(Action.ASK, 30.0)
    assert policy.with_silence(30.0).quiet == 30.0


@pytest.mark.parametrize(
    "line", ['quiet = "0s"', "repeats = 2", 'looping = "kill"', 'looping_after = "25h"', 'working = "end"']
)
def test_a_policy_that_makes_no_sense_is_refused(line: str) -> None:
    with pytest.raises(runtime.InvalidRuntime):
        runtime.parse(f"[liveness]\n{line}\n", Path("runtime.toml"))
