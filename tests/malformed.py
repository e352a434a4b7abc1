"""A seeded generator of malformed turns: named kinds, every dialect, each with its expected outcome.

`make(kind, dialect, rng)` writes one turn for an episode with ONE input picture and the tools `text_search`,
`image_search` and `image_crop`. `kinds_of(dialect)` names the kinds that exist in a dialect: faults of the tagged text
do not exist where calls are native, and the other way round.
"""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random

from tests.malformed_calls import CALL_KINDS
from tests.malformed_turns import NATIVE_KINDS, TEXT_KINDS, Malformed, thought
from vlagent.chat.base import NativeCall
from vlagent.render.dialects import Dialect

__all__ = ["Malformed", "kinds_of", "make"]


def kinds_of(dialect: Dialect) -> list[str]:
    """Every kind that exists in a dialect, in a fixed order."""
    return [*CALL_KINDS, *(NATIVE_KINDS if dialect.native else TEXT_KINDS)]


def make(kind: str, dialect: Dialect, rng: Random) -> Malformed:
    """One malformed turn of a kind."""
    if kind not in CALL_KINDS:
        return (NATIVE_KINDS if dialect.native else TEXT_KINDS)[kind](dialect, rng)
    wanted = CALL_KINDS[kind](dialect, rng)
    arguments = wanted.arguments if wanted.raw else json.dumps(wanted.arguments)
    turn = Malformed("", wanted.outcome, wanted.repairs, wanted.format_ok)
    if dialect.native:
        native = NativeCall(f"call_{rng.getrandbits(48):x}", wanted.name, arguments)
        return replace(turn, native_calls=(native,), finish_reason="tool_calls")
    body = f'{{"name": {json.dumps(wanted.name)}, "arguments": {arguments}}}'
    return replace(turn, text=f"{thought(dialect, rng)}<tool_call>{body}</tool_call>")
