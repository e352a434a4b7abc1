"""Which conversation lies in which slot of the cache, and what a new prompt can reuse of it.

Running conversations fill the slots 0, 1, ... without a gap, so that a decoding step is one slice; finished ones stay
behind them until their place is needed. Shape letters: S = slots, T = tokens, L = tokens of a prompt.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vlagent.model.kv import KvCache

Keys = NDArray[np.int64]
"""Token ids, with each image placeholder replaced by a negative digest of its picture, [L]."""

MIN_SHARED = 8
"""Shorter common starts are cheaper to compute than to copy."""


def common_start(a: Keys, b: Keys) -> int:
    """Tokens that two prompts have in common from their start."""
    width = min(len(a), len(b))
    same = a[:width] == b[:width]
    return width if same.all() else int(same.argmin())


class Slots:
    """Bookkeeping over a `KvCache`; moves keys and values along."""

    def __init__(self, cache: KvCache, count: int) -> None:
        self._cache = cache
        self.count = count
        self._keys = np.zeros((count, 256), np.int64)
        self.length = np.zeros(count, np.int64)
        """[S] tokens whose keys and values are valid."""
        self._shareable = np.zeros(count, np.bool_)
        self._used = np.zeros(count, np.int64)
        self._clock = 0

    def forget(self) -> None:
        """Nothing that is cached now may serve another prompt (the weights changed)."""
        self._shareable[:] = False

    def shared(self, keys: Keys) -> NDArray[np.int64]:
        """[S]: how many tokens from its start each slot has in common with a prompt."""
        width = min(len(keys), int(self.length.max(initial=0)))
        same = self._keys[:, :width] == keys[:width]
        same &= np.arange(width) < np.where(self._shareable, self.length, 0)[:, None]
        return np.where(same.all(1), width, same.argmin(1)) if width else np.zeros(self.count, np.int64)

    def place(self, keys: Keys, at: int, *, reuse: bool = True) -> int:
        """Bring a prompt to slot `at`, the first idle one; returns how many of its tokens are there already.

        At least the last token is left to compute, for its logits. Call `ready` once the rest is computed.
        """
        found, source = self._best(keys, reuse)
        if found and source >= at and found == self.length[source]:
            self.swap(source, at)
        else:
            self.swap(at + int(self._used[at:].argmin()), at)
            found, source = self._best(keys, reuse)
            if found and source != at:
                self._cache.copy(source, at, found)
        self._reserve(len(keys))
        self._keys[at, : len(keys)] = keys
        self.length[at] = len(keys)
        self._shareable[at] = False
        return found

    def _best(self, keys: Keys, reuse: bool) -> tuple[int, int]:
        """The longest common start with any slot, and that slot."""
        common = self.shared(keys[:-1])
        source = int(common.argmax())
        found = int(common[source])
        return (found, source) if reuse and found >= MIN_SHARED else (0, 0)

    def ready(self, at: int) -> None:
        """The prompt of a slot is computed: others may copy its start."""
        self._shareable[at] = True
        self.touch(at)

    def append(self, at: int, token: int) -> None:
        """One more token of a running conversation."""
        self._reserve(int(self.length[at]) + 1)
        self._keys[at, self.length[at]] = token
        self.length[at] += 1

    def touch(self, at: int) -> None:
        """This slot was used just now."""
        self._clock += 1
        self._used[at] = self._clock

    def swap(self, a: int, b: int) -> None:
        """Exchange two slots with all that they hold."""
        if a == b:
            return
        self._cache.swap(a, b, int(max(self.length[a], self.length[b])))
        for table in (self._keys, self.length, self._shareable, self._used):
            table[[a, b]] = table[[b, a]]

    def _reserve(self, tokens: int) -> None:
        if tokens > self._keys.shape[1]:
            extra = np.zeros((self.count, max(tokens - self._keys.shape[1], self._keys.shape[1])), np.int64)
            self._keys = np.concatenate((self._keys, extra), 1)
