"""The published evaluation sets by name: how many items, how they are scored, how many rollouts."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from vlagent.data.manifest import load_manifest
from vlagent.errors import UserError
from vlagent.types import Record


class Suite(Record):
    """One published set."""

    items: int
    metric: Literal["judge", "option"]
    k: int = 1
    """Rollouts a question; Avg@k."""
    entries: tuple[str, ...] = ()
    """Names of its entry in released manifests, besides its own."""


SUITES: dict[str, Suite] = {
    "mmsearch": Suite(items=171, metric="judge", entries=("mmsearch_end2end_only_image",)),
    "hr_mmsearch": Suite(items=305, metric="judge"),
    "fvqa_test": Suite(items=1800, metric="judge"),
    "infoseek": Suite(items=2000, metric="judge"),
    "simplevqa": Suite(items=1013, metric="judge", entries=("simplevqa_en",)),
    "livevqa": Suite(items=3602, metric="judge", entries=("livevqa_research_preview",)),
    "mat_search": Suite(items=150, metric="judge"),
    "vstar": Suite(items=191, metric="option", k=8, entries=("vstar_bench",)),
    "hrbench_4k": Suite(items=800, metric="option", k=8, entries=("hr_bench_4k",)),
    "hrbench_8k": Suite(items=800, metric="option", k=8, entries=("hr_bench_8k",)),
    "mme_realworld": Suite(items=23599, metric="option"),
}


def resolve(target: str, data: Path | None) -> str:
    """What `load_samples` takes: a suite's name becomes its entry in DATA/manifest.json, anything else stays."""
    if target not in SUITES:
        if not Path(target.partition(":")[0]).exists():
            raise UserError(f"{target}: neither a file nor a suite; suites are {', '.join(SUITES)}")
        return target
    if data is None:
        raise UserError(f"{target}: where is its data? pass --data DIR with a manifest.json, or set VLAGENT_DATA")
    path = data / "manifest.json" if data.is_dir() else data
    known = load_manifest(path).entries
    name = next((name for name in (target, *SUITES[target].entries) if name in known), None)
    if name is None:
        raise UserError(f"{path}: no entry for suite {target!r}; there are {', '.join(known)}")
    return f"{path}:{name}"


def suite_of(source: str) -> Suite | None:
    """The published set that a data set's name stands for."""
    return next((suite for name, suite in SUITES.items() if source in (name, *suite.entries)), None)


def rollouts_of(target: str) -> int:
    """The published number of rollouts of a suite; 1 for anything else."""
    return SUITES[target].k if target in SUITES else 1
