"""Faults inside one call: wrong numbers, names and JSON. They exist in every dialect."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from vlagent.render.dialects import Dialect

WORDS = ("sign", "tower", "blue", "left", "1954", "Zürich", "看板", "é", "🙂", "x < y", "50 %", "it's", "[1]", "name")


@dataclass(frozen=True)
class Wanted:
    """A call on the wire, before it is put into text or into a native call."""

    name: Any
    arguments: Any
    """A value, or text (already JSON) where `raw` is set."""
    outcome: str = "error"
    repairs: tuple[str, ...] | None = ()
    format_ok: bool = False
    raw: bool = False


def words(rng: Random, most: int = 8) -> str:
    return " ".join(rng.choice(WORDS) for _ in range(rng.randint(1, most)))


def box(d: Dialect, rng: Random) -> list[float]:
    """A good box in the dialect's scale."""
    x1, y1 = rng.randint(10, 600), rng.randint(10, 600)
    return [on_scale(d, side) for side in (x1, y1, x1 + rng.randint(50, 390), y1 + rng.randint(50, 390))]


def on_scale(d: Dialect, side: float) -> float:
    return int(side) if d.scale > 1 else round(side / 1000, 3)


def crop(d: Dialect, rng: Random, **changes: Any) -> dict[str, Any]:
    """Arguments of a crop on the wire; `changes` by canonical name, `...` leaves one out."""
    wire = d.wire("image_crop")
    values = {"bbox": box(d, rng), "image_index": d.first, **changes}
    arguments = {wire.argument(name): value for name, value in values.items() if value is not ...}
    return arguments | dict.fromkeys(wire.extra, words(rng, 2))


CallKind = Callable[[Dialect, Random], Wanted]
CALL_KINDS: dict[str, CallKind] = {}
"""Faults inside one call: they exist in text and native dialects."""


def _crop_kind(name: str, outcome: str, repairs: tuple[str, ...] | None, change: Callable[..., dict[str, Any]]) -> None:
    def build(d: Dialect, rng: Random) -> Wanted:
        changed = change(d, rng, box(d, rng))
        return Wanted(d.wire("image_crop").name, crop(d, rng, **changed), outcome, repairs)

    CALL_KINDS[name] = build


def _search_kind(name: str, outcome: str, repairs: tuple[str, ...], change: Callable[[Random], Any]) -> None:
    def build(d: Dialect, rng: Random) -> Wanted:
        return Wanted(d.wire("text_search").name, change(rng), outcome, repairs)

    CALL_KINDS[name] = build


def _wider(d: Dialect, rng: Random, b: list[float]) -> list[float]:
    """Up to 5 % outside."""
    return [-on_scale(d, rng.randint(1, 50)), b[1], b[2], d.scale + on_scale(d, rng.randint(1, 49))]


def _far(d: Dialect, rng: Random, b: list[float]) -> list[float]:
    return [b[0], b[1], d.scale + on_scale(d, rng.randint(51, 9_000)), b[3]]


def _beside(d: Dialect, rng: Random, b: list[float]) -> list[float]:
    """Wholly outside, though within the 5 %."""
    shift = d.scale + on_scale(d, rng.randint(0, 10))
    return [shift, b[1], shift + on_scale(d, 20), b[3]]


def _other_scale(d: Dialect, rng: Random, b: list[float]) -> list[float]:
    return [round(side / 1000, 3) for side in b] if d.scale > 1 else [side * 1000 for side in b]


def _flat(d: Dialect, rng: Random, b: list[float]) -> list[float]:
    return [b[0], b[1], b[0], b[3]] if rng.random() < 0.5 else [b[0], b[3], b[2], b[3]]


def _one_bad(rng: Random, b: list[float], bad: Any) -> list[Any]:
    at = rng.randrange(4)
    return [*b[:at], bad, *b[at + 1 :]]


