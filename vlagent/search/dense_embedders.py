"""Texts to vectors of unit length. Models are loaded at the first use; `static` needs neither torch nor a network.

Shape letters: n = texts, d = numbers of a vector.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from vlagent.errors import UserError

Floats = NDArray[np.float32]
STATIC = "static"
_E5 = re.compile(r"(^|[/_-])(multilingual-)?e5-", re.IGNORECASE)


class Embedder(Protocol):
    """Queries and passages to vectors; their dot product says how well they fit."""

    @property
    def dim(self) -> int: ...

    def queries(self, texts: Sequence[str]) -> Floats: ...

    def passages(self, texts: Sequence[str]) -> Floats: ...


def open_embedder(name: str = STATIC) -> Embedder:
    """`static`, or any sentence-transformers model by name or folder. UserError says what is missing."""
    if name == STATIC:
        return StaticEmbedder()
    return SentenceEmbedder(name)


class StaticEmbedder:
    """Mean of word vectors that ship in the wheel of wordllama; no order of words, English mostly."""

    dim: int = 256

    def queries(self, texts: Sequence[str]) -> Floats:
        """[n, 256]"""
        return self.passages(texts)

    def passages(self, texts: Sequence[str]) -> Floats:
        """[n, 256]"""
        tokenizer, table = self._parts
        pieces = tokenizer.encode_batch(
            [text.encode("utf-8", "replace").decode() for text in texts], add_special_tokens=False
        )
        means = [table[piece.ids].mean(axis=0) if piece.ids else np.zeros(self.dim) for piece in pieces]
        return unit(np.array(means, np.float32).reshape(len(means), self.dim))

    @cached_property
    def _parts(self) -> tuple[Any, Floats]:
        """The tokenizer, and [tokens, 256] the vectors. Importing wordllama would set up logging for all of us."""
        spec = find_spec("wordllama")
        if spec is None or spec.origin is None:
            raise UserError("the static embedder needs wordllama: pip install 'vlagent[dense]'")
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer

        wheel = Path(spec.origin).parent
        tokenizer = Tokenizer.from_file(str(wheel / "tokenizers" / "l2_supercat_tokenizer_config.json"))
        tokenizer.no_padding()
        tokenizer.no_truncation()
        table = load_file(wheel / "weights" / "l2_supercat_256.safetensors")["embedding.weight"]
        return tokenizer, np.asarray(table, np.float32)


class SentenceEmbedder:
    """A sentence-transformers model. E5 models get the prefixes that they were trained with."""

    def __init__(self, name: str, *, batch: int = 64, device: str | None = None) -> None:
        self.name = name
        self._batch, self._device = batch, device
        self._prefixes = ("query: ", "passage: ") if _E5.search(name) else ("", "")

    @property
    def dim(self) -> int:
        """Numbers of a vector."""
        size = self._model.get_embedding_dimension()
        if size is None:
            raise UserError(f"embedder {self.name}: its vectors have no fixed size; choose another model")
        return int(size)

    def queries(self, texts: Sequence[str]) -> Floats:
        """[n, d]"""
        return self._embed([self._prefixes[0] + text for text in texts])

    def passages(self, texts: Sequence[str]) -> Floats:
        """[n, d]"""
        return self._embed([self._prefixes[1] + text for text in texts])

    def _embed(self, texts: list[str]) -> Floats:
        if not texts:
            return np.zeros((0, self.dim), np.float32)
        raw = self._model.encode(texts, batch_size=self._batch, convert_to_numpy=True, show_progress_bar=False)
        return unit(np.asarray(raw, np.float32))

    @cached_property
    def _model(self) -> Any:
        if find_spec("sentence_transformers") is None:
            raise UserError(f"embedder {self.name}: needs sentence-transformers: pip install 'vlagent[dense]'")
        from sentence_transformers import SentenceTransformer

        try:
            return SentenceTransformer(self.name, device=self._device)
        except (OSError, ValueError) as error:
            reason = " ".join(str(error).split())[:160]
            raise UserError(
                f"embedder {self.name}: cannot be loaded ({reason}); give a model folder, or `static`"
            ) from None


def unit(vectors: Floats) -> Floats:
    """[n, d] at length 1; a zero vector stays."""
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(length, 1e-12), dtype=np.float32)
