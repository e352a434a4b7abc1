"""Forward passes of the unmodified model over the slots of a `KvCache`.

Shape letters: R = rows (neighbouring slots), Q = new tokens a row, D = hidden size, V = vocabulary.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vlagent.errors import UserError
from vlagent.model.kv import KvCache
from vlagent.model.load import Pixels
from vlagent.model.logprobs import stack_pixels
from vlagent.types import Ids

SPAN_STEP = 32
"""Attention spans are rounded up to this, so that shapes repeat."""


@dataclass(frozen=True, eq=False)
class Extension:
    """What one slot's conversation grows by."""

    start: int
    """Tokens that the slot already holds."""
    ids: Ids
    """[Q]"""
    positions: NDArray[np.int64]
    """[3, Q]"""
    images: Sequence[tuple[Pixels, int]]
    """Pictures with placeholders among `ids`, and how many of their first placeholders lie before `start`."""


class Decoder:
    """A model, its cache, and the two passes of generation: `extend` with a prompt, `step` by one token a row."""

    def __init__(
        self, model: Any, fillers: tuple[int, int], slots: int, capacity: int, fixed_span: int | None = None
    ) -> None:
        """`fillers` are the ids of the image placeholder and of padding; `fixed_span` makes all attention that wide."""
        attention = model.config._attn_implementation
        if attention not in ("sdpa", "eager"):
            raise UserError(
                f"attention {attention!r}: in-process generation needs sdpa or eager (load_policy's option)"
            )
        self.model = model.get_base_model() if hasattr(model, "get_base_model") else model
        self._text = self.model.model.language_model
        weight = self._text.embed_tokens.weight
        self.device, self._dtype = weight.device, weight.dtype
        self._additive = attention == "eager"
        self.cache = KvCache(self.model.config.get_text_config(), slots, capacity, weight.device, weight.dtype)
        (self._image_pad, self._pad), self._fixed_span = fillers, fixed_span
        known = inspect.signature(self._text.forward).parameters
        self._cache_name = "cache" if "cache" in known else "past_key_values"

    def extend(self, first: int, rows: Sequence[Extension], chunk: int, multiple_of: int = 1) -> Tensor:
        """Feed prompts to slots `first`, `first + 1`, ...; logits [R, V] after each row's last token."""
        longest = max(len(row.ids) for row in rows)
        width = -(-longest // multiple_of) * multiple_of
        self.cache.grow(max(row.start for row in rows) + width)
        ids, positions = self._pad_rows(rows, width)
        embeds, visual, deep = self._embed(rows, ids)
        starts = torch.tensor([row.start for row in rows], device=self.device)
        last = torch.tensor([len(row.ids) - 1 for row in rows], device=self.device)
        ends = embeds.new_zeros(len(rows), embeds.shape[-1])
        for a in range(0, width, chunk):
            part = slice(a, min(width, a + chunk))
            seen = None if visual is None else visual[:, part]
            features = None if seen is None else [level[:, part][seen] for level in deep]
            mask = self._aim(first, starts + a, part.stop - a, max(row.start for row in rows) + part.stop)
            hidden = self._forward(embeds[:, part], mask, positions[:, :, part], seen, features)
            here = (last >= part.start) & (last < part.stop)
            ends[here] = hidden[here, last[here] - a]
        return self._logits(ends)

    def step(self, tokens: Sequence[int], positions: Sequence[int], starts: Sequence[int]) -> Tensor:
        """Feed one token to each of the slots 0, 1, ...; logits [R, V]."""
        self.cache.grow(max(starts) + 1)
        ids = torch.tensor(tokens, device=self.device)[:, None]
        places = torch.tensor(positions, device=self.device)[None, :, None].expand(3, -1, 1)
        mask = self._aim(0, torch.tensor(starts, device=self.device), 1, max(starts) + 1)
        hidden = self._forward(self._text.embed_tokens(ids), mask, places)
        return self._logits(hidden[:, 0])

    def _logits(self, hidden: Tensor) -> Tensor:
        logits: Tensor = self.model.lm_head(hidden)
        return logits

    def _aim(self, first: int, starts: Tensor, width: int, need: int) -> Tensor:
        span = self._fixed_span or min(self.cache.capacity, -(-need // SPAN_STEP) * SPAN_STEP)
        seen = self.cache.aim(first, starts, width, span)
        if not self._additive:
            return seen
        return torch.zeros(seen.shape, device=self.device, dtype=self._dtype).masked_fill(
            ~seen, torch.finfo(self._dtype).min
        )

    def _forward(
        self,
        embeds: Tensor,
        mask: Tensor,
        positions: Tensor,
        visual: Tensor | None = None,
        features: list[Tensor] | None = None,
    ) -> Tensor:
        deep = {"visual_pos_masks": visual, "deepstack_visual_embeds": features} if features else {}
        hidden: Tensor = self._text(
            inputs_embeds=embeds,
            position_ids=positions,
            attention_mask=mask,
            use_cache=True,
            **{self._cache_name: self.cache},
            **deep,
        ).last_hidden_state
        return hidden

    def _pad_rows(self, rows: Sequence[Extension], width: int) -> tuple[Tensor, Tensor]:
        ids = np.full((len(rows), width), self._pad, np.int64)
        positions = np.zeros((3, len(rows), width), np.int64)
        for i, row in enumerate(rows):
            ids[i, : len(row.ids)] = row.ids
            positions[:, i, : len(row.ids)] = row.positions
        return torch.from_numpy(ids).to(self.device), torch.from_numpy(positions).to(self.device)

    def _embed(self, rows: Sequence[Extension], ids: Tensor) -> tuple[Tensor, Tensor | None, list[Tensor]]:
        """Embeddings [R, Q, D] with pictures in place, where they are [R, Q], and dense deepstack levels [R, Q, D]."""
        embeds = self._text.embed_tokens(ids)
        if not any(row.images for row in rows):
            return embeds, None, []
        levels = self._features(rows)
        visual = ids == self._image_pad
        where = visual[..., None]
        deep = [torch.zeros_like(embeds).masked_scatter(where, level.to(embeds.dtype)) for level in levels[1:]]
        return embeds.masked_scatter(where, levels[0].to(embeds.dtype)), visual, deep

    def _features(self, rows: Sequence[Extension]) -> list[Tensor]:
        """Visual tokens in order of their placeholders: the tower's output, then each deepstack level."""
        wanted = [(pixels, skip) for row in rows for pixels, skip in row.images]
        unique = {pixels.digest: pixels for pixels, _ in wanted}
        batches = [[pixels] for pixels in unique.values()] if self._fixed_span else [list(unique.values())]
        known: dict[int, list[Tensor]] = {}
        for batch in batches:
            patches, grid = stack_pixels(batch)
            out = self.model.model.get_image_features(patches.to(self.device), grid.to(self.device), return_dict=True)
            levels = [out.pooler_output, *(getattr(out, "deepstack_features", None) or [])]
            known |= {pixels.digest: [level[i] for level in levels] for i, pixels in enumerate(batch)}
        count = len(known[wanted[0][0].digest])
        return [torch.cat([known[pixels.digest][k][skip:] for pixels, skip in wanted]) for k in range(count)]
