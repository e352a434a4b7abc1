"""A pytest plugin that puts a fault of `accept.mutants` in, to see that the tests notice (VLAGENT_MUTANT=NAME)."""

from __future__ import annotations

import os


def pytest_configure() -> None:
    """Break it, where the environment asks for that."""
    name = os.environ.get("VLAGENT_MUTANT")
    if name:
        from accept.mutants import MUTANTS

        MUTANTS[name]()
