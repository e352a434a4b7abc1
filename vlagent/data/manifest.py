"""Manifests of data sets, and `load_samples`, the one way in for everything that a user may name."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from vlagent.data import hr_mmsearch, mini_o3, pixel_reasoner, plain, sealed, verl_rows
from vlagent.data.rows import Origin, Pictures, read_row, with_unique_ids
from vlagent.data.tables import TABLES, iter_table
from vlagent.errors import UserError, first_problem
from vlagent.files import iter_jsonl, read_json
from vlagent.randomness import rng_of
from vlagent.types import Sample

REWARD_NAMES = ("llm_score", "em_score", "em_score_mcq", "format_score")

Warn = Callable[[str], None]


class _Foreign(BaseModel):
    """Made by others: unknown fields are no error."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class InputTemplate(_Foreign):
    """How the released code builds its prompt."""

    name: str = ""
    arguments: dict[str, Any] = {}


class Entry(_Foreign):
    """One data set of a manifest."""

    root: str = ""
    """Folder that picture paths are relative to."""
    annotation: str
    """The file of rows."""
    length: int | None = None
    """Rows that the file should have."""
    repeat_time: float = Field(default=1.0, ge=0, le=1000, allow_inf_nan=False)
    """How often each row is used; the fraction is a seeded sample."""
    reward_fn: tuple[str, ...] = ()
    unused_reward_fn: tuple[str, ...] = ()
    input_template: InputTemplate = InputTemplate()
    comment: str = ""


@dataclass(frozen=True)
class Manifest:
    """The data sets of one manifest file, by name."""

    path: Path
    entries: Mapping[str, Entry]

    def origin(self, name: str) -> Origin:
        """Where the rows of an entry are; relative paths start at the manifest's folder, else at the current one."""
        entry = self.entries[name]
        root = self._find(entry.root or ".")
        arguments = entry.input_template.arguments
        return Origin(
            source=name,
            root=root,
            file=self._find(entry.annotation, root),
            system_prompt=_text_or_none(arguments.get("system_prompt")),
            format_instruction=_text_or_none(arguments.get("format_instruction")) or "",
            # Test manifests as released reward nothing and name their metric as unused.
            reward_fn=entry.reward_fn or entry.unused_reward_fn,
        )

    def _find(self, text: str, *more: Path) -> Path:
        folders = (self.path.parent, *more, Path())
        return next((folder / text for folder in folders if (folder / text).exists()), self.path.parent / text)


def load_manifest(path: Path) -> Manifest:
    """Read a manifest. `UserError` names the entry and the key that is wrong."""
    table = read_json(path)
    if not isinstance(table, dict) or not table:
        raise UserError(f"{path}: a manifest is an object of name -> data set")
    entries = {}
    for name, value in table.items():
        try:
            entries[name] = Entry.model_validate(value)
        except ValidationError as error:
            first = first_problem(error)
            raise UserError(f"{path}: {name}: {first.key or 'entry'}: {first.said}") from None
    return Manifest(path, entries)


def load_samples(
    spec: str | Path,
    *,
    seed: int = 0,
    limit: int | None = None,
    side: Path | None = None,
    warn: Warn = warnings.warn,
) -> list[Sample]:
    """The samples behind `manifest.json`, `manifest.json:entry[,entry]`, a rows `.jsonl`, `.tsv`, `.parquet` or folder.

    `limit` takes the first rows of each data set; `side` is HR-MMSearch's file of cached image searches. `UserError`
    names what is missing; `warn` is told of a length that differs from the file.
    """
    if limit is not None and limit < 1:
        raise UserError(f"limit = {limit}: at least 1")
    path, names = split_spec(str(spec))
    pictures = Pictures()
    samples: list[Sample] = []
    if is_manifest(path):
        manifest = load_manifest(path)
        for name in names or manifest.entries:
            samples += _load_entry(manifest, name, seed, limit, (pictures, side, warn))
    elif names:
        raise UserError(f"{spec}: only a manifest (.json) has entries")
    else:
        origin = Origin(source=_source_name(path), root=path.parent, file=path)
        samples = _read(origin, pictures, side, limit)
    pictures.check()
    if not samples:
        raise UserError(f"{spec}: holds no sample")
    return with_unique_ids(samples)


def split_spec(spec: str) -> tuple[Path, list[str]]:
    """`a/manifest.json:x,y` -> (a/manifest.json, [x, y])."""
    head, found, tail = spec.rpartition(":")
    if found and head.endswith((".json", ".jsonl")) and not Path(spec).exists():
        return Path(head), [name for name in tail.split(",") if name]
    return Path(spec), []


