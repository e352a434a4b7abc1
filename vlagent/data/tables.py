"""Rows of VLMEvalKit TSV files (CSV alike) and of Hugging Face `datasets` folders (parquet), in the common row layout.

Pictures that come as bytes are written once into a folder beside the table, so that they have an address.
"""

from __future__ import annotations

import base64
import binascii
import csv
import hashlib
import importlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from vlagent.data.plain import as_row
from vlagent.errors import UserError
from vlagent.files import write_atomic

TABLES = (".tsv", ".csv", ".parquet")
DELIMITERS = {".tsv": "\t", ".csv": ","}
MAX_FIELD = 2**28
"""A base64 picture in a TSV field, in characters."""


def iter_table(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a TSV or CSV file, a parquet file, or all parquet files of a folder in the order of their names."""
    if not path.exists():
        raise UserError(f"{path}: no such file or folder")
    if path.suffix in DELIMITERS:
        return _iter_delimited(path)
    if not (files := parquet_files(path)):
        raise UserError(f"{path}: the folder holds no .parquet file")
    return _iter_parquet(path, files)


def parquet_files(path: Path) -> list[Path]:
    """The file itself, or the parquet files below a folder by name."""
    return [path] if path.is_file() else sorted(path.rglob("*.parquet"))


def _iter_delimited(path: Path) -> Iterator[dict[str, Any]]:
    csv.field_size_limit(MAX_FIELD)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file, delimiter=DELIMITERS[path.suffix]))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path}: cannot be read as a {path.suffix[1:].upper()} file ({error})") from None
    pictures = {row.get("index", ""): row.get("image", "") for row in rows}
    for row in rows:
        if not row.get("question"):
            raise UserError(f"{path}: row {row.get('index')}: a table of questions has a column `question`")
        yield _as_row(row, [_tsv_picture(path, row, pictures)])


def _tsv_picture(path: Path, row: Mapping[str, str], pictures: Mapping[str, str]) -> str:
    """The path of a row's picture: `image_path`, or base64 (or the index of the row that has it) in `image`."""
    if row.get("image_path"):
        return row["image_path"]
    text = row.get("image") or ""
    text = pictures[text] if len(text) < 64 and text in pictures else text
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return text  # a path
    return _keep(path, data) if len(data) > 64 else text


def _keep(table: Path, data: bytes) -> str:
    """Write a picture beside its table; returns its path relative to the table's folder."""
    folder = table.parent / f"{table.stem}_pictures"
    target = folder / hashlib.sha256(data).hexdigest()[:24]
    if not target.exists():
        write_atomic(target, data)
    return str(target.relative_to(table.parent))


def _iter_parquet(path: Path, files: list[Path]) -> Iterator[dict[str, Any]]:
    try:
        parquet = importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise UserError(f"{path}: reading parquet needs pyarrow: pip install 'pyarrow>=15'") from None
    for file in files:
        for batch in _batches(parquet, file):
            for row in batch.to_pylist():
                yield _as_row(row, _parquet_pictures(path, row))


def _batches(parquet: Any, file: Path) -> Iterator[Any]:
    broken: type[Exception] = importlib.import_module("pyarrow").ArrowException
    try:
        yield from parquet.ParquetFile(file).iter_batches(batch_size=64)
    except (OSError, broken) as error:
        raise UserError(f"{file}: cannot be read as a parquet file ({error})") from None


def _parquet_pictures(path: Path, row: Mapping[str, Any]) -> list[str]:
    value = row.get("image", row.get("images"))
    cells = value if isinstance(value, list) else [] if value is None else [value]
    return [_parquet_picture(path, cell) for cell in cells]


def _parquet_picture(path: Path, cell: Any) -> str:
    if isinstance(cell, dict):
        cell = cell.get("bytes") or cell.get("path")
    if isinstance(cell, bytes):
        return _keep(path, cell)
    if not isinstance(cell, str) or not cell:
        raise UserError(f"{path}: image: bytes or a path are expected, this is {cell!r:.80}")
    return cell


def _as_row(row: Mapping[str, Any], pictures: list[str]) -> dict[str, Any]:
    """The common layout, in what JSON can hold."""
    plain: dict[str, Any] = json.loads(json.dumps(as_row(row, []), default=str))
    return {**plain, "image": [path for path in pictures if path]}
