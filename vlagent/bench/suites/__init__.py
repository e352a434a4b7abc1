"""The published evaluation sets: what each is, and one module for each published layout of its files."""

from vlagent.bench.suites.base import Found, Hub, Layout, Suite
from vlagent.bench.suites.registry import (
    SUITES,
    check_counts,
    check_target,
    data_folder,
    load_target,
    names_in,
    resolve_suites,
    sets_to_check,
    suite_of,
)

__all__ = [
    "SUITES",
    "Found",
    "Hub",
    "Layout",
    "Suite",
    "check_counts",
    "check_target",
    "data_folder",
    "load_target",
    "names_in",
    "resolve_suites",
    "sets_to_check",
    "suite_of",
]
