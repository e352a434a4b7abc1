"""The published sets that SenseNova-MARS (arXiv 2512.24330) is trained on: where they are, and how they get a manifest.

FOLDER/train.json          a manifest with an entry for each set that was fetched
FOLDER/<set>/...           the files as published, and fetched.json
"""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path
from typing import Any

from vlagent.data.fetch import Wanted, fetch
from vlagent.data.manifest import Entry, Manifest, common_rows, load_manifest
from vlagent.errors import UserError
from vlagent.files import read_json, write_json
from vlagent.types import Record

MANIFEST = "train.json"


class TrainingSet(Record):
    """One published set."""

    items: int | None
    """Rows that the paper speaks of; None where it names no number."""
    repo: str
    files: tuple[str, ...]
    """Globs of what is fetched."""
    rows: str
    """Glob of the file of rows."""
    licence: str
    """As its page states it; questions and pictures may come under others."""
    paper: str
    layout: str
    """The module that reads it, whose docstring names the source of the layout."""
    archives: tuple[str, ...] = ()
    """Unpacked after fetching."""


TRAINING_SETS: dict[str, TrainingSet] = {
    "fvqa_train": TrainingSet(
        items=4849,
        repo="lmms-lab/FVQA",
        files=("fvqa_train.parquet",),
        rows="fvqa_train.parquet",
        licence="apache-2.0",
        paper="arXiv 2506.20670",
        layout="vlagent.data.verl_rows",
    ),
    "pixel_reasoner": TrainingSet(
        items=7850,
        repo="TIGER-Lab/PixelReasoner-SFT-Data",
        files=("*.json", "*.jsonl", "images.zip"),
        rows="*.json*",
        licence="see its page",
        paper="arXiv 2505.15966",
        layout="vlagent.data.pixel_reasoner",
        archives=("images.zip",),
    ),
    "deepeyes_4k": TrainingSet(
        items=4000,
        repo="Mini-o3/DeepEyes_train_4K",
        files=("train.json", "data/*"),
        rows="train.json",
        licence="none stated; DeepEyes-Datasets-47k, which it is drawn from: apache-2.0",
        paper="arXiv 2505.14362",
        layout="vlagent.data.mini_o3",
    ),
    "visual_probe": TrainingSet(
        items=5729,
        repo="Mini-o3/VisualProbe_train",
        files=("train.json", "data/*"),
        rows="train.json",
        licence="see its page",
        paper="arXiv 2509.07969",
        layout="vlagent.data.mini_o3",
    ),
}
"""Names as in the released manifest, but for its split of DeepEyes-4K by the form of the answer."""


class FetchedSet(Record):
    """What came of one set."""

    name: str
    rows: int
    manifest: str
    revision: str | None


def fetch_set(name: str, folder: Path, *, hub: Path | None = None, revision: str | None = None) -> FetchedSet:
    """Fetch a set into FOLDER/NAME and enter it into FOLDER/train.json. Raises like `vlagent.data.fetch.fetch`."""
    if name not in TRAINING_SETS:
        raise UserError(f"{name}: no such training set; there are {', '.join(TRAINING_SETS)}")
    wanted = TRAINING_SETS[name]
    done = fetch(Wanted(wanted.repo, files=wanted.files), folder / name, hub=hub, revision=revision)
    for archive in wanted.archives:
        if (folder / name / archive).is_file():
            unpack(folder / name / archive)
    rows = _rows_file(folder / name, wanted)
    entry = _entry(name, rows.relative_to(folder).as_posix())
    origin = Manifest(folder / MANIFEST, {name: Entry.model_validate(entry)}).origin(name)
    count = sum(1 for _ in common_rows(origin))
    _enter(folder / MANIFEST, name, {**entry, "length": count})
    return FetchedSet(name=name, rows=count, manifest=str(folder / MANIFEST), revision=done.revision)


def _rows_file(folder: Path, wanted: TrainingSet) -> Path:
    """The largest file that the rows may be in: sets come with parts of themselves beside them."""
    found = [path for path in folder.glob(wanted.rows) if path.is_file() and path.name != "fetched.json"]
    if not found:
        raise UserError(f"{folder}: holds no {wanted.rows}")
    return max(found, key=lambda path: path.stat().st_size)


def unpack(archive: Path) -> None:
    """Unpack a ZIP beside itself. `UserError` where it is damaged or names a place outside its folder."""
    root = archive.parent.resolve()
    try:
        with zipfile.ZipFile(archive) as packed:
            for info in packed.infolist():
                target = (root / info.filename).resolve()
                if not target.is_relative_to(root):
                    raise UserError(f"{archive}: {info.filename!r} lies outside its folder; it is not unpacked")
                if not info.is_dir() and not (target.is_file() and target.stat().st_size == info.file_size):
                    target.parent.mkdir(parents=True, exist_ok=True)
                    with packed.open(info) as source, target.open("wb") as file:
                        shutil.copyfileobj(source, file)
    except zipfile.BadZipFile as error:
        raise UserError(f"{archive}: it is damaged ({error}); fetch it again") from None


def _entry(name: str, annotation: str) -> dict[str, Any]:
    """As the released manifest writes it. Its own prompt names its own tools, so none is set."""
    return {
        "root": name,
        "annotation": annotation,
        "length": None,
        "repeat_time": 1,
        "reward_fn": ["llm_score", "format_score"],
        "unused_reward_fn": [],
        "input_template": {"name": "general", "arguments": {"system_prompt": "", "format_instruction": ""}},
        "comment": f"{TRAINING_SETS[name].repo} ({TRAINING_SETS[name].paper})",
    }


def _enter(path: Path, name: str, entry: dict[str, Any]) -> None:
    known = read_json(path) if path.exists() and load_manifest(path).entries else {}
    write_json(path, {**known, name: entry})


def names_in(target: str) -> list[str]:
    """The training sets that `a,b` names; none where it names anything else."""
    names = [name.strip() for name in target.split(",") if name.strip()]
    return names if names and all(name in TRAINING_SETS for name in names) else []


def target_of(names: list[str], folder: Path | None) -> str:
    """How `load_samples` names fetched sets. `UserError` where they were not fetched."""
    if folder is None:
        raise UserError(f"{names[0]}: where is its data? pass --data DIR, or set VLAGENT_DATA")
    path = folder / MANIFEST
    known = load_manifest(path).entries if path.exists() else {}
    missing = [name for name in names if name not in known]
    if missing:
        raise UserError(f"{path}: holds no {missing[0]}; vlagent data fetch {missing[0]} {folder} brings it")
    return f"{path}:{','.join(names)}"
