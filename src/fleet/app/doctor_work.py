"""What doctor looks at in the work plane: the installation, the home, the database, programs and the supervisor."""

from __future__ import annotations

import json
import os
import stat
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path

import fleet
from fleet import coders, keeper
from fleet.app import legacy
from fleet.app.dependencies import check_dependencies
from fleet.app.doctor import PROGRAMS, Check, Health, first_problem, guarded
from fleet.app.home import FOLDERS, RECORD, SETTINGS, home_fault
from fleet.coders.known import declared, find_coder
from fleet.coders.logins import LOGINS
from fleet.config import runtime
from fleet.config.runtime import Runtime
from fleet.config.runtime_schema import BUILT_IN, FenceMode, TrackerName
from fleet.core import BadConfig, FleetError
from fleet.core.text import clean
from fleet.host import database, files, locks, machine, process, tmux
from fleet.host.program import ask_version, version_in
from fleet.host.run import Ran, run
from fleet.supervisor.admit import short_of_disk
from fleet.supervisor.choice import LOCK
from fleet.supervisor.environment import agent_environment
from fleet.supervisor.identity import SET_IDENTITY, UNKNOWN
from fleet.supervisor.login import listed, login_variables, own_login, passed_on

OLDEST_GIT = (2, 38)  # the first that merges without a working tree
DEFAULT_CODER_TIMEOUT_S = 10.0
OTHER_CODER_TIMEOUT_S = 0.7  # nothing depends on their answers, and nobody wants to wait for them
GIT_TIMEOUT_S = 5.0
QUICK_CHECK_BYTES = 32 * 1024**2  # of a larger database only the beginning is read
LOG_BYTES = 256 * 1024
MAX_WORDS = 300
NO_IDENTITY = 128  # git's exit code
STARTED, ENDED, FAILED = "supervisor started", "supervisor ended", "supervisor failed"


@dataclass(frozen=True, slots=True)
class Facts:
    home: Path
    runtime: Runtime
    cwd: Path


def check_work(cwd: Path) -> Iterator[Check]:
    home = files.home().absolute()
    settings, found = _settings(home / SETTINGS)
    facts = Facts(home, settings, cwd)
    yield from guarded("fleet", installation)
    yield found
    for name, check in CHECKS.items():
        yield from guarded(name, partial(check, facts))


def _settings(path: Path) -> tuple[Runtime, Check]:
    """The settings in force. Of a broken file it is said what is wrong, and all else goes by the defaults."""
    try:
        found = runtime.read(path)
    except BadConfig as problem:
        return runtime.salvage(path), Check("settings", Health.WRONG, first_problem(problem), "fleet config edit")
    said = f"{path} is valid" if path.exists() else f"there is no {path} yet, so all is as by default"
    return found, Check("settings", Health.OK, said)


def installation() -> Iterator[Check]:
    python = ".".join(map(str, sys.version_info[:3]))
    where = Path(fleet.__file__).parent
    yield Check("fleet", Health.OK, f"fleet {fleet.__version__} on Python {python}, from {where}")
    found = check_dependencies()
    if found is None:
        yield Check("dependencies", Health.UNKNOWN, "no installed package says which versions fleet needs")
        return
    for fault in found.faults:
        yield Check("dependencies", Health.WRONG, str(fault), found.repair)
    if not found.faults:
        count, engine = len(found.installed), found.installed.get("dbos")
        finding = f"all {count} are in the ranges known to work; the engine is dbos {engine}"
        yield Check("dependencies", Health.OK, finding)


def home_directory(facts: Facts) -> Iterator[Check]:
    home = facts.home
    fault = home_fault(home)
    if fault:
        yield Check("home", Health.WRONG, fault, f"ls -ld {home}; df -h {home.parent}  # or: export FLEET_HOME=…")
    elif not home.exists():
        yield Check("home", Health.NOTE, f"{home} is not there yet; the first command that needs it makes it")
    else:
        yield Check("home", Health.OK, f"{home} can be written")
        yield from _permissions(home)


def _permissions(home: Path) -> Iterator[Check]:
    """What other users of this machine could read or enter."""
    secret = (home / "secrets").glob("*") if (home / "secrets").is_dir() else ()
    own = [home, *(home / name for name in (*FOLDERS, "secrets")), home / SETTINGS, database.path(home), *secret]
    for path in filter(os.path.exists, own):
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & 0o077:
            remedy = f"chmod {'700' if path.is_dir() else '600'} {path}"
            yield Check("home", Health.WRONG, f"{path} is open to others (mode {mode:o})", remedy)


