"""What `pip install vlagent` has to bring: every package that the core imports, whatever pip's age."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions
from pathlib import Path

from vlagent.cli.doctor import modules_of

ROOT = Path(__file__).parents[1]
NOT_CORE = (
    "vlagent.__main__",
    "vlagent.model",
    "vlagent.train",
    "vlagent.cli.stage0",
    "vlagent.cli.sft",
    "vlagent.cli.plan",
    "vlagent.integrations",
    "vlagent.search.server",
    "vlagent.search.wiki",
    "vlagent.curate.bench.server",
)
OPTIONAL = {"click", "setuptools", "sniffio", "zstandard"}
"""Used where it happens to be there, as by httpx, httpcore and urllib3."""

LIST_IMPORTS = """
import importlib, pkgutil, sys, vlagent
for found in pkgutil.walk_packages(vlagent.__path__, "vlagent."):
    if not found.name.startswith(tuple(sys.argv[1].split(","))):
        importlib.import_module(found.name)
for name in sys.argv[2:]:
    importlib.import_module(name)
print(*{name.partition(".")[0] for name in sys.modules})
"""


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def brought_by(name: str, extras: frozenset[str], known: dict[str, frozenset[str]]) -> None:
    """Walk the requirements as an older pip does: an extra counts only where it is spelled as its owner spells it."""
    try:
        found = distribution(name)
    except PackageNotFoundError:
        return
    spelled = extras & set(found.metadata.get_all("Provides-Extra") or ())
    if plain(name) in known and spelled <= known[plain(name)]:
        return
    known[plain(name)] = known.get(plain(name), frozenset()) | spelled
    for line in found.requires or ():
        need, _, marker = line.partition(";")
        wanted = re.search(r"extra == ['\"]([^'\"]+)", marker)
        if wanted and wanted[1] not in spelled:
            continue
        head = re.match(r"([\w.-]+)\s*(?:\[([^]]*)\])?", need.strip())
        assert head
        inner = frozenset(part.strip() for part in (head[2] or "").split(",") if part.strip())
        brought_by(head[1], inner, known)


def test_every_package_that_the_core_imports_is_brought_by_its_requirements() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    direct = [match[0] for line in declared if (match := re.match(r"[\w.-]+", line))]
    brought: dict[str, frozenset[str]] = {}
    for name in direct:
        brought_by(name, frozenset(), brought)
    modules = [module for name in direct for module in modules_of(name)]
    ran = subprocess.run(
        [sys.executable, "-c", LIST_IMPORTS, ",".join(NOT_CORE), *modules], capture_output=True, text=True, check=True
    )
    owners = packages_distributions()
    imported = {plain(dist) for name in ran.stdout.split() for dist in owners.get(name, ())} - {"vlagent"}
    assert len(imported) > 20
    assert imported - set(brought) <= OPTIONAL
