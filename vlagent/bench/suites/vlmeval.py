"""VLMEvalKit's table of option questions: one row a question, the picture in base64."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from vlagent.bench.suites.base import Row
from vlagent.data.tables import iter_table


def rows(path: Path) -> Iterator[Row]:
    """A TSV: `index`, `image` (base64, or the index of another row) or `image_path`, `question`, `A`..., `answer`.

    Layout read from: github.com/open-compass/VLMEvalKit vlmeval/dataset/image_base.py and image_mcq.py
    """
    return iter_table(path)