def disk(facts: Facts) -> Iterator[Check]:
    at = next(path for path in (facts.home, *facts.home.parents) if path.is_dir())
    free, total = machine.disk(at)
    short = short_of_disk(free, total, facts.runtime.min_free_disk)
    if short:
        remedy = f"make room on the disk of {at}, or allow less: fleet config set min_free_disk=100MB"
        yield Check("disk", Health.WRONG, f"nothing starts: {short}", remedy)
    else:
        yield Check("disk", Health.OK, f"{free / 1e9:.1f} GB free for {at}")


def fleet_database(facts: Facts) -> Iterator[Check]:
    file = database.path(facts.home)
    if not file.exists():
        yield Check("database", Health.OK, f"there is no {file} yet; the first task makes it")
        return
    try:
        with database.reading(file) as db:
            looked = "quick_check(1)" if files.size(file) <= QUICK_CHECK_BYTES else "schema_version"
            said = str(db.execute(f"PRAGMA {looked}").fetchone()[0])
        with database.changing(file):
            pass  # to be allowed to is what is asked
    except FleetError as problem:
        yield Check("database", Health.WRONG, problem.message, problem.hint)
        return
    if said != "ok" and not said.isdigit():
        yield Check("database", Health.WRONG, f"{file} is damaged: {said}", f"put it aside: mv {file} {file}.damaged")
    else:
        yield Check("database", Health.OK, f"{file} is whole and can be written")


def cache_directory(facts: Facts) -> Iterator[Check]:
    at = files.cache().absolute()
    why = files.why_not_writable(at)
    if why:
        finding = f"{at} cannot be written: {why}; the gateway is installed there"
        yield Check("cache", Health.WRONG, finding, f"ls -ld {at}  # or: export XDG_CACHE_HOME=/another/directory")
    else:
        yield Check("cache", Health.OK, f"{at} can be written")


def supervisor(facts: Facts) -> Iterator[Check]:
    lock = facts.home / LOCK
    who = _recorded(facts.home)
    if not locks.held(lock):
        yield _ended(facts.home) if who is not None else _nobody()
        return
    holders = locks.holders(lock) or ([who] if who else [])  # where /proc does not tell, its record does
    running = next((pid for pid in holders if pid == who or _supervises(pid)), None)
    if running is not None and process.is_stopped(running):
        finding = f"process {running} was stopped by a signal, and does nothing"
        yield Check("supervisor", Health.WRONG, finding, f"kill -CONT {running}")
    elif running is not None:
        yield Check("supervisor", Health.OK, f"it runs: process {running}")
    elif holders:
        command = clean(" ".join(process.arguments(holders[0])), 100)
        finding = f"{lock} is held by process {holders[0]} ({command}), which is no supervisor: none can start"
        yield Check("supervisor", Health.WRONG, finding, f"kill {holders[0]}")
    else:
        yield Check("supervisor", Health.UNKNOWN, f"{lock} is held; by whom cannot be seen", f"fuser -v {lock}")


def _nobody() -> Check:
    return Check("supervisor", Health.OK, "none is running; to start one: fleet run")


