"""The tokenizer of the tiny model: every recurrent phrase of a toy episode is one token, so that episodes are short.

Anything else is bytes: any text encodes.
"""

from __future__ import annotations

from vlagent.agent.episode import LAST_TURN
from vlagent.model.tiny import PROTOCOL_PIECES
from vlagent.render.dialects import get_dialect
from vlagent.toy.lexicon import CITIES, COLOURS, FIRST_PIECES, PLACE_KINDS, PLACE_NAMES, SECOND_PIECES, YEARS
from vlagent.toy.world import SYSTEM_PROMPT

GRID = tuple(range(0, 1001, 50))
"""Coordinates that are one token."""
DIFFERENCES = tuple(range(YEARS[-1] - YEARS[0] + 1))
"""Numbers that are one token."""

_QUESTIONS = (
    "\nWhat does the ",
    " sign say?",
    "\nWhen was ",
    " founded?",
    " opened?",
    "the place in the photo",
    "the brand on the ",
    " sign",
    "\nHow many years lie between the founding of the brand on the ",
    " sign and the opening of the place in the photo?",
    "\nIn which city is ",
    " based?",
    "\nIn which city does ",
    " stand?",
    "\nWho owns ",
)
_THOUGHTS = (
    "zoom on the ",
    "find the place",
    "search ",
    "it says ",
    "the answer is ",
    "the years are ",
    " and ",
    ", the answer is ",
    "it cannot be seen, so guess",
    "it is not written, so guess",
    "take a guess",
    "guess",
    "zoom somewhere",
    "no tools, so say it",
)
_CALLS = (
    '</think>\n<tool_call>\n{"name": "',
    '", "arguments": {"bbox": [',
    '", "arguments": {"query": "',
    '", "arguments": {"image_index": ',
    "}}\n</tool_call>",
    '"}}\n</tool_call>',
    "</think>\n<answer>",
    " founded",
    " opened",
    " based",
    " stands",
    " owned",
)
_RESULTS = (
    "<tool_response>\n",
    "\n</tool_response>",
    "The region [",
    "] of image 0 (256 x 128 pixels).",
    "Pages that show image 0:\nTitle 1: ",
    ".png)",
    "No page shows image 0.",
    "No results for ",
    " (corpus.jsonl)\n",
    "\n\n",
    "\n\nSummary: ",
    " was founded in ",
    " was opened in ",
    " is based in ",
    " stands in ",
    " is owned by ",
    " Group",
    " (",
    "Old ",
    " Hotel",
    " Road",
    " Annex",
    "Error: ",
    f"\n{LAST_TURN}",
    "Image 0: ",
    *(f"\nImage {n}: " for n in range(1, 7)),
    *(f"\nImage {n} (result 1): " for n in range(1, 7)),
    *(f"[{n}] " for n in range(1, 11)),
    "Results of searches made for this question:\n",
    "\n\nQuestion: ",
)


def pieces() -> tuple[str, ...]:
    """Every string that is one token."""
    prompts = (SYSTEM_PROMPT, get_dialect("default").system_prompt([], None, 1))
    names = (*FIRST_PIECES, *SECOND_PIECES, *PLACE_NAMES, *(f" {kind}" for kind in PLACE_KINDS), *CITIES)
    numbers = (*map(str, GRID), *map(str, YEARS), *map(str, DIFFERENCES))
    own = (*PROTOCOL_PIECES, *_QUESTIONS, *_THOUGHTS, *_CALLS, *_RESULTS)
    return tuple(dict.fromkeys((*own, *COLOURS, *names, *numbers, *prompts)))
