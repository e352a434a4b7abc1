"""The words around an episode, and a user's own words in their place (`--prompts FILE`).

The file is TOML or JSON (by its suffix) and holds any of:

    system = '''You look at pictures. ... {tools} ... at most {max_turns} turns.'''
    question = "{context}Question: {question}"

    [tools]
    image_crop = "Cut out a region and see it enlarged."

`system` wins over a data set's own prompt and over ours, and is used as it stands: `{tools}` (the section that lists
the tools) and `{max_turns}` are filled in where they are written and nowhere else. `question` is the text of the first
user message. `tools` replaces descriptions, by the tool's canonical name or by its name in the dialect.
"""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from vlagent.errors import UserError, first_problem
from vlagent.types import Record


@dataclass(frozen=True)
class ToolSpec:
    """What a model is told about a tool, in canonical names."""

    name: str
    description: str
    schema: dict[str, Any]
    """JSON schema of the canonical arguments (an object)."""


class Prompts(Record):
    """A user's own prompts; None or absent keeps ours."""

    system: str | None = None
    """`{tools}` and `{max_turns}` are filled in where they stand."""
    question: str | None = None
    """Text of the first user message; `{question}` and `{context}` (retrieved text, may be empty) are filled in."""
    tools: dict[str, str] = Field(default_factory=dict)
    """Tool name (canonical or of the dialect) -> description."""


def load_prompts(path: Path) -> Prompts:
    """Read `--prompts FILE` (TOML or JSON). Raises `UserError` naming the file and the key."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read as a prompts file ({error})") from None
    try:
        table = json.loads(text) if path.suffix.lower() == ".json" else tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: neither TOML nor, as *.json, JSON ({error})") from None
    try:
        prompts = Prompts.model_validate(table)
    except ValidationError as error:
        first = first_problem(error)
        unknown = f"unknown key; known are {', '.join(Prompts.model_fields)}"
        said = unknown if first.kind == "extra_forbidden" else first.said
        raise UserError(f"{path}: {first.key or 'the file'}: {said}") from None
    if prompts.question is not None and "{question}" not in prompts.question:
        raise UserError(f"{path}: question: the template lacks {{question}}")
    return prompts


def fill(template: str, **values: str) -> str:
    """The template with each `{name}` replaced in one pass: other braces (JSON in a prompt) and the values stay."""
    return re.sub(r"\{(" + "|".join(values) + r")\}", lambda slot: values[slot[1]], template)
