"""Decisions of the hall: whether a route is served, what doctor makes of its facts, what LiteLLM is given."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fleet import nodes
from fleet.app import doctor_models
from fleet.app.models import judge_route
from fleet.app.readiness import Place, State, judge
from fleet.config import read
from fleet.core.fleet import Fleet
from fleet.gateway import served
from fleet.gateway.run import Status, child_environment
from fleet.host.http import Cause
from fleet.nodes import ServedModel, Survey

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
HAS, LACKS, OFF = Place("m", "box", True), Place("n", "two", False, "lacks it"), Place("o", "six", False, "offline")


def with_model(model: str) -> Status:
    return replace(UP, deployments=tuple(replace(one, model=model) for one in UP.deployments))


@pytest.mark.parametrize(
    ("survey", "gateway", "served", "why"),
    [
        (ONLINE, UP, True, "served"),
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
            "the running gateway has an older file, and asks old:7b on http://10.0.0.7:11434, context 8192",
        ),
    ],
)
def test_a_route_is_served_only_when_everything_on_it_is_there(
    survey: Survey, gateway: Status, served: bool | None, why: str
) -> None:
    found = judge_route(FLEET, FLEET.routes()[0], {"box": survey}, gateway)
    assert (found.served, found.why) == (served, why)


@pytest.mark.parametrize(
    ("obstacle", "places", "state", "why"),
    [
        (None, [HAS], State.SERVED, "served"),
        (None, [OFF, HAS], State.SERVED, "served"),
        ("the gateway is not running", [HAS], State.NOT_SERVED, "the gateway is not running"),
        (None, [LACKS], State.NOT_SERVED, "lacks it"),
        (None, [LACKS, OFF], State.NOT_SERVED, "two: lacks it; six: offline"),
        (None, [OFF, replace(HAS, has=None)], State.UNKNOWN, "the node does not tell which models it has"),
    ],
)
def test_an_agent_is_served_by_any_model_of_its_alias(
    obstacle: str | None, places: list[Place], state: State, why: str
) -> None:
    found = judge(obstacle, places)
    assert (found.state, found.why) == (state, why)


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
    assert "context 8192 is more than the 4096" in findings(only, ONLINE, "context")[0]


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
