"""Starting, stopping and looking at the gateway of one project."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import urlsplit

from fleet.core import FleetError, NotFound
from fleet.core.fleet import Fleet
from fleet.core.text import clean
from fleet.gateway import environment, keys, served
from fleet.generate import gateway_file, litellm, write
from fleet.generate.yaml import dump
from fleet.host import files, locks, machine, process
from fleet.host.http import Cause, Unanswered

UP = "fleet gateway up"
START_SECONDS = 180.0
JOIN_SECONDS = 90.0  # since its start, until a gateway that somebody else started counts as stuck
PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE")
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")


@dataclass(frozen=True, slots=True)
class Record:
    """What a start wrote down. It is true for exactly as long as the lock beside it is held."""

    pid: int
    url: str
    config: str
    digest: str
    litellm: str
    started: float


@dataclass(frozen=True, slots=True)
class Status:
    running: bool
    url: str
    pid: int | None = None
    litellm: str | None = None
    started: float | None = None
    log: str | None = None
    answers: bool | None = None
    aliases: tuple[str, ...] | None = None
    stale: bool | None = None
    reason: str | None = None
    was_up: bool = False  # it does not run, and did once
    is_port_taken: bool = False  # by something that is no gateway of this project
    deployments: tuple[served.Deployment, ...] = ()
    remedy: str | None = None  # of a stale one


class Desk:
    """Where the gateway of one project directory keeps its lock, its record and its log."""

    def __init__(self, out: Path | None, mark: str = "") -> None:
        mark = mark if out is None else hashlib.sha256(os.fsencode(out.resolve())).hexdigest()[:12]
        self.lock = files.home() / "gateway" / f"{mark}.lock"
        self.record = self.lock.with_suffix(".json")
        self.config = self.lock.with_suffix(".yaml")
        self.answers_lock = self.lock.with_suffix(".answers.lock")
        self.records = self.lock.with_suffix("")  # the beginning of the names of what evidence.requests reads
        self.log = files.home() / "logging" / f"gateway-{mark}.log"

    def is_free(self) -> bool:
        return not locks.held(self.lock)

    def read(self) -> Record | None:
        """The record of the running gateway; None when none runs."""
        if self.is_free():
            return None
        try:
            return Record(**json.loads(files.read(self.record) or b""))
        except (ValueError, TypeError):
            return None


def up(fleet: Fleet, out: Path, say: Callable[[str], None]) -> Status:
    """Start LiteLLM and wait until it serves every alias. When it is being started already, wait for that one."""
    desk = Desk(out)
    config = _fresh_config(fleet, out)
    key = keys.strong(fleet, out)
    if other := keys.other_key(fleet, out):
        say(other)
    program = environment.ensure(say)
    files.private_dir(files.home())
    lock = locks.take(desk.lock)
    if lock is None:
        return _join(fleet, out, key, say)
    try:
        _refuse_taken_port(fleet, key)
        started = _start(fleet, desk, program, config, key, lock)
    finally:
        locks.release(lock)
    say(f"starting LiteLLM {environment.version()} on {fleet.gateway.url}; log: {desk.log}")
    try:
        _wait(fleet, desk, key, lambda: process.ended(started, within=0) is not None)
    except BaseException:
        process.end(started.pid, desk.is_free)
        raise
    return status(fleet, out)


def _start(fleet: Fleet, desk: Desk, program: Path, config: Path, key: str, lock: int) -> process.Child:
    """Start it and write down which process it is, while we still hold the lock that it inherits."""
    files.private_dir(desk.log.parent)
    desk.record.unlink(missing_ok=True)  # until there is a new one, nobody may take the last one for it
    files.write(desk.config, queueing(fleet), files.PRIVATE)
    argv = [str(program), "--config", str(desk.config), "--host", fleet.gateway.host, "--port", str(fleet.gateway.port)]
    desk.records.with_suffix(".flying.json").unlink(missing_ok=True)  # of a gateway that was killed
    environ = child_environment(fleet, key, os.environ) | {"FLEET_GATEWAY_RECORDS": str(desk.records)}
    started = process.detach(argv, environ, desk.log, lock)
    try:
        _write_record(desk, fleet, config, started.pid)
    except BaseException:
        started.kill()
        started.wait()
        raise
    return started


def _join(fleet: Fleet, out: Path, key: str, say: Callable[[str], None]) -> Status:
    """The gateway that runs already, once it serves; FleetError when it is stuck, or runs with an older file."""
    desk = Desk(out)
    record = desk.read()
    say(f"the gateway already runs (process {record.pid if record else 'unknown'})")
    restart = "fleet gateway down && fleet gateway up"
    if record and _changed_since(record):
        raise FleetError("it was started with an older litellm_config.yaml", hint=restart)
    began = record.started if record else time.time()
    patience = max(10.0, began + JOIN_SECONDS - time.time())
    _wait(fleet, desk, key, desk.is_free, min(JOIN_SECONDS, patience), restart)
    return status(fleet, out)


def _fresh_config(fleet: Fleet, out: Path) -> Path:
    (wanted,) = gateway_file(fleet)
    path = out / wanted.path
    found = files.read(path)
    if found is None:
        raise FleetError(f"there is no {path}", hint="fleet generate")
    if found != wanted.content:
        edited = is_edited(fleet, out)
        what = "was edited, or not written by fleet" if edited else "is not what fleet.yaml says now"
        look = "look at it with: fleet generate --diff; replace it with: "
        raise FleetError(f"{path} {what}", hint=f"{look}{_generate(edited)}" if edited else _generate(edited))
    return path


def is_edited(fleet: Fleet, out: Path) -> bool:
    """Whether somebody changed the gateway's file, so that only --force replaces it."""
    (step,) = write.plan(out, gateway_file(fleet), write.known(out), whole=False)
    return step.change.blocks