def _recorded(home: Path) -> int | None:
    """The process of the last supervisor, by its record; 0 when that does not say; None when there is none."""
    try:
        content = files.read(home / RECORD)
        return None if content is None else int(json.loads(content)["pid"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0


def _supervises(pid: int) -> bool:
    words = process.arguments(pid)
    return "run" in words and any(os.path.basename(word) in ("fleet", "flt", "subagent-fleet") for word in words)


def _ended(home: Path) -> Check:
    """How the last supervisor ended, by the end of its log."""
    last = _last_record(home)
    if last is None or last["event"] == ENDED:
        return _nobody()
    when = f"{datetime.fromtimestamp(float(str(last['at']))):%Y-%m-%d %H:%M:%S}"
    if last["event"] == FAILED:
        finding = f"the last one failed at {when}: {last.get('text')}"
    else:
        finding = f"the last one, process {last.get('pid')}, was killed or crashed; it had started at {when}"
        finding += _last_words(home, since=float(str(last["at"])))
    return Check("supervisor", Health.WRONG, finding, "fleet run  # its agents live on, and it goes on with them")


def _last_record(home: Path) -> dict[str, object] | None:
    """The last line of the log that says how it stands with a supervisor."""
    for path in sorted((home / "logging").glob("fleet-*.jsonl"), reverse=True)[:2]:
        for line in reversed((files.read_end(path, LOG_BYTES) or b"").splitlines()):
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if isinstance(record, dict) and record.get("event") in (STARTED, ENDED, FAILED):
                return record
    return None


def _last_words(home: Path, since: float) -> str:
    """What a supervisor in the background printed last: of a crash, the error."""
    path = home / "logging" / "supervisor.out"
    if not path.is_file() or path.stat().st_mtime < since:
        return ""
    said = (files.read_end(path, LOG_BYTES) or b"").decode(errors="replace").split("\n")
    return next((f"; it said: {clean(line, MAX_WORDS)}" for line in reversed(said) if line.strip()), "")


def git(facts: Facts) -> Iterator[Check]:
    try:
        said = run(["git", "--version"], cwd=Path("/"), env=os.environ, timeout=GIT_TIMEOUT_S)
    except FleetError:
        yield Check("git", Health.WRONG, "git is not installed", "apt install git, or brew install git")
        return
    version = version_in(said) or ""
    if _numbers(version) < OLDEST_GIT:
        oldest = ".".join(map(str, OLDEST_GIT))
        finding = f"git is {version or 'of an unknown version'}, and {oldest} is the oldest that will do"
        yield Check("git", Health.WRONG, finding, "apt install git, or brew install git")
    else:
        yield Check("git", Health.OK, f"git is {version}")
    yield from _identity(facts)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())


def _identity(facts: Facts) -> Iterator[Check]:
    """Who commits in this directory: the user whom git knows, and not whom it would make up."""
    env = {**os.environ, "LC_ALL": "C"}
    argv = [*machine.GIT, str(facts.cwd), "-c", "user.useConfigOnly=true", "var", "GIT_COMMITTER_IDENT"]
    said = run(argv, cwd=facts.cwd, env=env, timeout=GIT_TIMEOUT_S)
    if said.code == 0:
        yield Check("git", Health.OK, f"commits are by {said.out.decode(errors='replace').rpartition('>')[0]}>")
    elif said.code == NO_IDENTITY:
        yield Check("git", Health.NOTE, UNKNOWN, SET_IDENTITY)
    else:
        yield Check("git", Health.UNKNOWN, f"by whom commits are cannot be told: {clean(said.said, MAX_WORDS)}")


def _environment(facts: Facts, coder: str) -> dict[str, str]:
    """The environment that an agent of this coder gets, but for what is told of its attempt."""
    part = facts.runtime.coders.get(coder)
    return agent_environment(os.environ, part.pass_env if part else (), part.env if part else {}, {})


def terminals(facts: Facts) -> Iterator[Check]:
    """Only agents in terminals need it."""
    found = tmux.version()
    if found is None:
        finding = "tmux is not installed: no agent can work in a terminal (fleet create)"
        yield Check("tmux", Health.NOTE, finding, tmux.INSTALL)
    elif tmux.is_too_old(found):
        yield Check("tmux", Health.WRONG, f"tmux is {found}, and 3.0 is the oldest that will do", tmux.INSTALL)
    else:
        yield Check("tmux", Health.OK, f"tmux is {found}")


def beads(facts: Facts) -> Iterator[Check]:
    if facts.runtime.tracker is TrackerName.BEADS:
        from fleet.tracker.beads import GET_BD

        at = machine.program("bd")
        finding = f"bd is {at}" if at else "bd (beads) is not installed, and the settings keep tasks in it"
        yield Check("beads", Health.OK if at else Health.WRONG, finding, None if at else GET_BD)


def unread(facts: Facts) -> Iterator[Check]:
    """What programs that came before fleet left here, and nothing reads."""
    for found in (legacy.unread(facts.cwd), legacy.unread_queue(facts.home)):
        if found:
            yield Check("unread", Health.NOTE, found.finding, found.remedy)


def agent_clis(facts: Facts) -> Iterator[Check]:
    """The agent CLIs that are here, each asked for its version and its login; the default one must be."""
    default = facts.runtime.coder
    programs = _programs(facts)
    there = {name: at for name, program in programs.items() if (at := machine.program(program))}
    said = _versions(there, default)
    for name in sorted(there, key=lambda one: (one != default, one)):
        yield _answered(name, there[name], said[name], is_default=name == default)
        yield from _login(facts, name)
    if default not in there and default in programs:
        yield _missing(default, there)
    for name in declared(facts.runtime):
        if name not in there and name != default:
            finding = f"{name}: its program {programs.get(name)} is not installed"
            yield Check("coder", Health.NOTE, finding, "fleet config edit")


def _programs(facts: Facts) -> dict[str, str]:
    """The program of each coder that is not our own demonstration; one that cannot be loaded is named elsewhere."""
    names = {facts.runtime.coder, *BUILT_IN, *declared(facts.runtime), *coders.installed()} - {"demonstration"}
    found = {}
    for name in names:
        try:
            found[name] = find_coder(name, facts.runtime).program
        except FleetError:
            continue
    return found


def _versions(there: Mapping[str, str], default: str) -> dict[str, Ran | None]:
    """What each says of its version, all asked at once; of those that fleet knows, and of the default one."""

    def ask(name: str) -> Ran | None:
        if name not in BUILT_IN and name != default:
            return None
        timeout = DEFAULT_CODER_TIMEOUT_S if name == default else OTHER_CODER_TIMEOUT_S
        return ask_version(there[name], Path(scratch) / name, timeout)

    with (
        tempfile.TemporaryDirectory(prefix="fleet-doctor-", ignore_cleanup_errors=True) as scratch,
        ThreadPoolExecutor(len(there) or 1) as pool,
    ):
        return dict(zip(there, pool.map(ask, there), strict=True))


def _answered(name: str, at: str, said: Ran | None, *, is_default: bool) -> Check:
    which = f"{name} is {at}" + (", the default coder" if is_default else "")
    if said is None:
        return Check("coder", Health.OK, which)
    if said.timed_out and not is_default:
        return Check("coder", Health.OK, f"{which}; its version was not waited for")
    if said.timed_out or said.code != 0:
        why = "no answer" if said.timed_out else clean(said.said, MAX_WORDS) or f"exit {said.code}"
        health = Health.WRONG if is_default else Health.NOTE
        return Check("coder", health, f"{which}; `{name} --version` fails: {why}", _install(name))
    return Check("coder", Health.OK, f"{which}, version {version_in(said) or 'unknown'}")


def _missing(default: str, there: Iterable[str]) -> Check:
    others = sorted(set(there) & set(BUILT_IN))
    if others:
        finding = f"{default}, the default coder, is not installed; {', '.join(others)} can be used"
        return Check("coder", Health.WRONG, finding, f"{_install(default)}  # or: fleet config set coder={others[0]}")
    finding = f"no agent CLI is installed, and {default} is the default coder"
    return Check("coder", Health.WRONG, finding, _install(default))


def _install(name: str) -> str:
    return PROGRAMS[name][1] if name in PROGRAMS else f"install {name}, or: fleet config edit"


def _login(facts: Facts, name: str) -> Iterator[Check]:
    """Whether there is a login, as far as a look tells: nobody is asked whether it is still good."""
    known, part = LOGINS.get(name), facts.runtime.coders.get(name)
    given = part.env if part else {}
    found = passed_on(name, part, os.environ, given)
    yield from (Check("login", Health.NOTE, warning, "fleet config edit") for warning in found.warnings)
    if known is None:
        return
    env = agent_environment(os.environ, found.names, given, {})
    own = own_login(known, env)
    keys = [key for access in known.access for key in access.keys if env.get(key)]
    if found.note or own or keys:
        said = found.note or f"{name}: " + (f"its login is in {own}" if own else f"it is given {listed(keys)}")
        yield Check("login", Health.OK, f"{said}; whether that is still good is not asked")
        return
    kept_back = login_variables(known, os.environ, ())
    if kept_back:
        finding = f"{name}: {listed(kept_back)} is set here, and its agents do not get it"
        yield Check("login", Health.UNKNOWN, finding, f"fleet config set coders.{name}.pass_login=true")
    else:
        finding = f"{name}: no login of its own is seen; whether it is logged in is unknown"
        yield Check("login", Health.UNKNOWN, finding, known.command)


def fence(facts: Facts) -> Iterator[Check]:
    mode = facts.runtime.fence
    if mode is FenceMode.OFF:
        yield Check("fence", Health.NOTE, "agents are not kept from fleet's own files", "fleet config set fence=auto")
        return
    why = keeper.fence_fault(facts.home)
    if why is None:
        yield Check("fence", Health.OK, f"agents are kept from {facts.home}")
    elif mode is FenceMode.REQUIRE:
        finding = f"no agent can start: it must be fenced, and cannot be here: {why}"
        yield Check("fence", Health.WRONG, finding, "fleet config set fence=auto")
    else:
        yield Check("fence", Health.NOTE, f"agents are not kept from fleet's own files, which takes: {why}")


CHECKS: Mapping[str, Callable[[Facts], Iterator[Check]]] = {
    "home": home_directory, "disk": disk, "database": fleet_database, "cache": cache_directory,
    "supervisor": supervisor, "fence": fence, "git": git, "tmux": terminals, "beads": beads, "unread": unread,
    "coder": agent_clis,
}  # fmt: skip