def is_manifest(path: Path) -> bool:
    """Whether a `.json` file names data sets; one that holds a list is rows."""
    if path.suffix != ".json":
        return False
    try:
        with path.open(encoding="utf-8-sig", errors="replace") as file:
            return not file.read(1024).lstrip().startswith("[")
    except OSError:
        return True  # reading it as a manifest says what is wrong


def _source_name(path: Path) -> str:
    return path.parent.name if path.stem in ("rows", "data", "annotation", "test") and path.parent.name else path.stem


def _load_entry(
    manifest: Manifest, name: str, seed: int, limit: int | None, rest: tuple[Pictures, Path | None, Warn]
) -> list[Sample]:
    if name not in manifest.entries:
        raise UserError(f"{manifest.path}: no entry {name!r}; there are {', '.join(manifest.entries)}")
    pictures, side, warn = rest
    entry, origin = manifest.entries[name], manifest.origin(name)
    unknown = [each for each in entry.reward_fn if each not in REWARD_NAMES]
    if unknown:
        warn(f"{manifest.path}: {name}: reward_fn {unknown[0]!r} is not known and is ignored")
    whole = entry.repeat_time == 1
    samples = _read(origin, pictures, side, limit if whole else None)
    if entry.length is not None and (limit is None or not whole):
        rows = len(samples) + len(pictures.unusable)
        if rows != entry.length and not pictures.unusable:
            warn(f"{manifest.path}: {name}: length is {entry.length} but {origin.file} has {rows} rows; all are used")
    return repeat(samples, entry.repeat_time, seed, name)[:limit]


def repeat(samples: list[Sample], times: float, seed: int, name: str) -> list[Sample]:
    """Each sample floor(times) times, and a seeded sample of the fraction, in the order of the file."""
    whole = math.floor(times)
    extra = round((times - whole) * len(samples))
    drawn = sorted(rng_of(seed, "repeat", name).sample(range(len(samples)), extra))
    return samples * whole + [samples[index] for index in drawn]


def common_rows(origin: Origin, side: Path | None = None) -> Iterator[dict[str, Any]]:
    """The rows of a file in the common layout (`prompt`, `image`, `reward_model`), whichever one they are written in.

    A row of a layout that is not known comes as it is. `UserError` where the file cannot be read.
    """
    cached: dict[str, dict[str, Any]] | None = None
    for row in sealed.opened(_rows(origin.file), origin.file):
        if hr_mmsearch.is_hr_mmsearch(row):
            cached = hr_mmsearch.read_side_file(origin.file, side) if cached is None else cached
            yield hr_mmsearch.as_row(row, cached)
        elif pixel_reasoner.is_pixel_reasoner(row):
            if (asked := pixel_reasoner.as_row(row, origin.root)) is not None:
                yield asked
        elif mini_o3.is_mini_o3(row):
            yield mini_o3.as_row(row, origin.root)
        elif plain.is_plain(row):
            yield plain.as_row(row, plain.paths_of(row))
        elif verl_rows.is_verl(row):
            yield verl_rows.as_row(row)
        else:
            yield row


def read_samples(
    rows: Iterable[Mapping[str, Any]], origin: Origin, pictures: Pictures, limit: int | None = None
) -> list[Sample]:
    """The samples of the first `limit` rows in the common layout, but for those with an unusable picture."""
    numbered = enumerate(islice(rows, limit), 1)
    samples = (read_row(row, number, origin, pictures) for number, row in numbered)
    return [sample for sample in samples if sample is not None]


def _read(origin: Origin, pictures: Pictures, side: Path | None, limit: int | None) -> list[Sample]:
    return read_samples(common_rows(origin, side), origin, pictures, limit)


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    if path.is_dir() or path.suffix in TABLES:
        return iter_table(path)
    if not path.exists():
        raise UserError(f"{path}: no such file")
    if path.suffix == ".json" and not is_manifest(path):
        return _iter_array(path)
    if path.suffix in (".jsonl", ".json"):
        return iter_jsonl(path)
    known = ", ".join(TABLES)
    raise UserError(f"{path}: a manifest (.json), rows (.jsonl), {known} or a folder of parquet is expected")


def _iter_array(path: Path) -> Iterator[dict[str, Any]]:
    for number, value in enumerate(read_json(path), 1):
        if not isinstance(value, dict):
            raise UserError(f"{path}: row {number}: an object is expected, this is {type(value).__name__}")
        yield value


def _text_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) and value.strip() else None
