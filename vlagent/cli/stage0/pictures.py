"""Scenes drawn beforehand as the tiny model sees them, with what lies under each visual token and patch.

FOLDER/scenes.jsonl    place and signs of each scene, and the windows of its crops
FOLDER/overviews.npy   [scenes, 96, 96, 3]
FOLDER/crops.npy       [scenes, signs, windows, 64, 128, 3]
FOLDER/thumbnail-K.npy pictures of an image search, those of one size together
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from vlagent.files import iter_jsonl, write_atomic
from vlagent.images.scaling import resize
from vlagent.randomness import rng_of
from vlagent.render.sizing import LIMITS, fit
from vlagent.tools.image_crop import pixels_of
from vlagent.toy.lexicon import BRANDS, COLOURS, FIRST_PIECES, LEVELS, PLACES, SECOND_PIECES, SPARE_BRANDS
from vlagent.toy.pictures import draw_picture
from vlagent.toy.questions import window
from vlagent.toy.scene import UNIT, Cast, draw_scene
from vlagent.toy.signs import Sign
from vlagent.train.stage0.config import PictureStage
from vlagent.train.stage0.data import GROUPS, NOTHING, Labels, Pictures
from vlagent.types import Box

CELL = LIMITS["tiny"].factor
"""Pixels of a visual token's side."""
PATCH = 8
Pixels = NDArray[np.uint8]
Window = tuple[int, int, int, int]
"""A crop in thousandths of the scene."""


@dataclass(frozen=True, eq=False)
class Drawn:
    """A scene without its pixels, and the windows in which each sign is shown; the best one is the first."""

    place: str
    signs: tuple[Sign, ...]
    windows: tuple[tuple[Window, ...], ...]


@dataclass(frozen=True, eq=False)
class Pool:
    """Scenes and their views."""

    scenes: list[Drawn]
    overviews: Pixels
    crops: Pixels
    thumbnails: tuple[Pixels, ...]

    def overview_pictures(self) -> Pictures:
        """All overviews with their labels."""
        return Pictures(self.overviews, np.stack([overview_labels(scene.signs) for scene in self.scenes]))

    def crop_pictures(self) -> Pictures:
        """All crops with their labels and letters."""
        shown = [
            (scene.signs, sign, box)
            for scene in self.scenes
            for sign, boxes in zip(scene.signs, scene.windows, strict=True)
            for box in boxes
        ]
        return Pictures(
            self.crops.reshape(-1, *self.crops.shape[3:]),
            np.stack([crop_labels(sign, box) for _, sign, box in shown]),
            np.stack([crop_letters(signs, box) for signs, _, box in shown]),
        )

    def thumbnail_pictures(self) -> tuple[Pictures, ...]:
        """Thumbnails by size; they show no sign."""
        return tuple(Pictures(pixels, empty_labels(pixels)) for pixels in self.thumbnails)


def view(image: Image.Image, box: Box | None = None) -> Pixels:
    """What the model gets of a picture or of a region of it, as `images.load` makes it from a file."""
    region = image if box is None else image.crop(box)
    size = fit(*region.size, LIMITS["tiny"])
    return np.asarray(resize(region, size, (0, 0, *region.size)))


def make_pool(folder: Path, stage: PictureStage, scenes: range, level: int, seed: int) -> None:
    """Draw scenes of these numbers; nothing is done where it has been."""
    if (folder / "scenes.jsonl").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    lines, overviews, crops = [], [], []
    for number in scenes:
        rng = rng_of("stage 0 scene", seed, number)
        scene = draw_scene(rng, level, UNIT, Cast(_names(rng, stage.spare_names), places=PLACES, seed=seed))
        windows = tuple(tuple(_windows(rng, sign, level, stage.crops_a_sign)) for sign in scene.signs)
        overviews.append(view(scene.image))
        crops.append([[view(scene.image, pixels_of(list(w), (UNIT, UNIT))) for w in boxes] for boxes in windows])
        lines.append({"place": scene.place, "signs": [asdict(sign) for sign in scene.signs], "windows": windows})
    np.save(folder / "overviews.npy", np.stack(overviews))
    np.save(folder / "crops.npy", np.asarray(crops))
    for k, pixels in enumerate(_thumbnails(seed, stage.thumbnails)):
        np.save(folder / f"thumbnail-{k}.npy", pixels)
    write_atomic(folder / "scenes.jsonl", "".join(json.dumps(line) + "\n" for line in lines))


def load_pool(*folders: Path) -> Pool:
    """Pools together, their pixels shared with other processes."""
    scenes = [_drawn(line) for folder in folders for line in iter_jsonl(folder / "scenes.jsonl")]
    overviews, crops = ([np.load(folder / f"{what}.npy", mmap_mode="r") for folder in folders] for what in FILES)
    thumbnails = tuple(np.load(path) for path in sorted(folders[0].glob("thumbnail-*.npy")))
    one = len(folders) == 1
    return Pool(
        scenes,
        overviews[0] if one else np.concatenate(overviews),
        crops[0] if one else np.concatenate(crops),
        thumbnails,
    )


FILES = ("overviews", "crops")


def _drawn(line: dict[str, Any]) -> Drawn:
    signs = tuple(
        Sign(
            **{
                **sign,
                "box": tuple(sign["box"]),
                "text_box": tuple(sign["text_box"]),
                "letters": tuple((letter, tuple(box)) for letter, box in sign["letters"]),
            }
        )
        for sign in line["signs"]
    )
    return Drawn(line["place"], signs, tuple(tuple(tuple(box) for box in boxes) for boxes in line["windows"]))


