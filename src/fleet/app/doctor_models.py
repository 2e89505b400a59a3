"""What doctor looks at in the models plane: LiteLLM, keys, nodes, models, generated files and who reads them."""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from fleet import nodes
from fleet.app import capabilities
from fleet.app import files as project_files
from fleet.app.doctor import AGENT, PROGRAMS, Check, Deep, Health, guarded
from fleet.app.gateway import say_probe
from fleet.app.models import RouteStatus, judged
from fleet.app.probes import probe_models
from fleet.app.readiness import State
from fleet.config.local import where
from fleet.core.fleet import Fleet, Kind, Model, Node, Provider
from fleet.core.text import clean
from fleet.evidence.ledger import Ledger
from fleet.gateway import direct, environment, keys, run
from fleet.gateway.probe import Probe, Result
from fleet.generate import env
from fleet.generate.litellm import max_input_tokens
from fleet.generate.roles import defaults
from fleet.host import database, files, machine

# A loaded model takes more than its file: its context and the buffers it computes in.
OVERHEAD = 1.2
# What Claude Code 2.1 sends in a terminal before anybody has said anything: 53 KB, and 46 KB with -p.
FIRST_PROMPT_TOKENS = 12_000
AGENT_HEALTH = {
    State.ANSWERED: Health.OK,
    State.UNTRIED: Health.NOTE,
    State.UNKNOWN: Health.UNKNOWN,
    State.PARTLY: Health.WRONG,
    State.REFUSED: Health.WRONG,
    State.NOT_SERVED: Health.WRONG,
}


@dataclass(frozen=True, slots=True)
class Facts:
    """All that the checks look at, gathered once."""

    fleet: Fleet
    out: Path
    surveys: dict[str, nodes.Survey]
    known: capabilities.Capabilities
    gateway: run.Status | direct.Direct
    routes: tuple[RouteStatus, ...] = ()


def check_models(fleet: Fleet, out: Path, timeout: float, deep: Deep | None = None) -> Iterator[Check]:
    probes = _probe(fleet, out, deep) if deep else []
    busy = [one.model for one in probes if one.result is Result.BUSY]
    surveys, known = capabilities.ask(fleet, out, timeout, loaded=True)
    capabilities.keep(fleet, out, known)
    facts = Facts(fleet, out, {survey.node: survey for survey in surveys}, known, *judged(fleet, out, surveys, busy))
    for check in CHECKS:
        yield from guarded(check.__name__, partial(check, facts))


def _probe(fleet: Fleet, out: Path, deep: Deep) -> list[Probe]:
    models = list(fleet.models.values())
    deep.say(f"asking {len(models)} models as an agent asks; what is not in memory is loaded")
    return probe_models(fleet, out, models, lambda one: deep.say(say_probe(one)), load=True, paid=deep.paid)


def litellm(facts: Facts) -> Iterator[Check]:
    if facts.fleet.is_direct:
        return
    release = environment.version()
    problem = environment.bad_release(release)
    if problem:
        yield Check("LiteLLM", Health.WRONG, f"{release}: {problem}", "install a newer fleet")
    elif environment.installed():
        yield Check("LiteLLM", Health.OK, f"{release} is installed in its own environment")
    else:
        yield Check("LiteLLM", Health.NOTE, f"{release} is not installed yet; `fleet gateway up` installs it")
    other = machine.program("litellm")
    yield from _litellm_on_path(other) if other else ()


def _litellm_on_path(program: str) -> Iterator[Check]:
    """A LiteLLM of the user's own: fleet does not use it, but a stolen release must not stay."""
    site = Path(program).resolve().parent.parent
    for info in sorted(site.glob("lib/python*/site-packages/litellm-*.dist-info")):
        release = info.name.removeprefix("litellm-").removesuffix(".dist-info")
        problem = environment.bad_release(release)
        if problem:
            yield Check("LiteLLM", Health.WRONG, f"{program} is {release}: {problem}", "pip install --upgrade litellm")


