"""Printed text of a picture, read with the optional extra."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from tests.tools.worlds import context, picture
from vlagent import images
from vlagent.errors import ToolInputError, UserError
from vlagent.tools.ocr import Ocr, OcrArguments


def sign() -> np.ndarray:
    page = Image.new("RGB", (320, 120), "white")
    draw = ImageDraw.Draw(page)
    font = ImageFont.load_default(28)
    draw.text((10, 10), "PLATFORM 42", "black", font)
    draw.text((10, 70), "MIND THE GAP", "black", font)
    return np.asarray(page)


def test_without_the_extra_the_fix_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install 'vlagent\[ocr\]'"):
        Ocr()


@pytest.mark.slow
async def test_lines_are_read_from_top_to_bottom_and_crops_too(tmp_path: Path) -> None:
    pytest.importorskip("rapidocr")
    ref = picture(tmp_path, sign())
    at = context(ref, images.crop(ref, (0, 60, 320, 120)))
    whole = (await Ocr().run(OcrArguments(), at)).text
    assert whole.index("PLATFORM 42") < whole.index("MIND THE GAP")
    part = (await Ocr().run(OcrArguments(image_index=1), at)).text
    assert "MIND THE GAP" in part
    assert "PLATFORM" not in part
    unsure = (await Ocr(min_confidence=1.01).run(OcrArguments(image_index=1), at)).text
    assert unsure == "No text was found in image 1."


async def test_a_picture_that_is_not_there_is_the_models_fault(tmp_path: Path) -> None:
    pytest.importorskip("rapidocr")
    with pytest.raises(ToolInputError, match="there is only image 0"):
        await Ocr().run(OcrArguments(image_index=3), context(picture(tmp_path, sign())))
