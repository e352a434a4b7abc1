"""Which pictures are the same: by their bytes, and by what they show where a copy was re-encoded or resized."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vlagent import images
from vlagent.errors import ServiceError
from vlagent.files import sha256_of
from vlagent.search.picture_features import phash
from vlagent.types import ImageRef

BANDS = 4
"""A 64-bit hash in four parts: two that differ in at most three bits agree in one part at least."""
NEAR = BANDS - 1
"""Bits in which the hashes of copies may differ."""
SIDE = 32
MAX_DIFFERENCE = 6.0
"""Mean grey levels by which small copies of one picture may differ."""
MIN_CONTRAST = 4.0
"""Grey levels; the hash of a flatter picture says nothing."""


@dataclass(frozen=True)
class Print:
    """What a picture is known by."""

    digest: str
    """SHA-256 of the file."""
    hash: int | None
    """64 bits of what it shows; None where it is flat, or was not decoded."""


def fingerprint(ref: ImageRef, *, decode: bool = True) -> Print:
    """Look at a picture, or without `decode` at its bytes only. Raises `ServiceError` where it cannot be read."""
    digest = sha256_of(Path(ref.path))
    if not decode:
        return Print(digest, None)
    grey = _small(ref.path, ref.width, ref.height)
    return Print(digest, phash(grey) if float(grey.std()) >= MIN_CONTRAST else None)


@lru_cache(maxsize=4096)
def _small(path: str, width: int, height: int) -> NDArray[np.uint8]:
    """The picture in grey at [SIDE, SIDE], whatever its shape."""
    picture = images.load(ImageRef(path=path, width=width, height=height), (SIDE, SIDE))
    return np.asarray(picture.convert("L"), dtype=np.uint8)


class Pictures:
    """Finds the pictures of one set that are those of another."""

    def __init__(self) -> None:
        self._by_digest: dict[str, list[str]] = {}
        self._by_band: dict[tuple[int, int], list[tuple[int, ImageRef, str]]] = {}

    def add(self, name: str, ref: ImageRef, known: Print) -> None:
        """Remember a picture under the name of its question."""
        self._by_digest.setdefault(known.digest, []).append(name)
        for band in _bands(known.hash):
            assert known.hash is not None
            self._by_band.setdefault(band, []).append((known.hash, ref, name))

    def same_file(self, known: Print) -> list[str]:
        """The names under which this very file was added."""
        return self._by_digest.get(known.digest, [])

    def same_look(self, ref: ImageRef, known: Print) -> list[str]:
        """The names of pictures that show the same, in the order in which they were added; its own file is one."""
        found = dict.fromkeys(self.same_file(known))
        for band in _bands(known.hash):
            for other, candidate, name in self._by_band.get(band, ()):
                if name not in found and ((other ^ (known.hash or 0)).bit_count() <= NEAR) and _alike(ref, candidate):
                    found[name] = None
        return list(found)


def _bands(value: int | None) -> Iterator[tuple[int, int]]:
    if value is None:
        return
    for place in range(BANDS):
        yield place, value >> (16 * place) & 0xFFFF


def _alike(a: ImageRef, b: ImageRef) -> bool:
    """Hashes agree by chance now and then; small copies do not."""
    if abs(a.width * b.height - b.width * a.height) > 0.03 * a.width * b.height:
        return False
    try:
        one, other = (_small(ref.path, ref.width, ref.height).astype(np.float32) for ref in (a, b))
    except ServiceError:
        return False
    return float(np.abs(one - other).mean()) <= MAX_DIFFERENCE


def plain_key(text: str) -> str:
    """A text without case, marks and spaces, to compare questions and answers by."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return re.sub(r"[\W_]+", " ", folded).strip()


def answer_keys(answers: Sequence[str]) -> frozenset[str]:
    """The answers, to compare them by; marks count where an answer is nothing else."""
    return frozenset(plain_key(answer) or answer.strip() for answer in answers)


def first_of(names: Iterable[str]) -> str:
    """One name, and how many more there are."""
    listed = list(names)
    return listed[0] if len(listed) == 1 else f"{listed[0]} and {len(listed) - 1} more"
