"""The words around an episode, and a user's own words in their place (`--prompts FILE`)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
    tools: dict[str, str] = {}
    """Tool name (canonical or of the dialect) -> description."""


def load_prompts(path: Path) -> Prompts:
    """Read `--prompts FILE` (TOML or JSON). Raises `UserError` naming the file or key."""
    raise NotImplementedError
