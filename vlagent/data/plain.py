"""Plain rows: `question`, `answer` or `answers`, `image` or `images`, and options as columns A, B, ... or `choices`."""

from __future__ import annotations

from collections.abc import Mapping
from string import ascii_uppercase
from typing import Any

COLUMNS = "ABCDEFGHIJ"


def is_plain(row: Mapping[str, Any]) -> bool:
    """Whether a row is in this layout."""
    return "question" in row and "prompt" not in row


def paths_of(row: Mapping[str, Any]) -> Any:
    """The picture, or the list of pictures, of a row of JSON."""
    return row.get("image") or row.get("images")


def as_row(row: Mapping[str, Any], pictures: Any) -> dict[str, Any]:
    """The common layout: `question` becomes `prompt`, `answer` the truth; the options are listed below the question."""
    given = {key: value for key, value in row.items() if value not in (None, "") and key not in ("image", "images")}
    if "prompt" not in given:
        options = _options(given)
        lines = [str(given.pop("question", "")), *(f"{letter}. {text}" for letter, text in options.items())]
        given["prompt"] = [{"role": "user", "content": "\n".join(lines)}]
        if options:
            given["choices"] = options
    truths = [given.pop(key) for key in ("answer", "answers") if key in given]
    if truths and "reward_model" not in given:
        given["reward_model"] = {"ground_truth": truths[0]}
    return {**given, "image": pictures}


def _options(given: dict[str, Any]) -> dict[str, str]:
    """Letter -> text, taken out of the row; what `choices` holds is checked later if it is neither list nor object."""
    columns = {letter: str(given.pop(letter)) for letter in COLUMNS if letter in given}
    choices = given.get("choices")
    if isinstance(choices, list):
        choices = dict(zip(ascii_uppercase, choices, strict=False))
    if columns or not isinstance(choices, dict):
        return columns
    return {str(letter): str(text) for letter, text in choices.items()}
