"""Runs are TOML files without includes; `key.path=value` on the command line overrides one value."""

from __future__ import annotations

import copy
import tomllib
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from vlagent.errors import UserError, first_problem

C = TypeVar("C", bound=BaseModel)


def load_config(kind: type[C], path: Path | None, overrides: list[str] | None = None) -> C:
    """Read, override and validate a configuration; every mistake is one line that names the key."""
    table: dict[str, Any] = {}
    if path is not None:
        try:
            table = tomllib.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise UserError(f"{path}: no such configuration file") from None
        except OSError as error:
            raise UserError(f"{path}: cannot be read ({(error.strerror or str(error)).lower()})") from None
        except (ValueError, RecursionError) as error:
            raise UserError(f"{path}: not TOML ({error})") from None
    return make_config(kind, table, overrides)


def make_config(kind: type[C], table: dict[str, Any], overrides: list[str] | None = None) -> C:
    """Override and validate values that are read already; `table` stays as it is."""
    table = copy.deepcopy(table)
    for text in overrides or []:
        _override(table, text)
    try:
        return kind.model_validate(table)
    except ValidationError as error:
        raise UserError(_mistake(kind, error)) from None


def _override(table: dict[str, Any], text: str) -> None:
    key, found, value = text.partition("=")
    if not found or not key:
        raise UserError(f"override {text!r}: write it as key.path=value")
    *parents, last = key.split(".")
    for name in parents:
        table = table.setdefault(name, {})
        if not isinstance(table, dict):
            raise UserError(f"override {text!r}: {name!r} is a value, not a table")
    table[last] = _toml_value(value)


def _toml_value(text: str) -> Any:
    try:
        return tomllib.loads(f"x = {text}")["x"]
    except (ValueError, RecursionError):
        return text


def _mistake(kind: type[BaseModel], error: ValidationError) -> str:
    first = first_problem(error)
    if first.kind == "extra_forbidden":
        return f"{first.key}: unknown key; known at the top are {', '.join(kind.model_fields)}"
    if first.kind == "missing":
        return f"{first.key}: not given, and it has no default"
    return first.line()
