"""The inverted index of a picture collection: the keypoints of each word, in memory-mapped segments.

A segment holds some pictures, sorted by word. Each run of the indexer adds one for what is new and joins small or
half-dead ones, so that a refresh costs what changed and opening costs next to nothing. A segment is complete before
`segments.json` names it; pictures that no segment holds (an older index, a run that was killed) are read from the
tables at opening.

Shape letters: P = pictures, N = keypoints of all, K = words.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vlagent.files import read_json, write_json
from vlagent.search.picture_features import Features, Floats
from vlagent.search.picture_store import Loaded, PictureStore
from vlagent.search.picture_words import Vocabulary, hamming

FOLDER = "postings"
STATE = "segments.json"
MULTIPLE = 3
"""Words that each keypoint of the query is looked up under."""
NEAR_BITS = 22
"""Of 64; keypoints whose signatures differ in more are not the same corner."""
MOST = 8
"""Segments; with more of them the smaller half is joined."""
LARGEST = 20_000
"""Pictures of a segment that is written at once."""
_ARRAYS = ("numbers", "sizes", "hashes", "counts", "starts", "owners", "points", "signatures")


@dataclass(frozen=True, eq=False)
class Segment:
    """Some pictures and their keypoints, sorted by word."""

    numbers: NDArray[np.int64]
    """[P] slots of the pictures, ascending."""
    sizes: NDArray[np.int32]
    """[P, 2] working width and height."""
    hashes: NDArray[np.uint64]
    """[P]"""
    counts: NDArray[np.int32]
    """[P] keypoints of each picture."""
    starts: NDArray[np.int64]
    """[K + 1] first keypoint of each word."""
    owners: NDArray[np.int32]
    """[N] picture of each keypoint, counted in this segment."""
    points: NDArray[np.float16]
    """[N, 2]"""
    signatures: NDArray[np.uint64]
    """[N]"""


def segment_of(loaded: Loaded, words: int) -> Segment:
    """Sort what the tables hold."""
    order = np.argsort(loaded.words, kind="stable")
    counts = np.bincount(loaded.owners, minlength=len(loaded.numbers)).astype(np.int32)
    return Segment(
        numbers=np.array(loaded.numbers, np.int64),
        sizes=np.array(loaded.sizes, np.int32).reshape(-1, 2),
        hashes=loaded.hashes,
        counts=counts,
        starts=np.searchsorted(loaded.words[order], np.arange(words + 1)).astype(np.int64),
        owners=loaded.owners[order],
        points=loaded.points[order],
        signatures=loaded.signatures[order],
    )


def refresh_segments(folder: Path, store: PictureStore) -> None:
    """Bring the segments up to date with the tables: a new one for new pictures, small and half-dead ones joined."""
    vocabulary = store.vocabulary()
    live = store.slots()
    kept = [(name, numbers) for name, numbers in _known(folder) if 2 * np.isin(numbers, live).sum() > len(numbers)]
    covered = np.concatenate([np.zeros(0, np.int64), *(numbers for _, numbers in kept)])
    fresh = np.setdiff1d(live, covered)
    if len(kept) + bool(len(fresh)) > MOST:
        kept.sort(key=lambda one: -len(one[1]))
        joined = [numbers for _, numbers in kept[MOST // 2 :]]
        kept, fresh = kept[: MOST // 2], np.union1d(fresh, np.intersect1d(np.concatenate(joined), live))
    names = [name for name, _ in kept]
    if vocabulary is not None:
        for start in range(0, len(fresh), LARGEST):
            part = fresh[start : start + LARGEST]
            names.append(_write(folder, segment_of(store.load(part.tolist()), len(vocabulary.centres))))
    (folder / FOLDER).mkdir(exist_ok=True)
    write_json(folder / FOLDER / STATE, {"segments": names})
    for path in (folder / FOLDER).iterdir():
        if path.is_dir() and path.name not in names:
            shutil.rmtree(path)


def open_segments(folder: Path, store: PictureStore, words: int) -> list[Segment]:
    """The segments of an index, and one in memory for the pictures that none of them holds.

    Those of an earlier vocabulary hold no living picture.
    """
    live = store.slots()
    there = [_read(folder / FOLDER / name) for name in _names(folder)]
    segments = [one for one in there if len(one.starts) == words + 1 and np.isin(one.numbers, live).any()]
    covered = np.concatenate([np.zeros(0, np.int64), *(segment.numbers for segment in segments)])
    rest = np.setdiff1d(live, covered)
    return [*segments, segment_of(store.load(rest.tolist()), words)] if len(rest) else segments


def _names(folder: Path) -> list[str]:
    path = folder / FOLDER / STATE
    return [str(name) for name in read_json(path)["segments"]] if path.exists() else []


def _known(folder: Path) -> list[tuple[str, NDArray[np.int64]]]:
    return [(name, np.load(folder / FOLDER / name / "numbers.npy")) for name in _names(folder)]


def _write(folder: Path, segment: Segment) -> str:
    name = f"{segment.numbers[0]:09}-{segment.numbers[-1]:09}-{len(segment.numbers)}"
    partial = folder / FOLDER / f"{name}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    for array in _ARRAYS:
        np.save(partial / f"{array}.npy", getattr(segment, array))
    shutil.rmtree(folder / FOLDER / name, ignore_errors=True)
    partial.rename(folder / FOLDER / name)
    return name


def _read(folder: Path) -> Segment:
    return Segment(**{name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in _ARRAYS})


class Postings:
    """All segments as one inverted index; a picture is known by its place in their order."""

    def __init__(self, segments: Sequence[Segment], live: NDArray[np.int64], words: int) -> None:
        """`live` are the slots that still hold a picture."""
        self._segments = list(segments)
        empty = np.zeros(0, np.int64)
        self.numbers = np.concatenate([empty, *(segment.numbers for segment in segments)])
        self.sizes = np.concatenate([np.zeros((0, 2), np.int32), *(segment.sizes for segment in segments)])
        self.hashes = np.concatenate([np.zeros(0, np.uint64), *(segment.hashes for segment in segments)])
        self.live = np.isin(self.numbers, live)
        self._first = np.cumsum([0, *(len(segment.numbers) for segment in segments)])
        counts = np.concatenate([np.zeros(0, np.int32), *(segment.counts for segment in segments)])
        self._share = self.live / np.sqrt(np.maximum(counts, 1))
        sizes = sum((np.diff(segment.starts) for segment in segments), np.zeros(words, np.int64))
        self._weight = np.log((int(sizes.sum()) + 1) / (sizes + 1)).clip(0.1) ** 2

    def postings(self, looks: Features, words: Vocabulary) -> int:
        """How many keypoints a query is compared with."""
        word = words.nearest(looks.descriptors, MULTIPLE).ravel()
        return int(sum((segment.starts[word + 1] - segment.starts[word]).sum() for segment in self._segments))

    def pairs(self, looks: Features, words: Vocabulary, most: int) -> list[tuple[int, Floats, Floats]]:
        """The `most` best candidates with their corners: picture, [m, 2] in the query, [m, 2] in the picture."""
        if not self._segments:
            return []
        query, owner, point, weight = self._near(looks, words)
        if not len(query):
            return []
        order = np.lexsort((-weight, query, owner))
        query, owner, point, weight = query[order], owner[order], point[order], weight[order]
        first = np.concatenate(([True], (owner[1:] != owner[:-1]) | (query[1:] != query[:-1])))
        query, owner, point, weight = query[first], owner[first], point[first], weight[first]
        votes = np.bincount(owner, weight, minlength=len(self.numbers)) * self._share
        top = np.argpartition(-votes, most)[:most] if len(votes) > most else np.arange(len(votes))
        best = top[np.lexsort((self.numbers[top], -votes[top]))]
        starts, ends = np.searchsorted(owner, best), np.searchsorted(owner, best, side="right")
        return [
            (int(picture), looks.points[query[a:b]], point[a:b].astype(np.float32))
            for picture, a, b in zip(best, starts, ends, strict=True)
            if b - a >= 4 and self.live[picture]
        ]

    def _near(self, looks: Features, words: Vocabulary) -> tuple[Any, Any, Any, Any]:
        """Keypoint of the query, picture, its point and the weight of every pair with similar signatures."""
        nearest = words.nearest(looks.descriptors, MULTIPLE)
        keypoint = np.repeat(np.arange(len(nearest)), nearest.shape[1])
        word = nearest.ravel()
        signature = words.signatures(looks.descriptors[keypoint], word)
        found = [self._near_in(at, word, signature) for at in range(len(self._segments))]
        pair, owner, point, bits = (np.concatenate(parts) for parts in zip(*found, strict=True))
        weight = self._weight[word[pair]] * np.exp(-((bits / 16.0) ** 2))
        return keypoint[pair], owner, point, weight.astype(np.float32)

    def _near_in(self, at: int, word: NDArray[np.intp], signature: NDArray[np.uint64]) -> tuple[Any, Any, Any, Any]:
        segment = self._segments[at]
        begin = segment.starts[word]
        lengths = segment.starts[word + 1] - begin
        pair = np.repeat(np.arange(len(word)), lengths)
        posting = np.arange(len(pair)) + np.repeat(begin - np.cumsum(lengths) + lengths, lengths)
        bits = hamming(segment.signatures[posting], signature[pair])
        near = np.flatnonzero(bits <= NEAR_BITS)
        posting = posting[near]
        return pair[near], segment.owners[posting] + self._first[at], segment.points[posting], bits[near]
