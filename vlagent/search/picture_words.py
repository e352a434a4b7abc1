"""Visual words: a vocabulary learnt from the collection, and 64-bit signatures inside each word.

Nister and Stewenius, "Scalable recognition with a vocabulary tree" (CVPR 2006); Jegou, Douze and Schmid, "Hamming
embedding and weak geometric consistency for large scale image search" (ECCV 2008).

Shape letters: n = descriptors, k = words.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

import numpy as np
import threadpoolctl
from numpy.typing import NDArray

from vlagent.search.picture_features import Bytes, Floats

FEW_WORDS, MANY_WORDS = 4096, 65_536
WORDS_A_PICTURE = 8
"""Larger collections get more words, so that a query does not meet more keypoints a word."""
PER_WORD = 20
"""Training descriptors a word; smaller collections get fewer words."""
BLOCK = 1 << 24
"""Distances that are held at once."""
PROBED = 6
"""Branches of the vocabulary that a descriptor's word is looked for in."""
Words = NDArray[np.uint16]
Signatures = NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Centres of the words in descriptor space."""

    centres: Floats
    """[k, 128], those of a branch side by side."""
    branches: Floats
    """[b, 128] centres of the level above."""
    starts: NDArray[np.int64]
    """[b + 1] first word of each branch."""
    pictures: int
    """Size of the collection that it was made for; a far bigger one deserves a new vocabulary."""

    def nearest(self, descriptors: Bytes, count: int) -> NDArray[np.intp]:
        """[n, count] the words closest to each descriptor, best first, looked for in PROBED branches."""
        data = descriptors.astype(np.float32)
        count, probed = min(count, len(self.centres)), min(PROBED, len(self.branches))
        widest = int(np.diff(self.starts).max())
        distance = np.full((len(data), probed, widest), np.inf, np.float32)
        to_branch = _distances(data, self.branches)
        branch = np.argpartition(to_branch, probed - 1, axis=1)[:, :probed]
        order = np.argsort(branch, axis=None, kind="stable")
        row, slot = np.divmod(order, probed)
        ends = np.searchsorted(branch.ravel()[order], np.arange(len(self.branches) + 1))
        for b in range(len(self.branches)):
            mine = slice(ends[b], ends[b + 1])
            words = self.centres[self.starts[b] : self.starts[b + 1]]
            distance[row[mine], slot[mine], : len(words)] = _distances(data[row[mine]], words)
        flat = distance.reshape(len(data), probed * widest)
        best = np.argpartition(flat, count - 1, axis=1)[:, :count] if flat.shape[1] > count else _all(flat)
        best = np.take_along_axis(best, np.take_along_axis(flat, best, axis=1).argsort(axis=1, kind="stable"), axis=1)
        probe, leaf = np.divmod(best, widest)
        return np.asarray(self.starts[np.take_along_axis(branch, probe, axis=1)] + leaf, dtype=np.intp)

    def signatures(self, descriptors: Bytes, words: NDArray[np.intp]) -> Signatures:
        """[n] on which side of 64 random planes through its word's centre each descriptor lies."""
        offset = (descriptors.astype(np.float32) - self.centres[words]) @ _planes()
        return np.asarray(np.packbits(offset > 0, axis=1).view(np.uint64).ravel())


def hamming(a: Signatures, b: Signatures) -> NDArray[np.int64]:
    """[n] bits that differ."""
    halves = np.bitwise_xor(a, b).view(np.uint16).reshape(-1, 4)
    return np.asarray(_ones()[halves].sum(axis=1, dtype=np.int64))


def learn(descriptors: Bytes, pictures: int) -> Vocabulary:
    """Two levels of k-means; the same descriptors always give the same words."""
    rng = np.random.default_rng(20_251_231)
    most = PER_WORD * words_for(pictures)
    if len(descriptors) > most:
        descriptors = descriptors[np.sort(rng.choice(len(descriptors), most, replace=False))]
    data = descriptors.astype(np.float32)
    words = int(np.clip(len(data) // PER_WORD, 1, words_for(pictures)))
    if not len(data):
        data = np.zeros((1, 128), np.float32)
    top = _kmeans(data, max(1, round(words**0.5)), rng)
    branch = _closest(data, top)
    used = np.unique(branch)
    leaves = [_kmeans(data[branch == b], max(1, round(words * float(np.mean(branch == b)))), rng) for b in used]
    starts = np.cumsum([0, *map(len, leaves)])
    return Vocabulary(np.concatenate(leaves), top[used], starts, pictures)


def _kmeans(data: Floats, k: int, rng: np.random.Generator, rounds: int = 8) -> Floats:
    k = min(k, len(data))
    centres = data[np.sort(rng.choice(len(data), k, replace=False))].copy()
    for _ in range(rounds if k > 1 else 1):
        nearest = _closest(data, centres)
        counts = np.bincount(nearest, minlength=k)
        order = np.argsort(nearest, kind="stable")
        starts = np.concatenate(([0], np.cumsum(counts)[:-1]))
        filled = counts > 0
        sums = np.add.reduceat(data[order], starts[filled], axis=0)
        centres[filled] = sums / counts[filled][:, None]
    return centres


def words_for(pictures: int) -> int:
    """Words of a vocabulary for so many pictures."""
    return int(np.clip(WORDS_A_PICTURE * pictures, FEW_WORDS, MANY_WORDS))


def _closest(data: Floats, centres: Floats) -> NDArray[np.intp]:
    """[n] the nearest centre of each descriptor."""
    rows = max(1, BLOCK // len(centres))
    parts = [_distances(data[a : a + rows], centres).argmin(axis=1) for a in range(0, len(data), rows)]
    return np.concatenate(parts) if parts else np.zeros(0, np.intp)


def _all(flat: Floats) -> NDArray[np.intp]:
    return np.tile(np.arange(flat.shape[1]), (len(flat), 1))


def _distances(data: Floats, centres: Floats) -> Floats:
    """[n, k] squared distances, less the part that is the same for all centres."""
    return np.asarray((centres * centres).sum(axis=1)[None, :] - 2.0 * (data @ centres.T), dtype=np.float32)


def one_thread() -> AbstractContextManager[Any]:
    """Small products are no faster on many threads, and the threads that wait for work burn the other cores."""
    return cast(AbstractContextManager[Any], _pools().limit(limits=1, user_api="blas"))


@cache
def _pools() -> Any:
    return threadpoolctl.ThreadpoolController()


@cache
def _planes() -> Floats:
    """[128, 64]"""
    random = np.random.default_rng(64).standard_normal((128, 128))
    return np.asarray(np.linalg.qr(random)[0][:, :64], dtype=np.float32)


@cache
def _ones() -> Bytes:
    """[65536] bits set in each 16-bit number."""
    numbers = np.arange(1 << 16, dtype=np.uint32)
    return np.asarray(sum((numbers >> bit) & 1 for bit in range(16)), dtype=np.uint8)
