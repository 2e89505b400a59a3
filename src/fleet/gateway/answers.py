"""How the last request of an agent's kind to each model went: a small file of the project, written here alone."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from fleet.core.fleet import Fleet, Model
from fleet.gateway.run import Desk
from fleet.generate.litellm import own_name
from fleet.host import files, locks

PATH = f"{files.OWN}/answers.json"
LOCK_PATIENCE_S = 5.0


@dataclass(frozen=True, slots=True)
class Answer:
    at: float
    seconds: float
    ok: bool
    reason: str = ""  # why not


READ = msgspec.json.Decoder(dict[str, Answer])


def recall(fleet: Fleet, out: Path) -> dict[str, Answer]:
    """By the name of the model; nothing of one that is another now, stands elsewhere or has another context."""
    kept = _read(out)
    marks = {name: _mark(fleet, model) for name, model in fleet.models.items()}
    return {name: kept[mark] for name, mark in marks.items() if mark in kept}


def keep(fleet: Fleet, out: Path, found: Mapping[str, Answer]) -> None:
    """Write down what was found, by the name of the model; models that fleet.yaml no longer has are left out."""
    if not found:
        return
    lock = locks.take(Desk(out).answers_lock, LOCK_PATIENCE_S)
    if lock is None:
        return  # whoever writes there now has asked, too
    try:
        both = recall(fleet, out) | dict(found)
        content = msgspec.json.encode({_mark(fleet, fleet.models[name]): answer for name, answer in both.items()})
        with suppress(OSError):  # nobody depends on it: where nothing can be written, it is asked again
            files.own_dir(out)
            files.write(out / PATH, msgspec.json.format(content) + b"\n", files.PRIVATE)
    finally:
        locks.release(lock)


def _read(out: Path) -> dict[str, Answer]:
    try:
        return READ.decode(files.read(out / PATH) or b"{}")
    except (OSError, msgspec.MsgspecError):
        return {}


def _mark(fleet: Fleet, model: Model) -> str:
    """Everything that another answer could depend on."""
    way = "direct" if fleet.is_direct else own_name(model)
    return f"{way} {model.served} {fleet.node_of(model).endpoint} {model.context}"