_crop_kind("bbox as text", "call", ("bbox",), lambda d, r, b: {"bbox": json.dumps(b)})
_crop_kind("bbox numbers as text", "call", ("bbox",), lambda d, r, b: {"bbox": [str(side) for side in b]})
_crop_kind("bbox in corner pairs", "call", ("bbox",), lambda d, r, b: {"bbox": [b[:2], b[2:]]})
_crop_kind("bbox in a list", "call", ("bbox",), lambda d, r, b: {"bbox": [b]})
_crop_kind(
    "bbox as object", "call", ("bbox",), lambda d, r, b: {"bbox": dict(zip(("x1", "y1", "x2", "y2"), b, strict=True))}
)
_crop_kind("bbox swapped", "call", ("bbox",), lambda d, r, b: {"bbox": [*b[2:], *b[:2]]})
_crop_kind("bbox slightly outside", "call", ("bbox",), lambda d, r, b: {"bbox": _wider(d, r, b)})
_crop_kind("bbox far outside", "error", (), lambda d, r, b: {"bbox": _far(d, r, b)})
_crop_kind("bbox beside the picture", "error", (), lambda d, r, b: {"bbox": _beside(d, r, b)})
_crop_kind("bbox on another scale", "error", (), lambda d, r, b: {"bbox": _other_scale(d, r, b)})
_crop_kind("bbox without area", "error", (), lambda d, r, b: {"bbox": _flat(d, r, b)})
_crop_kind("bbox of too few numbers", "error", (), lambda d, r, b: {"bbox": b[: r.randrange(4)]})
_crop_kind("bbox of too many numbers", "error", (), lambda d, r, b: {"bbox": b + b[: r.randint(1, 4)]})
_crop_kind("bbox with NaN", "error", (), lambda d, r, b: {"bbox": _one_bad(r, b, float("nan"))})
_crop_kind("bbox with infinity", "error", (), lambda d, r, b: {"bbox": _one_bad(r, b, float("inf"))})
_crop_kind("bbox with a boolean", "error", (), lambda d, r, b: {"bbox": _one_bad(r, b, r.random() < 0.5)})
_crop_kind("bbox with null", "error", (), lambda d, r, b: {"bbox": _one_bad(r, b, None)})
_crop_kind("bbox with a word", "error", (), lambda d, r, b: {"bbox": _one_bad(r, b, "left")})
_crop_kind("bbox with a huge integer", "error", (), lambda d, r, b: {"bbox": _one_bad(r, b, 10 ** r.randint(20, 400))})
_crop_kind("bbox missing", "error", (), lambda d, r, b: {"bbox": ...})
_crop_kind("bbox nested deeply", "error", (), lambda d, r, b: {"bbox": _nested(b, r.randint(40, 400))})
_crop_kind("index as text", "call", ("image_index",), lambda d, r, b: {"image_index": str(d.first)})
_crop_kind("index missing", "call", ("image_index",), lambda d, r, b: {"image_index": ...})
_crop_kind("index null", "call", ("image_index",), lambda d, r, b: {"image_index": None})
_crop_kind("index of no picture", "error", (), lambda d, r, b: {"image_index": d.first + r.randint(1, 99)})
_crop_kind("index negative", "error", (), lambda d, r, b: {"image_index": -r.randint(1, 99)})
_crop_kind("index boolean", "error", (), lambda d, r, b: {"image_index": r.random() < 0.5})
_crop_kind("index with a fraction", "error", (), lambda d, r, b: {"image_index": d.first + r.choice((0.5, 0.1))})
_crop_kind("index in words", "error", (), lambda d, r, b: {"image_index": r.choice(("first", "the input", ""))})
_search_kind("query empty", "error", (), lambda r: {"query": r.choice(("", " ", "\n", "\t "))})
_search_kind("query not text", "error", (), lambda r: {"query": r.choice((3, None, True, ["a"], {"a": 1}))})
_search_kind("query by another name", "error", (), lambda r: {r.choice(("q", "text", "queries")): words(r)})
_search_kind("arguments are a list", "error", (), lambda r: [words(r)])
_search_kind(
    "unknown argument", "call", ("unknown_argument",), lambda r: {"query": words(r), "lang": r.choice(("en", 1, None))}
)


def _nested(value: Any, times: int) -> Any:
    for _ in range(times):
        value = [value]
    return value


def _call_kind(build: CallKind) -> CallKind:
    CALL_KINDS[build.__name__.strip("_").replace("_", " ")] = build
    return build


@_call_kind
def _unknown_tool(d: Dialect, rng: Random) -> Wanted:
    return Wanted(rng.choice(("fly", "python", "crop", "", "IMAGE_CROP", "<b>")), {})


@_call_kind
def _tool_of_another_dialect(d: Dialect, rng: Random) -> Wanted:
    foreign = ("image_zoom_in_tool", "crop_image", "image_crop", "web_search", "text_search_tool", "text_search")
    own = {d.wire(name).name for name in ("text_search", "image_search", "image_crop")}
    return Wanted(rng.choice([name for name in foreign if name not in own]), {"query": words(rng)})


@_call_kind
def _truncated_json(d: Dialect, rng: Random) -> Wanted:
    text = json.dumps(crop(d, rng))
    return Wanted(d.wire("image_crop").name, text[: rng.randint(1, len(text) - 1)], raw=True)


@_call_kind
def _no_json_at_all(d: Dialect, rng: Random) -> Wanted:
    return Wanted(d.wire("text_search").name, f"please, {words(rng)} / {rng.random()}", raw=True)


@_call_kind
def _single_quotes(d: Dialect, rng: Random) -> Wanted:
    text = str({**crop(d, rng), **dict.fromkeys(d.wire("image_crop").extra, "the sign")})
    return Wanted(d.wire("image_crop").name, text, "call", ("json",), raw=True)


@_call_kind
def _trailing_comma(d: Dialect, rng: Random) -> Wanted:
    text = json.dumps(crop(d, rng))[:-1] + rng.choice((",}", ", }", ",\n}"))
    return Wanted(d.wire("image_crop").name, text, "call", ("json",), raw=True)


@_call_kind
def _line_feed_in_a_string(d: Dialect, rng: Random) -> Wanted:
    text = f'{{"query": "{rng.randint(0, 99)}\n{rng.choice(("a", "b"))}"}}'
    return Wanted(d.wire("text_search").name, text, "call", ("json",), raw=True)


@_call_kind
def _key_given_twice(d: Dialect, rng: Random) -> Wanted:
    text = f'{{"query": "first", "query": "{rng.randint(0, 99)}"}}'
    return Wanted(d.wire("text_search").name, text, "call", ("duplicate_key",), raw=True)


@_call_kind
def _special_tokens_in_a_query(d: Dialect, rng: Random) -> Wanted:
    tokens = rng.choice(("<|im_end|><|im_start|>user", "<|endoftext|>", "<|vision_start|>", "[INST]"))
    return Wanted(d.wire("text_search").name, {"query": f"{words(rng)} {tokens}"}, "call", (), True)


@_call_kind
def _lone_surrogate_in_a_query(d: Dialect, rng: Random) -> Wanted:
    return Wanted(
        d.wire("text_search").name, f'{{"query": "a\\ud8{rng.randint(10, 99)} b"}}', "call", (), True, raw=True
    )


@_call_kind
def _index_written_as_a_float(d: Dialect, rng: Random) -> Wanted:
    return Wanted(d.wire("image_crop").name, crop(d, rng, image_index=float(d.first)), "call", (), True)
