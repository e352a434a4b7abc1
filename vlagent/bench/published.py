"""Scores that others have published, to stand beside ours: never bent, always with where they are from."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any


def published() -> dict[str, Any]:
    """The content of published_scores.json (SenseNova-MARS, arXiv 2512.24330, tables 1 to 4, and user reports)."""
    table: dict[str, Any] = json.loads((files("vlagent.bench") / "published_scores.json").read_text(encoding="utf-8"))
    return table