def key(facts: Facts) -> Iterator[Check]:
    if facts.fleet.is_direct:
        return
    found = keys.chosen(facts.fleet, facts.out)
    if found is None:
        yield Check("key", Health.WRONG, "the gateway has no key yet", "fleet generate")
        return
    problem = keys.weakness(found)
    where = keys.source(facts.fleet, facts.out)
    remedy = f"rm {where}" if where == keys.PATH else f"unset {where[1:]}"
    if problem:
        yield Check("key", Health.WRONG, f"the key in {where} is weak: {problem}", f"{remedy} && fleet generate")
    else:
        yield Check("key", Health.OK, f"the key in {where} is strong")
    if other := keys.other_key(facts.fleet, facts.out):
        yield Check("key", Health.NOTE, other, f"source {env.PATH}")


def secrets(facts: Facts) -> Iterator[Check]:
    """Files with a key in them: for their owner's eyes, and never in git."""
    for name in (env.PATH, keys.PATH):
        path = facts.out / name
        if not path.exists():
            continue
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & 0o077:
            yield Check("secrets", Health.WRONG, f"{name} can be read by others (mode {mode:o})", f"chmod 600 {name}")
        if machine.is_tracked_by_git(path):
            yield Check("secrets", Health.WRONG, f"{name} is in git", f"git rm --cached {name}; then change the key")
        elif machine.is_ignored_by_git(path) is False:
            yield Check("secrets", Health.WRONG, f"git does not ignore {name}", f"echo {name} >> .gitignore")


def reach(facts: Facts) -> Iterator[Check]:
    gateway = facts.fleet.gateway
    if gateway.provider is not Provider.LITELLM:
        return
    if isinstance(facts.gateway, run.Status):
        yield from _running(facts.gateway, facts.fleet, facts.out)
    if gateway.is_loopback:
        yield Check("gateway", Health.OK, f"listens on {gateway.host} only")
    else:
        finding = f"gateway.host is {gateway.host}: other machines can reach it"
        yield Check("gateway", Health.WRONG, finding, "set gateway.host to 127.0.0.1, then: fleet generate")


def _running(now: run.Status, fleet: Fleet, out: Path) -> Iterator[Check]:
    if not now.running:
        at_work = _at_work(fleet, out)
        needed = f"; agents at work need it: {', '.join(at_work)}" if at_work else ""
        health = Health.WRONG if now.was_up or at_work or now.is_port_taken else Health.NOTE
        remedy = f"stop what listens on {now.url}, then: {run.UP}" if now.is_port_taken else run.UP
        yield Check("gateway", health, f"{str(now.reason).removesuffix(f': {run.UP}')} ({now.url}){needed}", remedy)
    elif now.stale or not now.answers:
        finding = f"the running gateway is stale: {now.url} has an older file" if now.answers else f"{now.reason}"
        yield Check("gateway", Health.WRONG, finding, now.remedy or run.renewal(fleet, out, now.pid))


def _at_work(fleet: Fleet, out: Path) -> tuple[str, ...]:
    """The attempts of this project whose agents think with a model of this fleet, and have not ended."""
    home, top = files.home(), out.resolve()
    if not database.path(home).exists():
        return ()
    names = {fleet.asked(model) for model in fleet.models.values()}
    ledger = Ledger(home)
    living = [one for one in (*ledger.unsettled(), *ledger.talked_to()) if one.ended is None]
    ours = [one for one in living if Path(where(one)).resolve().is_relative_to(top)]
    return tuple(one.id for one in ours if {one.model, one.thinks_with} & names)


def agent_answers(facts: Facts) -> Iterator[Check]:
    """Whether each agent's requests get as far as a node that has its model, and were answered there."""
    for now in facts.routes:
        health = AGENT_HEALTH[now.state]
        finding = f"{now.route.agent}: {clean(now.route.alias)}: {now.why}"
        if isinstance(facts.gateway, run.Status) and not facts.gateway.running and health is Health.WRONG:
            health = Health.NOTE  # whether that is a fault, the gateway's own check says
        tried = now.state in (State.UNTRIED, State.UNKNOWN, State.REFUSED, State.PARTLY)
        yield Check(AGENT, health, finding, "fleet doctor --deep" if tried else None)


