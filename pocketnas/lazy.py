"""Packages that hand on names whose modules are imported when a name is first used (PEP 562).

So `import pocketnas` and `pocketnas --help` load neither torch nor Optuna.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazily(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """What a package takes for its `__getattr__`.

    Args:
        package: its `__name__`.
        modules: where each public name is, as a module's name within the package.
    """

    def find(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{modules[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return find
