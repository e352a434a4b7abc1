"""Samples back to rows of the published layout, so that what was kept can be read like any other set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from vlagent.errors import UserError
from vlagent.types import ImageRef, Sample


def row_of(sample: Sample) -> dict[str, Any]:
    """A sample as one row (`prompt`, `image`, `reward_model`, ...) that `load_samples` reads back as it was.

    The reward names and the answer instruction belong to the manifest's entry. Raises `UserError` where a picture is
    a region of a file: rows name whole files.
    """
    extra = {name: value for name, value in sample.extra.items() if name != "reward_fn"}
    slots = "<image>" * len(sample.images)
    prompt = [{"role": "user", "content": f"{slots}\n{sample.question}" if slots else sample.question}]
    if sample.system_prompt:
        prompt.insert(0, {"role": "system", "content": sample.system_prompt})
    return {
        **extra,
        "id": sample.id,
        "prompt": prompt,
        "image": [_path(ref) for ref in sample.images],
        "reward_model": {"ground_truth": list(sample.answers)},
        **({"choices": sample.choices} if sample.choices else {}),
        **_search_columns(sample),
    }


def _path(ref: ImageRef) -> str:
    if ref.box is not None:
        raise UserError(f"{ref.path}: box {ref.box} is a region; a row can name whole pictures only")
    return str(Path(ref.path).absolute())


def _search_columns(sample: Sample) -> dict[str, Any]:
    found = sample.image_search
    if found is None:
        return {}
    return {
        "image_search_title_list": list(found.titles),
        "image_search_thumbnail_list": list(found.thumbnails),
        "image_search_summary": found.summary,
    }
