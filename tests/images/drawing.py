"""A picture whose quarters are told apart after any loss, turn or crop."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PIL import Image

RED, BLUE, YELLOW, GREEN = (200, 30, 40), (20, 60, 220), (240, 220, 10), (10, 150, 60)
WIDTH, HEIGHT = 96, 64


def quarters(width: int = WIDTH, height: int = HEIGHT) -> Image.Image:
    """Red and blue above, yellow and green below."""
    picture = Image.new("RGB", (width, height), RED)
    picture.paste(BLUE, (width // 2, 0, width, height))
    picture.paste(YELLOW, (0, height // 2, width // 2, height))
    picture.paste(GREEN, (width // 2, height // 2, width, height))
    return picture


def grain(width: int = 300, height: int = 200, seed: int = 0) -> NDArray[np.uint8]:
    """Soft noise in which each pixel differs, [height, width, 3]."""
    rng = np.random.default_rng(seed)
    soft = Image.fromarray(rng.integers(0, 255, (9, 9, 3), dtype=np.uint8)).resize((width, height))
    return np.asarray(soft) // 2 + rng.integers(0, 120, (height, width, 3), dtype=np.uint8)


def corners(picture: Image.Image) -> list[tuple[int, ...]]:
    """The colours in the middle of the four quarters: above, then below."""
    columns, rows = (picture.width // 4, picture.width * 3 // 4), (picture.height // 4, picture.height * 3 // 4)
    return [picture.getpixel((x, y)) for y in rows for x in columns]  # type: ignore[misc]


def far(left: object, right: object) -> int:
    """The largest difference of two pictures or lists of colours."""
    return int(np.abs(np.asarray(left).astype(int) - np.asarray(right).astype(int)).max())
