"""Decisions of the hall: whether a route is served, what doctor makes of its facts, what LiteLLM is given."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fleet import nodes
from fleet.app import doctor_models, models
from fleet.app.models import judge_route
from fleet.app.readiness import Place, State, judge, say_when
from fleet.config import read
from fleet.core.fleet import Fleet, Kind, Provider
from fleet.gateway import answers, probe, served
from fleet.gateway.answers import Answer
from fleet.gateway.run import Status, child_environment
from fleet.host import http
from fleet.host.http import Cause
from fleet.nodes import LoadedModel, ServedModel, Survey

FLEET = read(
    """
project: {name: p}
nodes:
  box: {endpoint: http://10.0.0.7:11434}
  paid: {kind: openrouter}
models:
  m: {node: box, ollama_model: coder, litellm_alias: claude-sonnet-local}
  far: {node: paid, model: vendor/x, litellm_alias: claude-opus-local}
agents: {a: {model: m, description: d}}
""",
    Path("f"),
).fleet
ONLINE = Survey("box", "ollama", "http://10.0.0.7:11434", (), nodes.State.ONLINE, models=(ServedModel("coder:latest"),))
UP = Status(True, "u", 1, answers=True, deployments=served.wanted(FLEET))
NOW = 1_800_000_000.0
OK, LATE = Answer(NOW - 60, 0.84, True), Answer(NOW - 60, 9.0, False, "HTTP 400: does not support thinking")
HAS, LACKS, OFF = Place("m", "box", True), Place("n", "two", False, "lacks it"), Place("o", "six", False, "offline")
AT = say_when(NOW - 60, NOW)


def with_model(model: str) -> Status:
    return replace(UP, deployments=tuple(replace(one, model=model) for one in UP.deployments))


@pytest.mark.parametrize(
    ("survey", "gateway", "served", "why"),
    [
        (ONLINE, UP, True, "not tried yet"),
        (replace(ONLINE, state=nodes.State.OFFLINE, cause=Cause.REFUSED), UP, False, "node offline: refused"),
        (replace(ONLINE, models=()), UP, False, "the node does not have the model"),
        (replace(ONLINE, models=None), UP, None, "the node does not tell which models it has"),
        (ONLINE, replace(UP, running=False, answers=None), False, "the gateway is not running"),
        (ONLINE, replace(UP, answers=False, reason="deaf"), False, "deaf"),
        (ONLINE, replace(UP, deployments=()), False, "the running gateway does not know the alias"),
        (
            ONLINE,
            with_model("ollama_chat/old:7b"),
            False,
            "the running gateway has an older file, and asks old:7b on http://10.0.0.7:11434, context 32768",
        ),
    ],
)
def test_a_route_is_served_only_when_everything_on_it_is_there(
    survey: Survey, gateway: Status, served: bool | None, why: str
) -> None:
    places = {"m": models.place(FLEET.models["m"], survey, None, busy=False)}
    found = judge_route(FLEET, FLEET.routes()[0], places, gateway, NOW)
    assert (found.served, found.why) == (served, why)


@pytest.mark.parametrize(
    ("blocked", "places", "state", "served", "why"),
    [
        (None, [HAS], State.UNTRIED, True, "not tried yet"),
        (None, [OFF, HAS], State.UNTRIED, True, "not tried yet"),
        ("the gateway is not running", [replace(HAS, last=OK)], State.NOT_SERVED, False, "the gateway is not running"),
        (None, [LACKS], State.NOT_SERVED, False, "lacks it"),
        (None, [replace(LACKS, last=OK), OFF], State.NOT_SERVED, False, "two: lacks it; six: offline"),
        (None, [OFF, replace(HAS, has=None)], State.UNKNOWN, None, "the node does not tell which models it has"),
        (None, [replace(HAS, last=OK)], State.ANSWERED, True, f"box answered at {AT} in 0.8 s"),
        (None, [replace(HAS, has=None, last=OK)], State.ANSWERED, True, f"box answered at {AT} in 0.8 s"),
        (
            None, [replace(LACKS, last=LATE), replace(HAS, last=OK)], State.ANSWERED, True,
            f"box answered at {AT} in 0.8 s",
        ),
        (
            None, [replace(HAS, last=LATE)], State.REFUSED, False,
            f"box did not answer at {AT}: HTTP 400: does not support thinking",
        ),
        (
            None, [replace(HAS, last=OK), replace(HAS, node="two", last=LATE)], State.PARTLY, True,
            f"two did not answer at {AT}: HTTP 400: does not support thinking",
        ),
        (
            None, [replace(HAS, last=replace(OK, at=NOW - 9999))], State.UNTRIED, True,
            f"before the gateway was started, box answered at {say_when(NOW - 9999, NOW)} in 0.8 s",
        ),
        (None, [replace(HAS, last=OK, busy=True)], State.ANSWERED, True, f"box is busy, last answered {AT}"),
        (None, [replace(HAS, busy=True)], State.UNTRIED, True, "box is busy, not tried yet"),
    ],
)  # fmt: skip
def test_what_is_said_of_an_agent(
    blocked: str | None, places: list[Place], state: State, served: bool | None, why: str
) -> None:
    found = judge(blocked, places, NOW - 600, NOW)
    assert (found.state, found.served, found.why) == (state, served, why)


HELD = LoadedModel("coder:latest", context=32768)


@pytest.mark.parametrize(
    ("model", "survey", "load", "paid", "why"),
    [
        ("m", replace(ONLINE, loaded=(HELD,)), False, False, None),
        ("m", replace(ONLINE, loaded=()), False, False, "not in memory"),
        ("m", replace(ONLINE, loaded=()), True, False, None),
        ("m", ONLINE, False, False, "whether it is in memory is unknown"),
        ("m", ONLINE, True, False, None),
        (
            "m", replace(ONLINE, loaded=(replace(HELD, context=4096),)), False, False,
            "in memory with a context of 4096, not 32768",
        ),
        ("m", replace(ONLINE, state=nodes.State.OFFLINE, cause=Cause.REFUSED), True, True, "node offline: refused"),
        ("m", replace(ONLINE, models=()), True, True, "the node does not have the model"),
        (
            "m", replace(ONLINE, models=(ServedModel("coder", remote=True),), loaded=(HELD,)), True, False,
            "it would cost money: --paid",
        ),
        ("far", replace(ONLINE, node="paid", models=None), True, False, "it would cost money: --paid"),
        ("far", replace(ONLINE, node="paid", models=None), False, True, None),
    ],
)  # fmt: skip
def test_a_probe_loads_nothing_unasked_and_costs_nothing_unasked(
    model: str, survey: Survey, load: bool, paid: bool, why: str | None
) -> None:
    assert probe.why_not(FLEET, FLEET.models[model], survey, load=load, paid=paid) == why


STOP = b'event: message_stop\ndata: {"type": "message_stop"}\n\n'
WORD = b'event: content_block_delta\ndata: {"type": "content_block_delta"}\n\n'
CALL = b'event: content_block_start\ndata: {"content_block": {"type": "tool_use", "name": "nothing"}}\n\n'


@pytest.mark.parametrize(
    ("body", "by", "why"),
    [
        (WORD + STOP, "x=m@box", ""),
        (CALL + STOP, None, ""),
        (b"event: message_start\ndata: {}\n\n" + STOP, None, "the answer is empty"),
        (b'{"type": "message"}', None, ""),
        (WORD + STOP, "x=old@box", "another model answered: x=old@box"),
        (b"event: message_start\ndata: {}\n\n", None, "the answer broke off before its end"),
        (b'event: error\ndata: {"error": "out of memory"}\n\n' + STOP, None,
         'the answer is an error: {"error": "out of memory"}'),
        (b"<html>sign in here</html>", None, "what came is no answer of a model"),
        (b"[]", None, "what came is no answer of a model"),
    ],
)  # fmt: skip
def test_only_a_whole_answer_of_the_model_itself_is_one(body: bytes, by: str | None, why: str) -> None:
    said = http.Answer(200, body, {probe.ANSWERED_BY: by} if by else {})
    assert probe.why_unanswered(said, FLEET.models["m"]) == why


def test_an_answer_is_remembered_of_exactly_what_was_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEET_HOME", str(tmp_path / "home"))
    answers.keep(FLEET, tmp_path, {"m": OK, "far": LATE})
    assert answers.recall(FLEET, tmp_path) == {"m": OK, "far": LATE}
    assert (tmp_path / answers.PATH).stat().st_mode & 0o777 == 0o600
    longer = replace(FLEET, models={"m": replace(FLEET.models["m"], context=16384)})
    assert answers.recall(longer, tmp_path) == {}
    answers.keep(longer, tmp_path, {"m": OK})
    assert answers.recall(FLEET, tmp_path) == {}, "what fleet.yaml no longer has is forgotten"
    (tmp_path / answers.PATH).write_text('{"half')
    assert answers.recall(FLEET, tmp_path) == {}


def findings(fleet: Fleet, survey: Survey, check: str) -> list[str]:
    known = {"box": (ServedModel("coder", context=4096),)}
    facts = doctor_models.Facts(fleet, Path("/nonexistent"), {"box": survey}, known, UP)
    return [found.finding for found in getattr(doctor_models, check)(facts)]


def test_an_ollama_on_a_public_address_is_wrong_and_one_that_is_off_is_not() -> None:
    public = replace(FLEET, nodes={"box": replace(FLEET.nodes["box"], endpoint="http://8.8.8.8:11434")})
    assert "public address 8.8.8.8" in findings(public, ONLINE, "exposed")[0]
    assert findings(public, replace(ONLINE, state=nodes.State.OFFLINE), "exposed") == []
    assert findings(replace(FLEET, nodes={"box": FLEET.nodes["box"]}), ONLINE, "exposed") == []


def test_a_context_beyond_the_models_own_is_wrong() -> None:
    only = replace(FLEET, models={"m": FLEET.models["m"]})
    assert "context 32768 is more than the 4096" in findings(only, ONLINE, "context")[0]


def test_a_context_that_nobody_sends_and_the_server_does_not_have_is_wrong() -> None:
    gateway = replace(FLEET, models={"m": FLEET.models["m"]})
    direct = replace(gateway, gateway=replace(gateway.gateway, provider=Provider.DIRECT))
    lmstudio = replace(gateway, nodes={"box": replace(gateway.nodes["box"], kind=Kind.LMSTUDIO)})
    small = replace(ONLINE, loaded=(nodes.LoadedModel("coder:latest", context=4096),))
    whole = replace(ONLINE, loaded=(nodes.LoadedModel("coder:latest", context=32768),))
    assert findings(gateway, small, "loaded_context") == [], "the gateway sends it with each request"
    for fleet in (direct, lmstudio):
        (found,) = findings(fleet, small, "loaded_context")
        assert found == "m: coder is in memory with a context of 4096, and not 32768"
        assert findings(fleet, whole, "loaded_context") == findings(fleet, ONLINE, "loaded_context") == []


def test_litellm_gets_what_it_needs_and_nothing_else() -> None:
    environ = {
        "PATH": "/bin", "AWS_SECRET_ACCESS_KEY": "no", "OPENROUTER_API_KEY": "yes", "HTTPS_PROXY": "http://proxy",
        "no_proxy": "mine", "PYTHONSTARTUP": "no",
    }  # fmt: skip
    given = child_environment(FLEET, "sk-key", environ)
    assert "AWS_SECRET_ACCESS_KEY" not in given
    assert "PYTHONSTARTUP" not in given
    assert (given["OPENROUTER_API_KEY"], given["LITELLM_MASTER_KEY"]) == ("yes", "sk-key")
    assert given["LITELLM_LOCAL_MODEL_COST_MAP"] == "True"
    hosts = given["NO_PROXY"].split(",")
    assert {"mine", "10.0.0.7", "localhost"} <= set(hosts)
    assert "openrouter.ai" not in hosts


def test_a_cloud_has_no_cap_unless_one_is_given() -> None:
    assert (FLEET.models["m"].max_parallel, FLEET.models["far"].max_parallel) == (1, None)
