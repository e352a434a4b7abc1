"""Benchmarks that guard themselves: a canary in every row, and answers that may be under a password.

`benchmark.json` beside a file of rows names the canary and how answers are sealed. Where it lies, rows are checked and
opened as they are read, whoever reads them; training refuses rows that carry a canary.

The key is derived by scrypt (RFC 7914); answers are Fernet tokens of the package `cryptography` (extra [seal]).
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from vlagent.errors import UserError, first_problem
from vlagent.files import read_json
from vlagent.types import Record, Sample

FILE = "benchmark.json"
COLUMN, SEALED = "canary", "sealed"
PASSWORD = "VLAGENT_BENCH_PASSWORD"
"""Environment variable with the password of sealed answers."""
WARNING = "BENCHMARK DATA MUST NEVER APPEAR IN TRAINING CORPORA."
COST = 2**15
"""scrypt's n: about a tenth of a second and 32 MB."""


class Seal(Record):
    """What guards a published benchmark."""

    version: Literal[1] = 1
    name: str
    release: str = "1.0"
    canary: str
    rows: int
    salt: str = ""
    """Base64; empty where the answers are open."""
    columns: tuple[str, ...] = ()
    """What is under the password."""


def read_seal(rows: Path) -> Seal | None:
    """The guard of a file of rows; None where it has none. `UserError` where it is damaged."""
    path = rows.parent / FILE
    if rows.is_dir() or not path.is_file():
        return None
    try:
        return Seal.model_validate(read_json(path))
    except ValidationError as error:
        raise UserError(f"{path}: not what guards a benchmark ({first_problem(error).said}); fetch it again") from None


def opened(rows: Iterable[dict[str, Any]], path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a file, each checked for its canary and with its answers open; as they are where nothing guards them.

    Raises `UserError` for a missing canary, another number of rows, or a missing or wrong password.
    """
    seal = read_seal(path)
    if seal is None:
        yield from _unguarded(rows, path)
        return
    number = 0
    for number, row in enumerate(rows, 1):
        if row.get(COLUMN) != seal.canary:
            raise UserError(
                f"{path}: row {number} lacks the canary of {seal.name}: the file was changed; fetch it again"
            )
        yield _open(row, seal, path) if SEALED in row else row
    if number != seal.rows:
        raise UserError(f"{path}: {number} rows, {seal.name} has {seal.rows}: the file was changed; fetch it again")


def _unguarded(rows: Iterable[dict[str, Any]], path: Path) -> Iterator[dict[str, Any]]:
    """Rows as they are, unless they are a guarded set's without its guard."""
    for number, row in enumerate(rows, 1):
        if SEALED in row or str(row.get(COLUMN, "")).startswith(WARNING):
            raise UserError(f"{path}: row {number} is of a benchmark whose {FILE} is missing beside it; fetch it again")
        yield row


def _open(row: dict[str, Any], seal: Seal, path: Path) -> dict[str, Any]:
    password = os.environ.get(PASSWORD)
    if not password:
        raise UserError(f"{path}: the answers of {seal.name} are sealed; set {PASSWORD} to their password")
    values = json.loads(unseal(str(row[SEALED]), password, seal))
    return {**{key: value for key, value in row.items() if key != SEALED}, **values}


def seal_row(row: Mapping[str, Any], password: str, seal: Seal) -> dict[str, Any]:
    """The row with `seal.columns` under the password."""
    hidden = {name: row[name] for name in seal.columns if name in row}
    token = _fernet(password, seal.salt).encrypt(json.dumps(hidden, ensure_ascii=False).encode())
    return {**{name: value for name, value in row.items() if name not in hidden}, SEALED: token.decode()}


def unseal(token: str, password: str, seal: Seal) -> str:
    """The JSON text behind a token. `UserError` for the wrong password."""
    from cryptography.fernet import InvalidToken

    try:
        return str(_fernet(password, seal.salt).decrypt(token.encode()).decode())
    except InvalidToken:
        raise UserError(f"{seal.name}: {PASSWORD} is not the password of its answers, or they were changed") from None


@lru_cache(maxsize=8)
def _fernet(password: str, salt: str) -> Any:
    try:
        from cryptography.fernet import Fernet
        from cryptography.hazmat.primitives.kdf.scrypt import Scrypt
    except ImportError:
        raise UserError("sealed answers need the package cryptography: pip install 'vlagent[seal]'") from None
    try:
        raw = base64.b64decode(salt)
    except ValueError:
        raise UserError(f"{FILE}: its salt is damaged; fetch the benchmark again") from None
    key = Scrypt(salt=raw, length=32, n=COST, r=8, p=1).derive(password.encode())
    return Fernet(base64.urlsafe_b64encode(key))


def new_salt() -> str:
    """16 random bytes in base64."""
    return base64.b64encode(os.urandom(16)).decode()


def refuse_canaries(samples: Iterable[Sample], what: str) -> None:
    """`UserError` where a sample that is to be trained on carries the canary of a benchmark."""
    for sample in samples:
        canary = sample.extra.get(COLUMN)
        if isinstance(canary, str) and canary:
            raise UserError(
                f"{what}: {sample.id} carries the canary of a benchmark, which is never trained on: {canary}"
            )