def renewal(fleet: Fleet, out: Path, pid: int | None) -> str:
    """What brings a gateway with an older file up to date: ours, or one that somebody started by hand."""
    restart = "fleet gateway down && fleet gateway up" if pid else "stop it, and start it again"
    return f"{_generate(is_edited(fleet, out))} && {restart}"


def _generate(edited: bool) -> str:
    return "fleet generate --force" if edited else "fleet generate"


def _refuse_taken_port(fleet: Fleet, key: str) -> None:
    problem = machine.why_not_listening(fleet.gateway.host, fleet.gateway.port)
    if problem and not isinstance(served.ask(fleet.gateway.url, key), Unanswered):
        raise FleetError(
            f"a LiteLLM that fleet did not start answers on {fleet.gateway.url}, with this project's key",
            hint="use it as it is (fleet status), or stop it, then: fleet gateway up",
        )
    if problem:
        raise FleetError(
            f"the gateway cannot listen on {fleet.gateway.host}:{fleet.gateway.port}: {problem}",
            hint="stop what listens there, or choose another gateway.port in fleet.yaml and run: fleet generate",
        )


def child_environment(fleet: Fleet, key: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Only what LiteLLM needs: its key, the keys of its nodes, and nothing that makes it call home."""
    needed = [node.api_key_env for node in fleet.nodes.values() if node.api_key_env]
    passed = {name: environ[name] for name in (*PASSED_ON, *PROXIES, *needed) if name in environ}
    ours = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_TELEMETRY": "False", "PYTHONUNBUFFERED": "1"}
    ours["PYTHONPATH"] = str(Path(__file__).parent / "callback")
    # A proxy for the outside world must not see what goes to your own machines.
    own = {
        "localhost",
        *(urlsplit(n.endpoint).hostname or "" for n in fleet.nodes.values() if not n.is_cloud),
    }
    given = [passed.get("NO_PROXY"), passed.get("no_proxy")]
    ours["NO_PROXY"] = ours["no_proxy"] = ",".join(filter(None, [*given, *sorted(own)]))
    # LiteLLM also looks for its key under its own name, whatever the file says.
    return passed | ours | {"LITELLM_MASTER_KEY": key, fleet.gateway.master_key_env: key}


def queueing(fleet: Fleet) -> bytes:
    """The generated configuration with our callbacks in it, which a LiteLLM started by hand would not find.

    The context comes first: the queue chooses among the nodes that have room for the prompt. The records come last:
    they say how long a request waited in the queue.
    """
    config = litellm.config(fleet)
    callbacks = ["fleet_context.context", "fleet_slots.slots", "fleet_requests.requests"]
    config["litellm_settings"] = {**config["litellm_settings"], "callbacks": callbacks}
    return dump(config).encode()


def _write_record(desk: Desk, fleet: Fleet, config: Path, pid: int) -> None:
    digest = hashlib.sha256(config.read_bytes()).hexdigest()
    record = Record(pid, fleet.gateway.url, str(config.resolve()), digest, environment.version(), time.time())
    files.write(desk.record, json.dumps(asdict(record)).encode(), files.PRIVATE)


def _wait(
    fleet: Fleet,
    desk: Desk,
    key: str,
    is_over: Callable[[], bool],
    seconds: float = START_SECONDS,
    hint: str | None = None,
) -> None:
    """Until it serves every alias; FleetError when it ends before that, or the time is up."""
    wanted = {model.alias for model in fleet.models.values()}
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = served.ask(fleet.gateway.url, key)
        if not isinstance(found, Unanswered) and wanted <= set(served.names(found)):
            return
        if hint and isinstance(found, Unanswered) and found.cause is Cause.UNAUTHORISED:
            raise FleetError("it does not accept this project's key", hint)
        if is_over():
            raise FleetError(f"LiteLLM ended before it answered:\n{tail(desk.log)}", hint)
        time.sleep(0.2)
    raise FleetError(f"LiteLLM did not answer within {seconds:.0f} s:\n{tail(desk.log)}", hint)


def tail(log: Path, lines: int = 8) -> str:
    """The end of the log, made safe to show."""
    last = log.read_bytes()[-8000:].decode(errors="replace").splitlines()[-lines:]
    return "\n".join(f"  {clean(line)}" for line in last)


def down(out: Path) -> int | None:
    """Stop the gateway and give the process number it had; None when none ran."""
    if not out.is_dir():
        raise NotFound(f"there is no directory {out}")
    return _down(Desk(out))


def running() -> list[str]:
    """The marks of all gateways of this home that run, whatever they were started for."""
    found = (lock.stem for lock in sorted((files.home() / "gateway").glob("*.lock")))
    return [mark for mark in found if not Desk(None, mark).is_free()]


def down_all() -> None:
    """Stop every gateway of this home."""
    for mark in running():
        _down(Desk(None, mark))


def _down(desk: Desk) -> int | None:
    record = desk.read()
    if record is None:
        if not desk.is_free():
            raise FleetError(f"a gateway holds {desk.lock} but its record is unreadable", hint="end it by hand")
        return None
    if not process.end(record.pid, desk.is_free):
        raise FleetError(f"process {record.pid} did not end", hint=f"kill -9 {record.pid}")
    return record.pid


def status(fleet: Fleet, out: Path) -> Status:
    desk = Desk(out)
    record = desk.read()
    key = keys.chosen(fleet, out)
    problem = Unanswered(Cause.NO_API_KEY, "this project has no key: fleet generate")
    found = served.ask(record.url if record else fleet.gateway.url, key) if key else problem
    if record is None:
        return _not_started_by_us(fleet, out, found, was_up=desk.record.exists())
    aliases = None if isinstance(found, Unanswered) else served.names(found)
    stale = gateway_file(fleet)[0].content != files.read(Path(record.config)) or _changed_since(record)
    return Status(
        True,
        record.url,
        record.pid,
        record.litellm,
        record.started,
        str(desk.log),
        answers=aliases is not None,
        aliases=aliases,
        stale=stale,
        remedy=renewal(fleet, out, record.pid) if stale else None,
        reason=_silence(found, time.time() - record.started) if isinstance(found, Unanswered) else None,
        deployments=() if isinstance(found, Unanswered) else found,
    )


def _not_started_by_us(
    fleet: Fleet, out: Path, found: tuple[served.Deployment, ...] | Unanswered, *, was_up: bool
) -> Status:
    """None runs, or a LiteLLM that somebody started by hand with the generated file."""
    url = fleet.gateway.url
    if not isinstance(found, Unanswered):
        names, stale = served.names(found), set(found) != set(served.wanted(fleet))
        reason = "fleet did not start it"
        remedy = renewal(fleet, out, None) if stale else None
        return Status(
            True, url, answers=True, aliases=names, stale=stale, reason=reason, remedy=remedy, deployments=found
        )
    if found.cause in (Cause.REFUSED, Cause.NO_API_KEY):
        return Status(False, url, reason=f"{'it is down' if was_up else 'not started'}: {UP}", was_up=was_up)
    if found.cause is Cause.UNAUTHORISED:
        reason = "not started, and what answers there does not accept this project's key"
    else:
        reason = f"not started, and what listens there is no LiteLLM ({found.cause})"
    return Status(False, url, reason=reason, was_up=was_up, is_port_taken=True)


def _silence(problem: Unanswered, age: float) -> str:
    """Why a running gateway gives no answer."""
    if problem.cause is Cause.UNAUTHORISED:
        return "it does not accept this project's key"
    if age < START_SECONDS and problem.cause is Cause.REFUSED:
        return f"it is starting, for {age:.0f} s now"
    return f"it runs but does not answer ({problem.cause}); restart it: fleet gateway down && fleet gateway up"


def _changed_since(record: Record) -> bool:
    content = files.read(Path(record.config))
    return content is None or hashlib.sha256(content).hexdigest() != record.digest
