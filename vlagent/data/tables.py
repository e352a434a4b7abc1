"""Rows of VLMEvalKit TSV files (CSV alike) and of Hugging Face `datasets` folders (parquet), in the common row layout.

Pictures that come as bytes are written once into a folder beside the table, so that they have an address.
"""

from __future__ import annotations

import ast
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
REFERENCE = 65
"""A shorter field `image` names another row, or is a path (VLMEvalKit's own rule: up to 64 characters)."""


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
    """Row by row: a table of 8K pictures does not fit into memory."""
    kept: dict[str, list[str]] = {}
    for row in _read_delimited(path):
        if not row.get("question"):
            raise UserError(f"{path}: row {row.get('index')}: a table of questions has a column `question`")
        pictures = _tsv_pictures(path, row, kept)
        kept[row.get("index") or ""] = pictures
        yield _as_row(row, pictures)


def _read_delimited(path: Path) -> Iterator[dict[str, str]]:
    csv.field_size_limit(MAX_FIELD)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            yield from csv.DictReader(file, delimiter=DELIMITERS[path.suffix])
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path}: cannot be read as a {path.suffix[1:].upper()} file ({error})") from None


def _tsv_pictures(path: Path, row: Mapping[str, str], kept: dict[str, list[str]]) -> list[str]:
    """The paths of a row's pictures: base64 (or the index of the row that has it) in `image`, else `image_path`."""
    text = row.get("image") or ""
    if row.get("image_path") and len(text) < REFERENCE:
        return _several(row["image_path"])
    if len(text) < REFERENCE:
        return kept.get(text) or _of_later_row(path, text) or [text]
    return [keep_picture(path, each) or each for each in _several(text)]


def _several(text: str) -> list[str]:
    """One text, or a Python list of texts written as one."""
    if not text.startswith("["):
        return [text]
    try:
        found = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return [text]
    return [str(each) for each in found]


def _of_later_row(path: Path, index: str) -> list[str]:
    """The pictures of the row with this index, wherever it is; none where there is no such row, as for a path."""
    texts = (row.get("image") or "" for row in _read_delimited(path) if row.get("index") == index)
    text = next(texts, "") if index.isdigit() else ""
    return [kept for each in _several(text) if (kept := keep_picture(path, each))]


def keep_picture(table: Path, picture: str | bytes) -> str | None:
    """Keep a picture (bytes or base64) beside its table; its path relative to that folder, None for no picture."""
    if isinstance(picture, bytes):
        return _keep(table, picture)
    if len(picture) < REFERENCE:
        return None
    try:
        return _keep(table, base64.b64decode(picture, validate=True))
    except (binascii.Error, ValueError):
        return None


def _keep(table: Path, data: bytes) -> str:
    """Write a picture beside its table; returns its path relative to the table's folder."""
    folder = table.parent / f"{table.stem}_pictures"
    target = folder / hashlib.sha256(data).hexdigest()[:24]
    if not target.exists():
        write_atomic(target, data)
    return str(target.relative_to(table.parent))


def read_parquet(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a parquet file with their values as they are (a picture is bytes, or a struct of bytes and path)."""
    try:
        parquet = importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise UserError(f"{path}: reading parquet needs pyarrow: pip install 'pyarrow>=15'") from None
    for batch in _batches(parquet, path):
        yield from batch.to_pylist()


def _iter_parquet(path: Path, files: list[Path]) -> Iterator[dict[str, Any]]:
    for file in files:
        for row in read_parquet(file):
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
    if not isinstance(cell, bytes | str) or not cell:
        raise UserError(f"{path}: image: bytes or a path are expected, this is {cell!r:.80}")
    return keep_picture(path, cell) or str(cell)


def _as_row(row: Mapping[str, Any], pictures: list[str]) -> dict[str, Any]:
    """The common layout, in what JSON can hold."""
    plain: dict[str, Any] = json.loads(json.dumps(as_row(row, []), default=str))
    return {**plain, "image": [path for path in pictures if path]}
