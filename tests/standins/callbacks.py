"""What LiteLLM loads of fleet, loaded as it does, with a bare stand-in for the one class that is taken from there."""

from __future__ import annotations

import sys
import types
from importlib import util
from pathlib import Path
from typing import Any

import fleet.gateway

HERE = Path(fleet.gateway.__file__).parent / "callback"


def load(name: str) -> Any:
    base = types.ModuleType("litellm.integrations.custom_logger")
    base.CustomLogger = type("CustomLogger", (), {})  # type: ignore[attr-defined]
    names = {"litellm": types.ModuleType("litellm"), "litellm.integrations": types.ModuleType("x"), base.__name__: base}
    before = {name: sys.modules.get(name) for name in names}
    sys.modules.update(names)
    spec = util.spec_from_file_location(name, HERE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    finally:
        for one, old in before.items():
            sys.modules.pop(one) if old is None else sys.modules.__setitem__(one, old)
    return module
