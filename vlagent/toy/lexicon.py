"""The words and sizes of the toy world: brands, places, colours, letters, and what each level looks like."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from PIL import ImageFont
from PIL.ImageFont import FreeTypeFont

from vlagent.randomness import rng_of

Kind = Literal["read", "fact", "place", "brand", "both"]
KINDS: tuple[Kind, ...] = ("read", "fact", "place", "brand", "both")
"""What a question needs: read = crop; fact = text search; place = image search, then text search; brand = crop, then
text search; both = all three."""
SPLITS = ("train", "val", "test", "test_open")


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


FIRST_PIECES = _words("BOL DAR FEN GUM KEV LIR MAZ NUB PEG RIV SAT TOK VUN ZED GIB LOM")
SECOND_PIECES = _words("BAK DIN FOR GEM KUL LAS MIV NOP PUD RAV SEL TIG VOD ZUN KER LUB")


def _names(*offsets: int) -> tuple[str, ...]:
    """One name a first piece and offset; every piece is used equally often."""
    return tuple(FIRST_PIECES[i] + SECOND_PIECES[(5 * i + offset) % 16] for i in range(16) for offset in offsets)


BRANDS = _names(0, 4, 8)
"""The 48 brands that all splits but `test_open` share."""
OPEN_BRANDS = _names(6, 13)
"""32 brands of known pieces in pairs that no other split shows; only `test_open` has them."""
PASSAGE_BRANDS = _names(2, 10)
"""Names that only distractor passages use."""
SPARE_BRANDS = _names(1, 3, 5, 7, 9, 11, 12, 14, 15)
"""The other pairs of pieces: free for training a reader on more names than the lexicon has."""

LETTERS = "ABDEFGIKLMNOPRSTUVZ"

PLACE_NAMES = _words(
    "Avalon Belmont Corvus Delphi Elmwood Fenwick Galway Harlow Ivory Juniper Kelton Lorne Marlow Norwood Oakham "
    "Preston Quarry Redmond Selby Tarbert Upton Verona Walden Yarrow Ashby Bexley Camden Dunmore Everton Farley "
    "Grafton Hazel"
)
PLACE_KINDS = _words("Stadium Tower Museum Bridge Station Theatre Palace Market Library Castle Temple Arcade")
PLACES = tuple(f"{name} {kind}" for name in PLACE_NAMES for kind in PLACE_KINDS)
PLACES_PER_SPLIT = {"train": 96, "val": 32, "test": 48, "test_open": 48}

CITIES = _words(
    "Arden Brookfield Carlow Dorset Eastham Fairview Glenroy Hartford Inverley Jarrow Kinross Ludlow Milton "
    "Newbury Orford Penrith Quinton Ripley Stanton Thornbury"
)
OWNERS = tuple(f"the {name} Group" for name in PLACE_NAMES[:20])
YEARS = tuple(range(1950, 2020))

COLOURS: dict[str, tuple[int, int, int]] = {
    "red": (196, 72, 72),
    "blue": (70, 92, 200),
    "green": (62, 146, 84),
    "orange": (222, 144, 58),
    "purple": (146, 74, 172),
    "black": (66, 66, 66),
}
"""Panels leave room above and below each channel: lettering is lighter and its outline darker by as much."""


@dataclass(frozen=True)
class Level:
    """How hard a scene is. Lengths are pixels of a 640-pixel canvas, windows thousandths of the canvas."""

    signs: int
    sign_width: tuple[int, int]
    sign_height: tuple[int, int]
    letter_size: tuple[int, int]
    clutter: tuple[int, int]
    window: tuple[int, int]
    """Width and height of the crop that shows a sign well."""
    step: int
    """Grid that crop windows start on."""
    spelled: bool = False
    """Names are random letters instead of words of the lexicon."""
    relations: tuple[str, ...] = ("year",)
    """What questions ask for."""


LEVELS = {
    1: Level(1, (142, 166), (62, 76), (31, 37), (4, 7), (400, 200), 50),
    2: Level(3, (142, 166), (62, 76), (31, 37), (4, 7), (400, 200), 50),
    3: Level(3, (84, 104), (34, 42), (19, 23), (12, 18), (200, 100), 25, True, ("year", "city", "owner")),
}


@lru_cache(maxsize=256)
def font(size: float) -> FreeTypeFont:
    """Pillow's embedded typeface (Aileron, public domain) at a size in pixels."""
    loaded = ImageFont.load_default(size)
    if not isinstance(loaded, FreeTypeFont):
        raise RuntimeError("Pillow was built without FreeType: the toy world cannot letter its signs")
    return loaded


def spelled_name(rng: random.Random) -> str:
    """Six random letters (level 3)."""
    return "".join(rng.choice(LETTERS) for _ in range(6))


def places_of(split: str, seed: int) -> tuple[str, ...]:
    """The places of one split: drawn by the world's seed, no two splits share one."""
    shuffled = list(PLACES)
    rng_of("places", seed).shuffle(shuffled)
    start = 0
    for name in SPLITS:
        end = start + PLACES_PER_SPLIT[name]
        if name == split:
            return tuple(shuffled[start:end])
        start = end
    return tuple(shuffled[start:])


def brands_of(split: str) -> tuple[str, ...]:
    """The brands that the signs of a split show (levels 1 and 2)."""
    return OPEN_BRANDS if split == "test_open" else BRANDS
