"""JSON as models write it: read strictly if possible, leniently if not, and never at the cost of a hang or a crash."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import json5

MAX_LENIENT_CHARS = 4_000
"""The lenient reader is written in Python and slow; longer text must be valid JSON."""
MAX_DEPTH = 32
"""Of nested arrays and objects; no tool needs a tenth of it."""
_MAX_BITS = 256
_FENCE = re.compile(r"```[\w-]*+")


class WrongCall(Exception):
    """The text cannot be executed; the message is the error observation for the model."""


def read_json(text: str, repairs: list[str]) -> Any:
    """The value of a JSON text; what had to be mended is added to `repairs`. Raises `WrongCall`.

    Integral floats become integers (a JSON 1.0 is an integer), lone surrogates become question marks.
    """
    text = text.strip()
    if fence := _FENCE.match(text):
        repairs.append("fence")
        text = text[fence.end() :].removesuffix("```").strip()
    if not text:
        raise WrongCall("The call is empty. Write one JSON object with name and arguments.")
    value = _read(text, repairs)
    _check_depth(value)
    return _cleaned(value)


def _read(text: str, repairs: list[str]) -> Any:
    keys = _Keys()
    try:
        value = json.loads(text, object_pairs_hook=keys.as_dict)
    except (ValueError, RecursionError) as error:
        value = _read_leniently(text, str(error), keys)
        repairs.append("json")
    if keys.doubled:
        repairs.append("duplicate_key")
    return value


def _read_leniently(text: str, why: str, keys: _Keys) -> Any:
    """Raw line feeds in strings, then single quotes, trailing commas, bare keys and comments (JSON5)."""
    if len(text) > MAX_LENIENT_CHARS or text.count("[") + text.count("{") > 4 * MAX_DEPTH:
        raise WrongCall(f"The call is not valid JSON ({why}). Write one JSON object with name and arguments.")
    keys.doubled = False
    try:
        return json.loads(text, object_pairs_hook=keys.as_dict, strict=False)
    except (ValueError, RecursionError):
        keys.doubled = False
    try:
        return json5.loads(text, object_pairs_hook=keys.as_dict)
    except (ValueError, RecursionError):
        hint = f"The call is not valid JSON ({why}). Write one JSON object with name and arguments."
        raise WrongCall(hint) from None


class _Keys:
    """Builds objects and notices a key that is given twice (the last one wins)."""

    def __init__(self) -> None:
        self.doubled = False

    def as_dict(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        self.doubled = self.doubled or len(made) < len(pairs)
        return made


def _check_depth(value: Any) -> None:
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise WrongCall(f"The call is nested more than {MAX_DEPTH} levels deep.")
        level = [inner for outer in level for inner in _inside(outer)]


def _inside(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _cleaned(value: Any) -> Any:
    if isinstance(value, dict):
        return {clean_text(key): _cleaned(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_cleaned(inner) for inner in value]
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        raise WrongCall(f"The call holds a number of more than {_MAX_BITS} bits.")
    if isinstance(value, float) and math.isfinite(value) and value == int(value):
        return _cleaned(int(value))
    return value


def clean_text(text: str) -> str:
    """Without lone surrogates, which no file and no wire can hold."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
