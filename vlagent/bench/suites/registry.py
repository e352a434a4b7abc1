"""The published evaluation sets by name, and where their files are in a user's data folder."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from vlagent.bench.suites import (
    fvqa,
    hr_mmsearch,
    hrbench,
    infoseek,
    livevqa,
    mat_search,
    mme_realworld,
    mmsearch,
    released,
    simplevqa,
    vstar,
)
from vlagent.bench.suites.base import Found, Hub, Layout, Suite
from vlagent.data.check import RowSet, row_sets
from vlagent.data.manifest import Warn, load_manifest, load_samples
from vlagent.data.rows import with_unique_ids
from vlagent.errors import UserError
from vlagent.types import Sample


def _hr_bench(name: str) -> Suite:
    """One of its two resolutions by its published name."""
    hub = Hub(repo="DreamMr/HR-Bench", files=(f"{name}.tsv",))
    return Suite(items=800, metric="option", k=8, entries=(name,), hub=hub)


SUITES: dict[str, Suite] = {
    "mmsearch": Suite(
        items=171,
        metric="judge",
        entries=("mmsearch_end2end_only_image",),
        hub=Hub(repo="CaraJ/MMSearch", config="end2end", split="end2end", target="end2end.parquet"),
    ),
    "hr_mmsearch": Suite(
        items=305,
        metric="judge",
        hub=Hub(repo="sensenova/HR-MMSearch", split="train", target="data/train-00000.parquet"),
    ),
    "fvqa_test": Suite(
        items=1800, metric="judge", hub=Hub(repo="lmms-lab/FVQA", split="test", target="fvqa_test.parquet")
    ),
    "infoseek": Suite(items=2000, metric="judge"),
    "simplevqa": Suite(
        items=1013,
        metric="judge",
        entries=("simplevqa_en",),
        hub=Hub(repo="m-a-p/SimpleVQA", split="test", target="data/test-00000.parquet"),
    ),
    "livevqa": Suite(
        items=3602,
        metric="judge",
        entries=("livevqa_research_preview",),
        hub=Hub(repo="ONE-Lab/LiveVQA-Research-Preview", files=("qa.json", "qa_detailed.json", "image/*")),
    ),
    "mat_search": Suite(
        items=150,
        metric="judge",
        hub=Hub(repo="laolao77/MAT", files=("MAT-Benchmark/MAT-Search.json", "MAT-Benchmark/MAT-Search-image/*")),
    ),
    "vstar": Suite(
        items=191,
        metric="option",
        k=8,
        entries=("vstar_bench",),
        hub=Hub(
            repo="craigwu/vstar_bench", files=("test_questions.jsonl", "direct_attributes/*", "relative_position/*")
        ),
    ),
    "hrbench_4k": _hr_bench("hr_bench_4k"),
    "hrbench_8k": _hr_bench("hr_bench_8k"),
    "mme_realworld": Suite(
        items=23599,
        metric="option",
        hub=Hub(repo="yifanzhang114/MME-RealWorld-Lmms-eval", split="train", target="data/train-00000.parquet"),
    ),
    "toy": Suite(items=None, metric="judge", entries=("toy_test",)),
}

RELEASED = Layout("released manifest", released.MANIFESTS, released.rows)
LAYOUTS: dict[str, tuple[Layout, ...]] = {
    "mmsearch": mmsearch.LAYOUTS,
    "hr_mmsearch": hr_mmsearch.LAYOUTS,
    "fvqa_test": fvqa.LAYOUTS,
    "infoseek": infoseek.LAYOUTS,
    "simplevqa": simplevqa.LAYOUTS,
    "livevqa": livevqa.LAYOUTS,
    "mat_search": mat_search.LAYOUTS,
    "vstar": vstar.LAYOUTS,
    "hrbench_4k": hrbench.layouts("4k"),
    "hrbench_8k": hrbench.layouts("8k"),
    "mme_realworld": mme_realworld.LAYOUTS,
    "toy": (),
}
"""Besides the released manifest, which every suite may come in."""


def names_in(target: str) -> list[str]:
    """The suites that a target `a,b` names; none where it names files."""
    names = [name.strip() for name in target.split(",") if name.strip()]
    known = [name for name in names if name in SUITES]
    if known and len(known) < len(names):
        wrong = next(name for name in names if name not in SUITES)
        raise UserError(f"{target}: {wrong!r} is no suite; suites are {', '.join(SUITES)}")
    return known


def resolve_suites(names: Sequence[str], data_dir: Path | None) -> list[Found]:
    """The files of each suite: its entry in a manifest of DATA, else the files in DATA/SUITE in a published layout.

    `data_dir` is a folder or a manifest. `UserError` says for the first suite without files what was looked for.
    """
    for name in names:
        if name not in SUITES:
            raise UserError(f"{name}: no such suite; suites are {', '.join(SUITES)}")
    if not names:
        return []
    if data_dir is None:
        raise UserError(f"{names[0]}: where is its data? pass --data DIR (see vlagent bench list), or set VLAGENT_DATA")
    if not data_dir.exists():
        raise UserError(f"{data_dir}: no such data folder; vlagent bench fetch {names[0]} {data_dir} makes it")
    return [_find(name, data_dir) for name in names]


def data_folder(given: str | None) -> Path | None:
    """The data folder (or manifest) that was named, else that of the environment (VLAGENT_DATA)."""
    name = given or os.environ.get("VLAGENT_DATA")
    return Path(name).expanduser() if name else None


def check_target(target: str, data_dir: Path | None) -> list[Found]:
    """The suites of a target with their files found, none where it names files itself. `UserError` for neither."""
    names = names_in(target)
    if not names and not Path(target).exists() and not Path(target.rpartition(":")[0] or target).exists():
        raise UserError(f"{target}: neither a file nor a suite; suites are {', '.join(SUITES)}")
    return resolve_suites(names, data_dir)


def load_target(
    target: str, data_dir: Path | None, *, seed: int = 0, limit: int | None = None, warn: Warn = warnings.warn
) -> list[Sample]:
    """The samples of a suite, of a list of suites (`a,b`), or of whatever `load_samples` takes."""
    found = check_target(target, data_dir)
    if not found:
        return load_samples(target, seed=seed, limit=limit, warn=warn)
    return with_unique_ids([sample for each in found for sample in each.load(seed=seed, limit=limit, warn=warn)])


def sets_to_check(target: str, data_dir: Path | None) -> list[RowSet]:
    """The rows of suites, or of whatever `load_samples` takes, with what is known of them."""
    found = check_target(target, data_dir)
    if not found:
        return row_sets(target)
    suites = {each.suite: SUITES[each.suite] for each in found}
    return [
        replace(each.row_set(suites[each.suite].items), options=suites[each.suite].metric == "option") for each in found
    ]


def _find(name: str, data: Path) -> Found:
    manifests = [data] if data.is_file() else [data / file for file in released.MANIFESTS if (data / file).is_file()]
    aliases = (name, *SUITES[name].entries)
    entries: dict[str, None] = {}
    for path in manifests:
        known = load_manifest(path).entries
        entry = next((alias for alias in aliases if alias in known), None)
        if entry is not None:
            return Found(name, path, entry=entry)
        entries |= dict.fromkeys(known)
    for folder in _folders(data, aliases):
        for layout in LAYOUTS[name]:
            for pattern in layout.files:
                files = sorted(folder.glob(pattern))
                if files:
                    return Found(name, files[0], layout)
    raise UserError(_nothing(name, data, list(entries)))


def _folders(data: Path, aliases: Sequence[str]) -> Iterator[Path]:
    """DATA/SUITE by any of its names, and DATA itself where it bears one."""
    wanted = {_plain(alias) for alias in aliases}
    if not data.is_dir():
        return
    if _plain(data.resolve().name) in wanted:
        yield data
    yield from sorted(each for each in data.iterdir() if each.is_dir() and _plain(each.name) in wanted)


def _plain(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())


def _nothing(name: str, data: Path, entries: Sequence[str]) -> str:
    if data.is_file():
        return f"{data}: no entry for suite {name!r}; there are {', '.join(entries)}"
    files = ", ".join(layout.files[0] for layout in LAYOUTS[name])
    there = f" (the manifest has {', '.join(entries)})" if entries else ""
    where = f"{files} in {data / name}" if files else "a toy world (vlagent toy DIR)"
    return f"{data}: no entry for suite {name!r}{there} in a manifest, nor {where}"


def suite_of(source: str) -> Suite | None:
    """The published set that a data set's name stands for."""
    return next((suite for name, suite in SUITES.items() if source in (name, *suite.entries)), None)


def check_counts(samples: Sequence[Sample]) -> list[str]:
    """One line for each published set that is not whole: its score is not the published one."""
    found: dict[str, int] = {}
    for sample in samples:
        found[sample.source] = found.get(sample.source, 0) + 1
    wanted = {name: suite.items for name in found if (suite := suite_of(name)) is not None and suite.items is not None}
    return [
        f"{name}: {found[name]} questions, the published set has {items}"
        for name, items in wanted.items()
        if found[name] != items
    ]
