"""Putting faults into the code under test."""

from __future__ import annotations

from types import ModuleType
from typing import Any


def put(module: ModuleType, **faults: Any) -> None:
    """Put `faults` in the place of what the module has by these names. One that has moved away would break nothing."""
    for name, fault in faults.items():
        assert hasattr(module, name), f"{module.__name__} has no {name} any more: break it where it is now"
        setattr(module, name, fault)