def exposed(facts: Facts) -> Iterator[Check]:
    """Nodes that the whole world could use."""
    for node in facts.fleet.nodes.values():
        parts = urlsplit(node.endpoint)
        if facts.surveys[node.name].state is nodes.State.OFFLINE:
            continue
        if node.kind is Kind.OLLAMA and node.api_key_env is None and _is_public(parts.hostname or ""):
            finding = f"{node.name} answers on the public address {parts.hostname}, to anybody"
            yield Check("exposure", Health.WRONG, finding, "put it behind a firewall, Tailscale or WireGuard")
        elif node.is_local and parts.port and machine.listens_publicly(parts.port):
            finding = f"{node.name}: port {parts.port} of this machine is open to other machines"
            yield Check("exposure", Health.NOTE, finding, f"OLLAMA_HOST=127.0.0.1:{parts.port}, unless others use it")


def _is_public(host: str) -> bool:
    try:
        return ip_address(host).is_global
    except ValueError:
        return any(ip_address(address.partition("%")[0]).is_global for address in machine.addresses(host))


def reachable(facts: Facts) -> Iterator[Check]:
    for survey in facts.surveys.values():
        if survey.state is nodes.State.ONLINE:
            yield Check("node", Health.OK, f"{survey.node} answers")
        else:
            finding = f"{survey.node} ({survey.endpoint}) is offline: {survey.cause}: {survey.detail}"
            yield Check("node", Health.WRONG, finding, _revive(facts.fleet.nodes[survey.node], survey))


def _revive(node: Node, survey: nodes.Survey) -> str:
    if survey.cause == "no API key":
        return f"export {node.api_key_env}=…"
    if node.kind is Kind.OLLAMA and node.is_local and survey.cause == "refused":
        host = node.endpoint.partition("://")[2]
        return "ollama serve" if host.endswith(":11434") else f"OLLAMA_HOST={host} ollama serve"
    return f"start it, or correct nodes.{node.name}.endpoint in fleet.yaml"


def present(facts: Facts) -> Iterator[Check]:
    for model in facts.fleet.models.values():
        survey, node = facts.surveys[model.node], facts.fleet.node_of(model)
        has = survey.serves(model) if survey.state is nodes.State.ONLINE else None
        if has is False:
            yield Check("model", Health.WRONG, f"{model.served} is not on {node.name}", _fetch(node, model))
        elif has is None:
            yield Check("model", Health.UNKNOWN, f"whether {model.served} is on {node.name} is unknown")
        elif any(nodes.same_name(m.name, model.served) and m.remote for m in survey.models or ()):
            finding = f"{model.served} is not on {node.name}: Ollama sends its requests to a cloud, off your machines"
            yield Check("model", Health.WRONG, finding, f"choose a local model for models.{model.name}")
        else:
            yield Check("model", Health.OK, f"{model.served} is on {node.name}")


def _fetch(node: Node, model: Model) -> str:
    if node.kind is not Kind.OLLAMA:
        return f"load it there, or correct models.{model.name} in fleet.yaml"
    host = "" if node.is_local and ":11434" in node.endpoint else f"OLLAMA_HOST={node.endpoint} "
    return f"{host}ollama pull {model.served}"


def tools(facts: Facts) -> Iterator[Check]:
    """A request with tools is refused by its node for a model that has none."""
    targets = project_files.plan(facts.fleet, facts.out).targets
    for found in capabilities.find_toolless(facts.fleet, facts.known, targets):
        yield Check("tools", Health.WRONG, found.finding, found.remedy)


def first_prompt(facts: Facts) -> Iterator[Check]:
    """Whether the first prompt of Claude Code fits into the context of the model that holds its main conversation."""
    if "claude" not in project_files.plan(facts.fleet, facts.out).targets:
        return
    model = defaults(facts.fleet).heavy
    if max_input_tokens(model.context) < FIRST_PROMPT_TOKENS:
        size = f"about {FIRST_PROMPT_TOKENS} tokens"
        finding = f"{model.name}: context {model.context} is too small for Claude Code's first prompt, {size}"
        remedy = f"set models.{model.name}.context to 32768, or: claude --tools Bash,Read,Edit,Write"
        yield Check("context", Health.WRONG, finding, remedy)