def _names(rng: random.Random, spare: float) -> Sequence[str]:
    """The lexicon, or the pairs of pieces that nothing else uses."""
    return SPARE_BRANDS if rng.random() < spare else BRANDS


def _windows(rng: random.Random, sign: Sign, level: int, count: int) -> Iterator[Window]:
    """The best window, then others one step away that still hold the whole name."""
    best, step = window(sign.box, UNIT, level), LEVELS[level].step
    yield best
    for _ in range(count - 1):
        yield next((w for w in (_moved(rng, best, step) for _ in range(10)) if _holds(w, sign.text_box)), best)


def _moved(rng: random.Random, box: Window, step: int) -> Window:
    dx = min(1000 - box[2], max(-box[0], step * rng.randint(-1, 1)))
    dy = min(1000 - box[3], max(-box[1], step * rng.randint(-1, 1)))
    return box[0] + dx, box[1] + dy, box[2] + dx, box[3] + dy


def _holds(box: Window, inner: Box) -> bool:
    x1, y1, x2, y2 = pixels_of(list(box), (UNIT, UNIT))
    return x1 <= inner[0] and y1 <= inner[1] and inner[2] <= x2 and inner[3] <= y2


def _thumbnails(seed: int, count: int) -> list[Pixels]:
    """Pictures of places by size."""
    sizes: dict[tuple[int, ...], list[Pixels]] = {}
    for number in range(count):
        pixels = view(draw_picture(PLACES[(number * 37) % len(PLACES)], seed, f"stage 0 {number}"))
        sizes.setdefault(pixels.shape, []).append(pixels)
    return [np.stack(group) for _, group in sorted(sizes.items())]


def empty_labels(pixels: Pixels) -> Labels:
    """Labels [N, T, G] of pictures [N, H, W, 3] that show no sign."""
    tokens = pixels.shape[1] * pixels.shape[2] // CELL**2
    return np.full((len(pixels), tokens, len(GROUPS)), NOTHING, np.int16)


def overview_labels(signs: Sequence[Sign], level: int = 2) -> Labels:
    """[T, G]: under each visual token of the whole scene, the sign that covers most of it."""
    width, height = fit(UNIT, UNIT, LIMITS["tiny"])
    columns, rows = width // CELL, height // CELL
    labels = np.full((rows, columns, len(GROUPS)), NOTHING, np.int16)
    covered = np.full((rows, columns), 0.05)
    across, down = UNIT / columns, UNIT / rows
    for sign in signs:
        x, y = (side // LEVELS[level].step for side in window(sign.box, UNIT, level)[:2])
        part = _shares(sign.box, columns, rows, (across, down), (0.0, 0.0))
        most = part > covered
        covered[most] = part[most]
        labels[most, :3] = (list(COLOURS).index(sign.colour), x, y)
    return labels.reshape(-1, len(GROUPS))


def crop_labels(sign: Sign, box: Window) -> Labels:
    """[T, G]: under each visual token of a crop, the pieces of this sign's name; a token can show both."""
    x1, y1, x2, y2 = pixels_of(list(box), (UNIT, UNIT))
    width, height = fit(x2 - x1, y2 - y1, LIMITS["tiny"])
    columns, rows = width // CELL, height // CELL
    labels = np.full((rows, columns, len(GROUPS)), NOTHING, np.int16)
    cell = ((x2 - x1) / columns, (y2 - y1) / rows)
    for group, lexicon, letters in (
        (3, FIRST_PIECES, sign.letters[:3]),
        (4, SECOND_PIECES, sign.letters[3:]),
    ):
        span = (letters[0][1][0], letters[0][1][1], letters[-1][1][2], letters[0][1][3])
        shown = _shares(span, columns, rows, cell, (x1, y1)) > 0.12
        labels[shown, group] = lexicon.index("".join(letter for letter, _ in letters))
    return labels.reshape(-1, len(GROUPS))


def _shares(
    box: Sequence[float], columns: int, rows: int, cell: tuple[float, float], corner: tuple[float, float]
) -> NDArray[np.float64]:
    """[rows, columns]: how much of each cell a box covers."""
    left, top = corner[0] + cell[0] * np.arange(columns), corner[1] + cell[1] * np.arange(rows)
    across = np.clip(np.minimum(box[2], left + cell[0]) - np.maximum(box[0], left), 0, None)
    down = np.clip(np.minimum(box[3], top + cell[1]) - np.maximum(box[1], top), 0, None)
    return np.outer(down, across) / (cell[0] * cell[1])


def crop_letters(signs: Sequence[Sign], box: Window) -> NDArray[np.int16]:
    """[P]: the letter under the middle of each patch of a crop, from 1, or 0, in the order of the patches."""
    x1, y1, x2, y2 = pixels_of(list(box), (UNIT, UNIT))
    width, height = fit(x2 - x1, y2 - y1, LIMITS["tiny"])
    columns, rows = width // PATCH, height // PATCH
    across = x1 + (np.arange(columns) + 0.5) * (x2 - x1) / columns
    down = y1 + (np.arange(rows) + 0.5) * (y2 - y1) / rows
    grid = np.zeros((rows, columns), np.int16)
    for sign in signs:
        for letter, (left, top, right, bottom) in sign.letters:
            here = np.outer((down >= top - 3) & (down <= bottom + 3), (across >= left) & (across < right))
            grid[here] = ord(letter) - 64
    return grid.reshape(rows // 2, 2, columns // 2, 2).transpose(0, 2, 1, 3).reshape(-1)
