"""The size at which a picture enters a model."""

from __future__ import annotations

import ast
import importlib.util
import math
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import ValidationError

from vlagent.render.sizing import LIMITS, MAX_ASPECT, PixelLimits, fit

SIDES = st.integers(1, 40_000)
FAMILIES = st.sampled_from(sorted(LIMITS))


@given(SIDES, SIDES, FAMILIES)
def test_sides_are_multiples_of_the_factor_within_the_limits(width: int, height: int, family: str) -> None:
    limits = LIMITS[family]
    wide, high = fit(width, height, limits)
    assert wide % limits.factor == high % limits.factor == 0
    assert wide * high <= limits.max_pixels
    assert max(wide, high) <= MAX_ASPECT * min(wide, high)
    if max(width, height) <= 20 * min(width, height):
        assert wide * high >= limits.min_pixels - limits.factor * max(wide, high)


@given(SIDES, SIDES, st.sampled_from(["qwen3-vl", "qwen2.5-vl"]))
def test_a_fitted_size_fits_as_it_is(width: int, height: int, family: str) -> None:
    once = fit(width, height, LIMITS[family])
    assert fit(*once, LIMITS[family]) == once


@given(st.integers(100, 40_000), st.integers(100, 40_000))
def test_the_aspect_is_kept_up_to_one_cell(width: int, height: int) -> None:
    assume(max(width, height) <= 10 * min(width, height))
    limits = LIMITS["qwen3-vl"]
    wide, high = fit(width, height, limits)
    cell = limits.factor
    smallest = max((wide - cell) / width, (high - cell) / height)
    largest = min((wide + cell) / width, (high + cell) / height)
    assert smallest <= largest  # some one scale brings both sides to within a cell


@pytest.mark.parametrize(
    ("size", "family", "expected"),
    [
        ((640, 480), "qwen3-vl", (640, 480)),
        ((640, 480), "qwen2.5-vl", (644, 476)),
        ((100, 100), "qwen3-vl", (256, 256)),
        ((3840, 2160), "qwen3-vl", (3840, 2144)),
        ((40_000, 40_000), "qwen3-vl", (2880, 2880)),
        ((1, 1), "qwen3-vl", (256, 256)),
        ((640, 640), "tiny", (96, 96)),
        ((64, 32), "tiny", (96, 48)),
    ],
)
def test_sizes_worked_out_by_hand(size: tuple[int, int], family: str, expected: tuple[int, int]) -> None:
    assert fit(*size, LIMITS[family]) == expected


def test_each_limit_changes_the_size() -> None:
    limits = PixelLimits(factor=16, min_pixels=4_096, max_pixels=65_536)
    assert fit(32, 32, limits) == (64, 64)
    assert fit(32, 32, limits.model_copy(update={"min_pixels": 1})) == (32, 32)
    assert fit(1000, 1000, limits) == (256, 256)
    assert fit(1000, 1000, limits.model_copy(update={"max_pixels": 4_096})) == (64, 64)
    assert fit(100, 100, limits) == (96, 96)
    assert fit(100, 100, limits.model_copy(update={"factor": 20})) == (100, 100)


def test_limits_that_no_picture_can_meet_are_refused() -> None:
    for wrong in ({"min_pixels": 100_000}, {"factor": 300}, {"factor": 0}):
        with pytest.raises(ValidationError):
            PixelLimits.model_validate({"factor": 16, "min_pixels": 4_096, "max_pixels": 65_536, **wrong})


def _published() -> Callable[..., tuple[int, int]]:
    """The rule as transformers ships it, cut out of its file: importing that file needs torchvision."""
    spec = importlib.util.find_spec("transformers")
    if spec is None or spec.origin is None:
        pytest.skip("transformers is not installed")
    path = Path(spec.origin).parent / "models" / "qwen2_vl" / "image_processing_qwen2_vl.py"
    tree = ast.parse(path.read_text(encoding="utf-8"))
    rule = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "smart_resize"]
    names: dict[str, Callable[..., tuple[int, int]]] = {"math": math}  # type: ignore[dict-item]
    exec(compile(ast.Module(rule, []), str(path), "exec"), names)
    return names["smart_resize"]


@pytest.mark.torch
@given(SIDES, SIDES, st.sampled_from(["qwen3-vl", "qwen2.5-vl"]))
def test_sizes_are_those_of_the_published_processor(width: int, height: int, family: str) -> None:
    assume(max(width, height) <= 100 * min(width, height))
    limits = LIMITS[family]
    high, wide = _published()(height, width, limits.factor, limits.min_pixels, limits.max_pixels)
    assert fit(width, height, limits) == (wide, high)