def context(facts: Facts) -> Iterator[Check]:
    for model in facts.fleet.models.values():
        found = nodes.find_model(facts.known.get(model.node, ()), model.served)
        limit = found.context if found else None
        if limit is not None and model.context > limit:
            finding = f"{model.name}: context {model.context} is more than the {limit} that {model.served} was made for"
            yield Check("context", Health.WRONG, finding, f"set models.{model.name}.context to {limit}")


def loaded_context(facts: Facts) -> Iterator[Check]:
    """Only the gateway sends a context, and only to Ollama: else the server's own setting is the one that counts."""
    for model in facts.fleet.models.values():
        node = facts.fleet.node_of(model)
        loaded = facts.surveys[node.name].loaded or ()
        held = next((one.context for one in loaded if nodes.same_name(one.name, model.served)), None)
        sent = node.kind is Kind.OLLAMA and not facts.fleet.is_direct
        if held is not None and held < model.context and not sent:
            finding = f"{model.name}: {model.served} is in memory with a context of {held}, and not {model.context}"
            setting = f"OLLAMA_CONTEXT_LENGTH={model.context} ollama serve" if node.kind is Kind.OLLAMA else (
                f"start the server on {node.name} with a context of {model.context}"
            )  # fmt: skip
            yield Check("context", Health.WRONG, finding, f"{setting}, or set models.{model.name}.context to {held}")


def fit(facts: Facts) -> Iterator[Check]:
    """Whether the models of a node fit into its memory together."""
    for node in facts.fleet.nodes.values():
        sizes = _sizes(facts, node)
        if len(sizes) < 2:
            continue
        room = node.memory_gb * 1e9 if node.memory_gb else (machine.memory_bytes() if node.is_local else None)
        if room is None:
            finding = f"whether the {len(sizes)} models of {node.name} fit together is unknown"
            yield Check("memory", Health.UNKNOWN, finding, f"set nodes.{node.name}.memory_gb in fleet.yaml")
            continue
        need = sum(sizes.values()) * OVERHEAD
        words = f"{' and '.join(sizes)} need about {need / 1e9:.1f} GB together; {node.name} has {room / 1e9:.1f} GB"
        if need > room:
            yield Check("memory", Health.WRONG, words, "give one of them to another node, or choose a smaller one")
        else:
            yield Check("memory", Health.OK, words)


def _sizes(facts: Facts, node: Node) -> dict[str, int]:
    """The size on disk of each different model that the node should hold."""
    known = facts.surveys[node.name].models or ()
    return {
        found.name: found.bytes
        for found in known
        for model in facts.fleet.models_on(node)
        if nodes.same_name(found.name, model.served) and found.bytes is not None
    }


def generated(facts: Facts) -> Iterator[Check]:
    stale = project_files.plan(facts.fleet, facts.out).stale
    if stale:
        named = ", ".join(f"{step.path} ({step.change})" for step in stale[:5])
        more = f" and {len(stale) - 5} more" if len(stale) > 5 else ""
        blocked = any(step.change.blocks for step in stale)
        remedy = "fleet generate --diff, then fleet generate --force" if blocked else "fleet generate"
        yield Check("files", Health.WRONG, f"not up to date: {named}{more}", remedy)
    else:
        yield Check("files", Health.OK, "generated files are up to date")


def agents(facts: Facts) -> Iterator[Check]:
    targets = project_files.plan(facts.fleet, facts.out).targets
    for target in targets:
        name, remedy = PROGRAMS[target]
        found = machine.program(name)
        if found:
            yield Check("agent CLI", Health.OK, f"{name} is {found}")
        else:
            yield Check("agent CLI", Health.WRONG, f"{name} is not installed, and files are generated for it", remedy)


CHECKS: Sequence[Callable[[Facts], Iterator[Check]]] = (
    litellm, key, secrets, reach, exposed, reachable, present, tools, context, loaded_context, first_prompt, fit,
    generated, agents, agent_answers,
)  # fmt: skip
