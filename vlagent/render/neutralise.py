"""Text from outside can never forge a turn, a result, an answer or an image slot."""

from __future__ import annotations

from collections.abc import Sequence


def neutralise(text: str, specials: Sequence[str] = ()) -> str:
    """The same text, as readable, with every protocol tag and special token broken.

    `specials` is the tokenizer's own list, where there is a tokenizer; well-known tokens are broken always. Idempotent.
    """
    raise NotImplementedError
