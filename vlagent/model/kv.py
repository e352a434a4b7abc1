"""Keys and values of many conversations of different length, in tensors that never move.

Shape letters: S = slots (one conversation each), A = key/value heads, T = capacity in tokens, E = head size, R = rows
of a forward pass (neighbouring slots), Q = new tokens a row.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class KvCache:
    """Stands in for a transformers cache in a model's own forward: `update` is all that attention layers call."""

    def __init__(self, text_config: Any, slots: int, capacity: int, device: torch.device, dtype: torch.dtype) -> None:
        heads = text_config.num_key_value_heads
        size = getattr(text_config, "head_dim", None) or text_config.hidden_size // text_config.num_attention_heads
        self._shape = (slots, heads, capacity, size)
        layers = range(text_config.num_hidden_layers)
        self.keys = [torch.zeros(self._shape, device=device, dtype=dtype) for _ in layers]
        """One [S, A, T, E] a layer; keys and values apart, each contiguous."""
        self.values = [torch.zeros(self._shape, device=device, dtype=dtype) for _ in layers]
        self._rows = slice(0, 0)
        self._index: tuple[Tensor, Tensor] | None = None
        self._span = 0

    @property
    def capacity(self) -> int:
        """Tokens a slot."""
        return self._shape[2]

    def grow(self, capacity: int) -> None:
        """Make room for more tokens a slot, at least half as many again, keeping what is there."""
        if capacity <= self.capacity:
            return
        capacity = max(capacity, self.capacity * 3 // 2)
        extra = (*self._shape[:2], capacity - self.capacity, self._shape[3])
        for store in (self.keys, self.values):
            store[:] = [torch.cat((old, old.new_zeros(extra)), 2) for old in store]
        self._shape = (*self._shape[:2], capacity, self._shape[3])

    def swap(self, a: int, b: int, length: int) -> None:
        """Exchange the first `length` tokens of two slots."""
        for tensor in (*self.keys, *self.values):
            old = tensor[a, :, :length].clone()
            tensor[a, :, :length] = tensor[b, :, :length]
            tensor[b, :, :length] = old

    def copy(self, source: int, target: int, length: int) -> None:
        """Copy the first `length` tokens of a slot."""
        for tensor in (*self.keys, *self.values):
            tensor[target, :, :length] = tensor[source, :, :length]

    def aim(self, first: int, starts: Tensor, width: int, span: int) -> Tensor:
        """Prepare a forward pass over slots `first`, `first + 1`, ...: row r writes its `width` tokens at `starts[r]`.

        Attention sees the first `span` tokens of each slot through the returned mask [R, 1, Q, span].
        """
        places = starts[:, None] + torch.arange(width, device=starts.device)
        self._rows = slice(first, first + len(starts))
        self._index = (torch.arange(len(starts), device=starts.device)[:, None], places)
        self._span = span
        return (torch.arange(span, device=starts.device) <= places[:, :, None])[:, None]

    def update(self, keys: Tensor, values: Tensor, layer: int, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """Write [R, A, Q, E] where `aim` said and return all that attention may look at, [R, A, span, E]."""
        assert self._index is not None, "aim() comes first"
        rows, places = self._index
        mine = self.keys[layer][self._rows], self.values[layer][self._rows]
        for store, new in zip(mine, (keys, values), strict=True):
            store[rows, :, places] = new.transpose(1, 2)
        return mine[0][:, :, : self._span], mine[1][:, :, : self._span]
